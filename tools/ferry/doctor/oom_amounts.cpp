#include "doctor/oom_amounts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace ferry::command::oom {

namespace {

constexpr std::size_t nowhere = std::string_view::npos;

/// 0 if it is no unit.
double unit_bytes(std::string_view word) {
  struct unit {
    std::string_view name;
    double bytes;
  };
  constexpr std::array units{unit{"bytes", 1},   unit{"byte", 1},     unit{"B", 1},       unit{"KiB", 0x1p10},
                             unit{"KB", 0x1p10}, unit{"MiB", 0x1p20}, unit{"MB", 0x1p20}, unit{"GiB", 0x1p30},
                             unit{"GB", 0x1p30}, unit{"TiB", 0x1p40}, unit{"TB", 0x1p40}, unit{"T", 0x1p40},
                             unit{"G", 0x1p30},  unit{"M", 0x1p20},   unit{"K", 0x1p10}};
  for (auto const& one : units) {
    if (one.name == word) return one.bytes;
  }
  return 0;
}

}  // namespace

std::optional<amount> amount_at(std::string_view text, std::size_t at) {
  double value = 0;
  char const* const begin = text.data() + at;
  char const* const most = text.data() + std::min(text.size(), at + 40);
  auto const [stop, status] = std::from_chars(begin, most, value, std::chars_format::fixed);
  if (status != std::errc{} || !(value >= 0)) return std::nullopt;
  auto next = at + static_cast<std::size_t>(stop - begin);
  while (next < text.size() && is_space(text[next]) && next < at + 48) ++next;
  std::size_t end = next;
  while (end < text.size() && is_letter(text[end]) && end < next + 8) ++end;
  double const unit = unit_bytes(text.substr(next, end - next));
  double const bytes = value * unit;
  bool const zero_bytes = value == 0 && unit > 0;
  if (!(bytes > 0 || zero_bytes) || bytes > 0x1p60) return std::nullopt;
  return amount{static_cast<std::size_t>(std::llround(bytes)), at, end};
}

std::optional<std::size_t> after(std::string_view text, std::string_view words) {
  constexpr std::size_t close = 16;
  std::size_t const found = text.find(words);
  if (found == nowhere) return std::nullopt;
  std::size_t const from = found + words.size();
  for (std::size_t at = from; at < std::min(text.size(), from + close); ++at) {
    if (!is_digit(text[at])) continue;
    auto const here = amount_at(text, at);
    return here ? std::optional(here->bytes) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::size_t> before(std::string_view text, std::string_view words) {
  constexpr std::size_t longest = 40;
  std::size_t const found = text.find(words);
  if (found == nowhere) return std::nullopt;
  std::size_t const least = found > longest ? found - longest : 0;
  for (std::size_t at = least; at < found; ++at) {
    bool const begins = is_digit(text[at]) && (at == 0 || (!is_digit(text[at - 1]) && text[at - 1] != '.'));
    if (!begins) continue;
    auto const here = amount_at(text, at);
    if (!here || here->end > found) continue;
    bool const right_before = std::all_of(text.begin() + static_cast<std::ptrdiff_t>(here->end),
                                          text.begin() + static_cast<std::ptrdiff_t>(found), is_space);
    if (right_before) return here->bytes;
  }
  return std::nullopt;
}

std::optional<std::size_t> bytes_after_last(std::string_view text, std::string_view words) {
  constexpr std::size_t close = 32;
  std::size_t const found = text.rfind(words);
  if (found == nowhere) return std::nullopt;
  std::size_t at = found + words.size();
  std::size_t const most = std::min(text.size(), at + close);
  while (at < most && is_space(text[at])) ++at;
  std::size_t bytes = 0;
  auto const [stop, status] = std::from_chars(text.data() + at, text.data() + text.size(), bytes);
  constexpr std::size_t too_much = std::size_t{1} << 60;
  if (status != std::errc{} || bytes > too_much) return std::nullopt;
  return bytes;
}

}  // namespace ferry::command::oom
