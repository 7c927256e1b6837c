// What the demo prints, and the same for machines.
#pragma once

#include <string>
#include <vector>

#include "contest.hpp"
#include "ferry/host_device.hpp"
#include "options.hpp"

namespace matmul_chain {

/// The link, and what it was derived from.
struct link_choice {
  ferry::link_speed device_to_host;
  ferry::link_speed host_to_device;
  bool balanced = false;  ///< chosen by the demo, not by FERRY_LINK_GBPS
  double forward_us = 0;  ///< of one segment
};

/// Before the work: sizes, budget and link.
void print_setting(options const& chosen, link_choice const& link);
/// After it: a row per policy, how to read it, and what to try next.
void print_table(options const& chosen, link_choice const& link, std::vector<outcome> const& outcomes);

/// Throws: `std::runtime_error` if the file cannot be opened for writing. Leaves what is in it.
void require_writable(std::string const& file);
/// Throws: `std::runtime_error` if the file cannot be written.
void write_json(options const& chosen, link_choice const& link, std::vector<outcome> const& outcomes);

}  // namespace matmul_chain
