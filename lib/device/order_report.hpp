// What the stream-order checker found, as sentences that name both operations. Threads: externally synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/order_clock.hpp"
#include "device/order_ranges.hpp"
#include "ferry/device.hpp"

namespace ferry {

/// An operation that is being checked, or one from the past, with everything needed to name it.
struct named_operation {
  label operation;
  std::string place;     ///< "stream compute", "host thread 1"
  bool on_host = false;  ///< run by a host thread, not by a stream
};

enum class fault : std::uint8_t { unordered_with_write, unordered_with_read, use_after_free };

/// One fault of one access, over all neighbouring bytes that share it.
struct finding {
  fault kind = fault::unordered_with_write;
  past_access earlier;
  std::shared_ptr<named_block const> block;
  address_range range;
};

/// Adds a finding, or widens the one it continues.
void add_finding(std::vector<finding>& findings, finding const& found);

[[nodiscard]] std::string describe(finding const& found, named_operation const& now, memory_access::mode how,
                                   named_operation const& earlier);
[[nodiscard]] std::string describe_overrun(named_operation const& now, memory_access::mode how, address_range accessed,
                                           named_block const& block);
[[nodiscard]] std::string describe_early_removal(named_block const& slab, std::string const& by_place, bool writing,
                                                 named_operation const& earlier);

/// Each text once, in the order found. One mistake in a loop must not fill the memory.
class violation_list {
 public:
  static constexpr std::size_t most = 100;

  void add(std::string text);
  /// The texts; a last line tells how many more there were.
  [[nodiscard]] std::vector<std::string> texts() const;

 private:
  std::vector<std::string> texts_;
  std::size_t left_out_ = 0;
};

}  // namespace ferry
