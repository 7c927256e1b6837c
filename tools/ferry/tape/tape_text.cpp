#include "tape/tape_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "common/printable.hpp"
#include "common/terminal.hpp"
#include "common/timeline.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

constexpr std::array<char, 6> letters{' ', 'D', '>', 'H', '<', '.'};
constexpr char const* legend =
    "D on the device, R on the device and rebuilt in this step, H on the host, > on its way out, < on its way in, . "
    "dropped\n"
    "forward at its end; backward while it computes\n";

bool is_wide(tape const& of) { return of.items.size() > most_item_columns; }

char letter_of(tape_step const& step, std::size_t item) {
  auto const where = step.places[item];
  bool const rebuilt = std::ranges::find(step.rebuilt, item) != step.rebuilt.end();
  if (rebuilt && where == tape_place::device) return 'R';
  return letters[static_cast<std::size_t>(where)];
}

std::size_t count(tape_step const& step, std::initializer_list<tape_place> where) {
  return static_cast<std::size_t>(
      std::ranges::count_if(step.places, [&](tape_place one) { return std::ranges::find(where, one) != where.end(); }));
}

/// Bytes as plain numbers of one unit, so that columns compare.
class byte_unit {
 public:
  explicit byte_unit(std::size_t largest) {
    constexpr std::array<char const*, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t i = 0;
    for (; i + 1 < names.size() && static_cast<double>(largest) >= 1024 * size_; ++i) size_ *= 1024;
    name_ = names[i];
  }
  [[nodiscard]] std::string operator()(double bytes) const { return fmt::format("{:.2f}", bytes / size_); }
  [[nodiscard]] std::string operator()(std::size_t bytes) const { return (*this)(static_cast<double>(bytes)); }
  [[nodiscard]] char const* name() const noexcept { return name_; }

 private:
  double size_ = 1;
  char const* name_ = "B";
};

/// The rows that are shown; nothing stands for those left out.
std::vector<std::optional<std::size_t>> rows_of(tape const& of) {
  std::vector<std::optional<std::size_t>> rows;
  std::size_t const steps = of.steps.size();
  std::size_t const segments = steps / 2;
  constexpr std::size_t at_each_end = most_step_rows / 8;
  for (std::size_t i = 0; i < steps; ++i) {
    std::size_t const in_pass = i % segments;
    bool const shown =
        steps <= most_step_rows || in_pass < at_each_end || in_pass + at_each_end >= segments || i == of.peak_step;
    if (shown) {
      rows.emplace_back(i);
    } else if (rows.back()) {
      rows.emplace_back();
    }
  }
  return rows;
}

/// " writes x1 h1,", or of many the number; with their operations' names where items are too many to name.
void add_words(std::vector<std::string>& words, tape const& of, char const* verb,
               std::vector<std::size_t> const& items) {
  if (items.empty()) return;
  if (!is_wide(of)) {
    std::vector<std::string> labels;
    for (std::size_t const k : items) labels.push_back(printable(of.items[k].label));
    words.push_back(fmt::format("{} {}", verb, fmt::join(labels, " ")));
    return;
  }
  words.push_back(fmt::format("{} {}", verb, items.size()));
}

std::string words_of(tape const& of, tape_step const& step) {
  std::vector<std::string> words;
  add_words(words, of, "rebuilds", step.rebuilt);
  add_words(words, of, "writes", step.writes);
  add_words(words, of, "reads", step.reads);
  add_words(words, of, "drops", step.dropped);
  add_words(words, of, "sends", step.sent);
  add_words(words, of, "fetches", step.fetched);
  return fmt::format("{}", fmt::join(words, "; "));
}

std::size_t column_width(tape_item const& item) { return std::max<std::size_t>(printable(item.label).size(), 2) + 1; }

std::string header_of(tape const& of, byte_unit const& unit) {
  std::string text = fmt::format("{:<6}", "step");
  if (is_wide(of)) {
    text += fmt::format("{:>8}{:>8}{:>8}{:>8}", "device", "moving", "host", "dropped");
  } else {
    for (auto const& item : of.items) text += fmt::format("{:<{}}", printable(item.label), column_width(item));
  }
  return text + fmt::format("{:>9}{:>9}{:>9}  {}", "most", "after", "host", "what it does") +
         fmt::format("\n{:<6}{:>{}}{:>9}{:>9}{:>9}", "", "", text.size() - 6, unit.name(), unit.name(), unit.name());
}

