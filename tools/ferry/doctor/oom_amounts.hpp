// Amounts of bytes in a text, found by the words that stand before or behind them. For the readers of messages.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace ferry::command::oom {

/// "1.50 GiB", "2.00GiB", "21.95G", "512 bytes": bytes; PyTorch, XLA and Ferry mean powers of two by all units.
struct amount {
  std::size_t bytes = 0;
  std::size_t begin = 0;  ///< in the text
  std::size_t end = 0;
};
/// The one that begins there: digits, perhaps a fraction, a unit.
[[nodiscard]] std::optional<amount> amount_at(std::string_view text, std::size_t at);

/// The first one close behind the first of `words`.
[[nodiscard]] std::optional<std::size_t> after(std::string_view text, std::string_view words);
/// The one that ends right before the first of `words`.
[[nodiscard]] std::optional<std::size_t> before(std::string_view text, std::string_view words);
/// A whole number close behind the last of `words`, which is bytes without saying so.
[[nodiscard]] std::optional<std::size_t> bytes_after_last(std::string_view text, std::string_view words);

[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
[[nodiscard]] constexpr bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

template <typename Value, typename... More>
std::optional<Value> first_of(std::optional<Value> one, More... more) {
  if constexpr (sizeof...(more) == 0) {
    return one;
  } else {
    return one ? one : first_of<Value>(more...);
  }
}

}  // namespace ferry::command::oom
