#include "common/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/terminal.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t name_width = 8;
constexpr char idle = '.';

/// As many as there is room for beside the names of lanes.
std::size_t columns_of_lanes() {
  constexpr std::size_t least = 24;
  constexpr std::size_t most = 72;
  constexpr std::size_t beside = name_width + 2;
  return std::clamp(terminal_columns() - std::min(terminal_columns(), beside), least, most);
}

/// How much of each column each letter takes, as shares that add up to one.
std::vector<std::map<char, double>> shares_of(lane const& one, double end_us, std::size_t columns) {
  std::vector<std::map<char, double>> shares(columns);
  for (auto const& span : one.spans) {
    double const from = std::clamp(span.start_us / end_us, 0.0, 1.0) * static_cast<double>(columns);
    double const to = std::clamp(span.end_us / end_us, 0.0, 1.0) * static_cast<double>(columns);
    for (auto column = static_cast<std::size_t>(from); column < columns && static_cast<double>(column) < to; ++column) {
      auto const left = static_cast<double>(column);
      shares[column][span.letter] += std::min(to, left + 1) - std::max(from, left);
    }
  }
  for (auto& column : shares) {
    double busy = 0;
    for (auto const& [letter, share] : column) busy += share;
    if (busy < 1) column[idle] += 1 - busy;
  }
  return shares;
}

/// What a letter is owed is carried from column to column: so short things that come often are seen, and no more often
/// than their time is worth.
std::string letters_of(lane const& one, double end_us, std::size_t columns) {
  std::string letters;
  std::map<char, double> owed;
  for (auto const& column : shares_of(one, end_us, columns)) {
    for (auto const& [letter, share] : column) owed[letter] += share;
    constexpr double hardly = 1e-9;
    char best = idle;
    double most = -1e9;
    for (auto const& [letter, share] : column) {
      if (share > hardly && owed[letter] > most) {
        best = letter;
        most = owed[letter];
      }
    }
    owed[best] -= 1;
    letters += best;
  }
  return letters;
}

std::string with_unit(double value, double step, std::initializer_list<char const*> units) {
  auto unit = units.begin();
  while (unit + 1 != units.end() && value >= step * 0.9995) {
    value /= step;
    ++unit;
  }
  int const decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, *unit);
}

}  // namespace

std::vector<lane> three_lanes() { return {{"compute", {}}, {"out", {}}, {"in", {}}}; }

std::string draw(std::vector<lane> const& lanes, double end_us) {
  std::string text;
  if (!(end_us > 0)) return text;
  std::size_t const columns = columns_of_lanes();
  for (auto const& one : lanes)
    text += fmt::format("{:<{}}|{}|\n", one.name, name_width, letters_of(one, end_us, columns));
  auto const end = words_of_time(end_us);
  auto const half = words_of_time(end_us / 2);
  std::size_t const before_half = columns / 2 - half.size() / 2;
  text += fmt::format("{:<{}} {:<{}}{:<{}}{}\n", "", name_width, "0", before_half, half,
                      columns - before_half - end.size(), end);
  return text;
}

std::string words_of_time(double us) { return us == 0 ? "0" : with_unit(us, 1000, {"us", "ms", "s", "thousand s"}); }

std::string words_of_flops(double flops) {
  return flops == 0 ? "0 FLOP" : with_unit(flops, 1000, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"});
}

}  // namespace ferry::command