std::string row_of(tape const& of, tape_step const& step, byte_unit const& unit) {
  std::string text = fmt::format("{:<6}", step.label);
  if (is_wide(of)) {
    using enum tape_place;
    text += fmt::format("{:>8}{:>8}{:>8}{:>8}", count(step, {device}), count(step, {leaving, arriving}),
                        count(step, {host}), count(step, {dropped}));
  } else {
    for (std::size_t k = 0; k < of.items.size(); ++k) {
      text += fmt::format("{:<{}}", letter_of(step, k), column_width(of.items[k]));
    }
  }
  return text + fmt::format("{:>9}{:>9}{:>9}  {}", unit(step.most_bytes), unit(step.after_bytes), unit(step.host_bytes),
                            words_of(of, step));
}

std::string line(std::string_view name, std::string const& words) { return fmt::format("{:<12}{}\n", name, words); }

std::string recompute_lines(tape const& of) {
  auto const runs = of.recomputed_operations();
  if (runs == 0) return line("recompute", "nothing");
  auto text =
      line("recompute", fmt::format("{} operations beside forward's {}, {}: {:.0f}% more forward", runs,
                                    of.forward_operations, words_of_time(of.recompute_us()), 100 * extra_forward(of)));
  for (auto const& one : of.recomputed) {
    auto const flops = one.flops > 0 ? "   " + words_of_flops(one.flops) : "";
    text +=
        line("", fmt::format("{:<8} {:>5} x   {}{}", printable(one.operation), one.runs, words_of_time(one.us), flops));
  }
  return text;
}

std::string average_of(double bytes) { return format_bytes(static_cast<std::size_t>(bytes + 0.5)); }

constexpr char const* left_out = "...\n";

std::string note_on_rows(tape const& of) {
  std::string text;
  if (is_wide(of)) {
    text +=
        fmt::format("numbers of items, because {} are too many to name; --json has each of them\n", of.items.size());
  }
  if (of.steps.size() > most_step_rows) text += "... stands for steps that are left out here; --json has all\n";
  return text;
}

std::string note_on_waiting(tape const& of) {
  constexpr double hardly = 1e-3;
  if (std::abs(of.ahead_us - of.step_us) <= hardly * of.step_us) return {};
  return fmt::format("; {} when the host runs ahead instead of waiting at each operation, as for this tape",
                     words_of_time(of.ahead_us));
}

/// What a column of the comparison says of a step.
std::string cell_of(tape const& of, tape_step const& step) {
  if (is_wide(of)) {
    using enum tape_place;
    return fmt::format("{:>9}", count(step, {device, leaving, arriving}));
  }
  std::string text;
  for (std::size_t k = 0; k < of.items.size(); ++k) {
    if (k > 0 && of.items[k].segment != of.items[k - 1].segment) text += ' ';
    text += letter_of(step, k);
  }
  return text;
}

std::string cell_header_of(tape const& of) {
  if (is_wide(of)) return "on device";
  std::string text;
  for (std::size_t k = 0; k < of.items.size(); ++k) {
    if (k > 0 && of.items[k].segment != of.items[k - 1].segment) text += ' ';
    text += printable(of.items[k].name).substr(0, 1);
  }
  return text;
}

constexpr int first_column = 15;
constexpr int number_width = 8;

