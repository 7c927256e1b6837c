// The text of settings' values. For every kind of value, `read_x` takes text strictly and `write_x` gives
// text that `read_x` turns into the same value. Independent of the locale; any thread may call anything here.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/config.hpp"

namespace ferry::support {

/// What is wrong with a text, without its variable's name: the caller knows that and adds it.
class bad_value : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "4096", "512MiB", "1.5GiB", "2GB"; parts of a byte are cut off. Throws: `bad_value`, as all below.
[[nodiscard]] std::size_t read_bytes(std::string_view text);
[[nodiscard]] std::size_t read_bytes_within(std::string_view text, std::size_t least, std::size_t most);
/// The largest binary unit that gives a whole number: "64KiB", "4097".
[[nodiscard]] std::string write_bytes(std::size_t bytes);

/// Bytes as above, or a share of up to 100%; nothing at all is refused.
[[nodiscard]] byte_amount read_amount(std::string_view text);
[[nodiscard]] std::string write_amount(byte_amount amount);

[[nodiscard]] unsigned read_count(std::string_view text, unsigned least, unsigned most);
[[nodiscard]] double read_number(std::string_view text, double least, double most);
[[nodiscard]] std::string write_number(double value);

/// "12.5" for both directions, or "d2h,h2d".
[[nodiscard]] link_value read_link_pair(std::string_view text, double least, double most);
[[nodiscard]] std::string write_link(link_value value);

/// "5@0,2/1.5@20": from each step on a value for both directions, or d2h/h2d. Steps ascend from 0.
[[nodiscard]] std::vector<link_change> read_link_schedule(std::string_view text, double least, double most);
[[nodiscard]] std::string write_link_schedule(std::vector<link_change> const& schedule);

/// "keep", "every=4" and so on.
[[nodiscard]] policy_choice read_policy(std::string_view text);
[[nodiscard]] std::string write_policy(policy_choice const& policy);

/// One of `words`, spelled exactly.
[[nodiscard]] std::size_t read_word(std::string_view text, std::span<std::string_view const> words);

[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// The candidate with the fewest edits to `text`, or empty if none is near enough to have been meant.
[[nodiscard]] std::string_view nearest(std::string_view text, std::span<std::string_view const> candidates);

}  // namespace ferry::support
