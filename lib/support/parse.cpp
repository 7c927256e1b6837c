// How the text of settings is taken apart and put together; see parse.hpp for what each promises.
#include "support/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace ferry::support {

namespace {

struct byte_unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array byte_units{
    byte_unit{"", 1},
    byte_unit{"b", 1},
    byte_unit{"kb", 1'000},
    byte_unit{"mb", 1'000'000},
    byte_unit{"gb", 1'000'000'000},
    byte_unit{"tb", 1'000'000'000'000},
    byte_unit{"kib", std::uint64_t{1} << 10},
    byte_unit{"mib", std::uint64_t{1} << 20},
    byte_unit{"gib", std::uint64_t{1} << 30},
    byte_unit{"tib", std::uint64_t{1} << 40},
};

constexpr std::array<std::string_view, 8> policy_words{"auto",  "keep", "recompute", "offload",
                                                       "every", "sqrt", "selective", "plan"};

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

bool all_digits(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// The usual functions for this ask the locale.
std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view required(std::string_view text) {
  std::string_view const value = trimmed(text);
  if (value.empty()) throw bad_value("empty");
  return value;
}

/// The digits at the front, with at most one point inside; empty if `text` starts otherwise.
std::string_view decimal_prefix(std::string_view text) noexcept {
  std::size_t const whole = std::min(text.find_first_not_of("0123456789"), text.size());
  if (whole == 0 || whole == text.size() || text[whole] != '.') return text.substr(0, whole);
  std::size_t const end = std::min(text.find_first_not_of("0123456789", whole + 1), text.size());
  // "5." is a slip of the pen.
  return end == whole + 1 ? std::string_view{} : text.substr(0, end);
}

/// All of `text` as one number, or `what`.
double whole_number_text(std::string_view text, char const* what) {
  double value = 0;
  char const* const end = text.data() + text.size();
  // from_chars also takes "inf", "nan" and a minus sign.
  if (text.empty() || !is_digit(text.front())) throw bad_value(what);
  auto const [stop, status] = std::from_chars(text.data(), end, value);
  if (status == std::errc::result_out_of_range) throw bad_value("out of range");
  if (status != std::errc{} || stop != end) throw bad_value(what);
  return value;
}

std::uint64_t scaled(std::string_view digits, std::uint64_t unit) {
  constexpr std::uint64_t most = std::numeric_limits<std::size_t>::max();
  if (all_digits(digits)) {
    std::uint64_t count = 0;
    auto const status = std::from_chars(digits.data(), digits.data() + digits.size(), count).ec;
    if (status != std::errc{} || count > most / unit) throw bad_value("too large");
    return count * unit;
  }
  if (unit == 1) throw bad_value("not a whole number of bytes");
  double const bytes = whole_number_text(digits, "not a byte amount") * static_cast<double>(unit);
  // The limit as a double is the power of two just above it.
  if (bytes >= static_cast<double>(most)) throw bad_value("too large");
  return static_cast<std::uint64_t>(bytes);
}

/// "7.5" of "7.5%" as 0.075: the exponent moves the point in decimal, so that no rounding comes between.
double share_of(std::string_view percent) {
  if (percent.empty() || decimal_prefix(percent) != percent) throw bad_value("not a share");
  double const fraction = whole_number_text(std::string(percent) + "e-2", "not a share");
  if (fraction > 1) throw bad_value("above 100%");
  if (fraction <= 0) throw bad_value("must be above zero");
  return fraction;
}

/// The inverse: the shortest decimal of the fraction, its point moved by two places.
std::string percent_of(double fraction) {
  std::array<char, 512> buffer{};
  char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), fraction, std::chars_format::fixed).ptr;
  std::string digits(buffer.data(), end);
  std::size_t point = digits.find('.');
  if (point == std::string::npos) {
    point = digits.size();
  } else {
    digits.erase(point, 1);
  }
  point += 2;
  digits.append(point > digits.size() ? point - digits.size() : 0, '0');
  std::string whole = digits.substr(0, point);
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  std::string const parts = digits.substr(point);
  return parts.empty() ? whole : whole + "." + parts;
}

/// Insertions, deletions, changes and swaps of neighbours that lead from `a` to `b`.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      bool const same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      bool const swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r\n\f\v";
  std::size_t const first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::size_t read_bytes(std::string_view text) {
  std::string_view const value = required(text);
  std::string_view const digits = decimal_prefix(value);
  std::string const unit_name = lowered(value.substr(digits.size()));
  auto const* const unit = std::find_if(byte_units.begin(), byte_units.end(),
                                        [&](byte_unit const& candidate) { return candidate.name == unit_name; });
  if (digits.empty() || unit == byte_units.end()) throw bad_value("not a byte amount");
  return scaled(digits, unit->bytes);
}

std::size_t read_bytes_within(std::string_view text, std::size_t least, std::size_t most) {
  std::size_t const bytes = read_bytes(text);
  if (bytes == 0 && least > 0) throw bad_value("must be above zero");
  if (bytes < least || bytes > most) throw bad_value("out of range");
  return bytes;
}

std::string write_bytes(std::size_t bytes) {
  constexpr std::array<std::string_view, 5> units{"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, units[unit]);
}

byte_amount read_amount(std::string_view text) {
  std::string_view const value = required(text);
  if (value.back() == '%') return byte_amount::share(share_of(value.substr(0, value.size() - 1)));
  return byte_amount::exactly(read_bytes_within(value, 1, std::numeric_limits<std::size_t>::max()));
}

std::string write_amount(byte_amount amount) {
  return amount.fraction > 0 ? percent_of(amount.fraction) + "%" : write_bytes(amount.bytes);
}

unsigned read_count(std::string_view text, unsigned least, unsigned most) {
  std::string_view const value = required(text);
  if (!all_digits(value)) throw bad_value("not a whole number");
  unsigned count = 0;
  auto const status = std::from_chars(value.data(), value.data() + value.size(), count).ec;
  if (status != std::errc{} || count < least || count > most) throw bad_value("out of range");
  return count;
}

double read_number(std::string_view text, double least, double most) {
  double const value = whole_number_text(required(text), "not a number");
  if (value < least || value > most) throw bad_value("out of range");
  return value;
}

std::string write_number(double value) { return fmt::format("{}", value); }

link_value read_link_pair(std::string_view text, double least, double most) {
  std::string_view const value = required(text);
  std::size_t const comma = value.find(',');
  if (comma == std::string_view::npos) {
    double const both = read_number(value, least, most);
    return {both, both, false};
  }
  return {read_number(value.substr(0, comma), least, most), read_number(value.substr(comma + 1), least, most), false};
}

std::string write_link(link_value value) {
  if (value.automatic) return "auto";
  std::string const out = write_number(value.device_to_host);
  return value.device_to_host == value.host_to_device ? out : out + "," + write_number(value.host_to_device);
}

namespace {

link_change read_link_change(std::string_view entry, double least, double most) {
  constexpr unsigned most_steps = 1'000'000'000;
  std::size_t const at = entry.find('@');
  if (at == std::string_view::npos) throw bad_value("some speeds have a step and others have none");
  std::string_view const speed = entry.substr(0, at);
  std::size_t const slash = speed.find('/');
  link_change change;
  change.device_to_host = read_number(speed.substr(0, slash), least, most);
  change.host_to_device =
      slash == std::string_view::npos ? change.device_to_host : read_number(speed.substr(slash + 1), least, most);
  change.step = read_count(entry.substr(at + 1), 0, most_steps);
  return change;
}

}  // namespace

std::vector<link_change> read_link_schedule(std::string_view text, double least, double most) {
  std::vector<link_change> schedule;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t const end = std::min(text.find(',', begin), text.size());
    schedule.push_back(read_link_change(text.substr(begin, end - begin), least, most));
    begin = end + 1;
  }
  if (schedule.front().step != 0) throw bad_value("the first step is not 0");
  for (std::size_t i = 1; i < schedule.size(); ++i) {
    if (schedule[i].step <= schedule[i - 1].step) throw bad_value("the steps do not ascend");
  }
  return schedule;
}

std::string write_link_schedule(std::vector<link_change> const& schedule) {
  std::string text;
  for (auto const& [step, device_to_host, host_to_device] : schedule) {
    if (!text.empty()) text += ',';
    text += write_number(device_to_host);
    if (host_to_device != device_to_host) text += fmt::format("/{}", write_number(host_to_device));
    text += fmt::format("@{}", step);
  }
  return text;
}

policy_choice read_policy(std::string_view text) {
  constexpr std::string_view every = "every=";
  std::string_view const value = required(text);
  if (value.starts_with(every)) {
    unsigned const stride = read_count(value.substr(every.size()), 1, std::numeric_limits<unsigned>::max());
    return {policy_kind::every, stride};
  }
  constexpr std::string_view plan = "plan=";
  if (value.starts_with(plan)) {
    if (value.size() == plan.size()) throw bad_value("plan needs a file");
    return {policy_kind::plan, 0, std::string(value.substr(plan.size()))};
  }
  auto const kind = static_cast<policy_kind>(read_word(value, policy_words));
  if (kind == policy_kind::every) throw bad_value("every needs a number of segments");
  if (kind == policy_kind::plan) throw bad_value("plan needs a file");
  return {kind, 0};
}

std::string write_policy(policy_choice const& policy) {
  std::string const word(policy_words.at(static_cast<std::size_t>(policy.kind)));
  if (policy.kind == policy_kind::every) return fmt::format("{}={}", word, policy.every);
  return policy.kind == policy_kind::plan ? fmt::format("{}={}", word, policy.file) : word;
}

std::size_t read_word(std::string_view text, std::span<std::string_view const> words) {
  std::string_view const value = required(text);
  auto const found = std::find(words.begin(), words.end(), value);
  if (found == words.end()) throw bad_value("not one of the choices");
  return static_cast<std::size_t>(found - words.begin());
}

std::string_view nearest(std::string_view text, std::span<std::string_view const> candidates) {
  std::string_view best;
  std::size_t fewest = std::max<std::size_t>(2, text.size() / 3);
  for (std::string_view const candidate : candidates) {
    std::size_t const edits = edits_between(text, candidate);
    if (edits < fewest) {
      fewest = edits;
      best = candidate;
    }
  }
  return best;
}

}  // namespace ferry::support