/// One cell for each tape, all of one width.
template <typename Cell>
std::string across(std::string_view name, std::span<tape const> tapes, std::size_t width, Cell const& cell) {
  std::string text = fmt::format("{:<{}}", name, first_column);
  for (auto const& one : tapes) text += fmt::format("{:<{}}", cell(one), width);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

/// A line of each depth, the policies in the columns.
std::string growth_text(std::span<tape_growth const> growth) {
  if (growth.empty()) return {};
  byte_unit const unit(std::ranges::max(growth, {}, &tape_growth::peak_bytes).peak_bytes);
  auto const title = fmt::format("the same layers in deeper nets: peak in {}, and how much more forward", unit.name());
  std::string names = fmt::format("{:<{}}", "layers", first_column);
  std::string rows;
  for (std::size_t i = 0; i < growth.size(); ++i) {
    auto const& one = growth[i];
    if (one.layers == growth.front().layers) names += fmt::format("{:>9}{:>7}", one.policy, "");
    if (i == 0 || one.layers != growth[i - 1].layers) rows += fmt::format("\n{:<{}}", one.layers, first_column);
    rows += fmt::format("{:>9}{:>6} ", unit(one.peak_bytes), fmt::format("+{:.0f}%", 100 * one.extra_forward));
  }
  return fmt::format("\n{}\n{}{}\n", in(colour::strong, title), names, rows);
}

/// Those that stand side by side: a line for each operation, then what each comes to.
std::string columns_of(std::span<tape const> tapes, byte_unit const& unit, std::size_t cell, std::size_t width) {
  auto const& first = tapes.front();
  auto const numbers = [&](std::string const& left, std::string const& a, std::string const& b) {
    return fmt::format("{:<{}}{:>{}}{:>{}}", left, cell, a, number_width, b, number_width);
  };
  auto text = in(colour::strong, across("", tapes, width, [](tape const& one) { return printable(one.policy); }));
  text += across("step", tapes, width, [&](tape const& one) { return numbers(cell_header_of(one), "most", "after"); });
  for (auto const& row : rows_of(first)) {
    if (!row) {
      text += left_out;
      continue;
    }
    text += across(first.steps[*row].label, tapes, width, [&](tape const& one) {
      auto const& step = one.steps[*row];
      return numbers(cell_of(one, step), unit(step.most_bytes), unit(step.after_bytes));
    });
  }
  auto const sum = [&](char const* name, auto const& words) {
    text += across(name, tapes, width, [&](tape const& one) { return numbers("", words(one), ""); });
  };
  text += '\n';
  sum("peak", [&](tape const& one) { return unit(one.peak_bytes); });
  sum("  reached in", [&](tape const& one) { return one.steps[one.peak_step].label; });
  sum("average", [&](tape const& one) { return unit(one.average_bytes); });
  sum("host peak", [&](tape const& one) { return unit(one.host_peak_bytes); });
  sum("rebuilt", [&](tape const& one) { return fmt::format("{}", one.recomputed_operations()); });
  sum("more forward", [&](tape const& one) { return fmt::format("{:.0f}%", 100 * extra_forward(one)); });
  sum("step", [&](tape const& one) { return words_of_time(one.step_us); });
  return text + '\n';
}

}  // namespace

double extra_forward(tape const& of) noexcept { return of.forward_us > 0 ? of.recompute_us() / of.forward_us : 0; }

std::string tape_text(tape const& shown) {
  byte_unit const unit(std::max(shown.peak_bytes, shown.host_peak_bytes));
  auto text = fmt::format("{}\npolicy {}, budget {}\n\n{}\n", printable(shown.net), printable(shown.policy),
                          format_bytes(shown.budget_bytes), in(colour::strong, header_of(shown, unit)));
  for (auto const& row : rows_of(shown)) text += row ? row_of(shown, shown.steps[*row], unit) + '\n' : left_out;
  text += (is_wide(shown) ? std::string() : legend) + note_on_rows(shown) + '\n';
  text += line("step", words_of_time(shown.step_us) + note_on_waiting(shown));
  text += line("device", fmt::format("peak {} in {}, average {}", format_bytes(shown.peak_bytes),
                                     shown.steps[shown.peak_step].label, average_of(shown.average_bytes)));
  text += line("host", fmt::format("peak {}, average {}; {} out, {} in", format_bytes(shown.host_peak_bytes),
                                   average_of(shown.host_average_bytes), format_bytes(shown.sent_bytes),
                                   format_bytes(shown.fetched_bytes)));
  return text + recompute_lines(shown);
}

std::string comparison_text(std::span<tape const> tapes, std::span<tape_growth const> growth) {
  auto const& first = tapes.front();
  std::size_t largest = 0;
  for (auto const& one : tapes) largest = std::max({largest, one.peak_bytes, one.host_peak_bytes});
  byte_unit const unit(largest);
  constexpr std::size_t gap = 3;
  std::size_t const cell = cell_header_of(first).size();
  std::size_t const width = cell + 2 * number_width + gap;
  std::size_t const room = terminal_columns() - std::min<std::size_t>(terminal_columns(), first_column);
  std::size_t const beside = std::clamp<std::size_t>((room + gap) / width, 1, tapes.size());
  auto text = fmt::format("{}\n\n", printable(first.net));
  for (std::size_t from = 0; from < tapes.size(); from += beside) {
    text += columns_of(tapes.subspan(from, std::min(beside, tapes.size() - from)), unit, cell, width);
  }
  text += fmt::format("bytes are {} on the device: the most during a step, and after it; forward has {} operations\n",
                      unit.name(), first.forward_operations);
  text += (is_wide(first) ? std::string() : legend) + note_on_rows(first);
  return text + growth_text(growth);
}

}  // namespace ferry::command
