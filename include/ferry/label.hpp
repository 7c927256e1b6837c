// A short text stored in place: names of items and operations travel through queues without allocating.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "ferry/error.hpp"

namespace ferry {

/// A text of at most `max_length` characters, without memory of its own.
class label {
 public:
  static constexpr std::size_t max_length = 63;

  constexpr label() noexcept = default;

  /// Throws: `invalid_argument` for more than `max_length` characters.
  template <typename Text>
  requires std::convertible_to<Text const&, std::string_view>
  constexpr label(Text const& text) : label(checked(std::string_view(text)), 0) {}

  /// Keeps what fits: for operation names, where a cut text is better than an error.
  static constexpr label truncated(std::string_view text) noexcept { return {text.substr(0, max_length), 0}; }

  [[nodiscard]] constexpr std::string_view view() const noexcept { return {text_.data(), size_}; }
  [[nodiscard]] std::string str() const { return std::string(view()); }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }

  friend constexpr bool operator==(label const& a, label const& b) noexcept { return a.view() == b.view(); }
  friend constexpr auto operator<=>(label const& a, label const& b) noexcept { return a.view() <=> b.view(); }

 private:
  constexpr label(std::string_view text, int) noexcept : size_(static_cast<unsigned char>(text.size())) {
    std::copy(text.begin(), text.end(), text_.begin());
  }
  static constexpr std::string_view checked(std::string_view text) {
    if (text.size() > max_length) {
      throw invalid_argument("the name '" + std::string(text) + "' is longer than " + std::to_string(max_length) +
                             " characters; shorten it");
    }
    return text;
  }

  unsigned char size_ = 0;  // first, so that short names lie close together
  std::array<char, max_length> text_{};
};

}  // namespace ferry
