// A comparison as a table and in sentences. Nothing is said that was not measured.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "common/table.hpp"
#include "ferry/config.hpp"
#include "train/compared.hpp"

namespace ferry::command {

namespace {

std::string percent(double share) {
  double const points = 100 * std::abs(share);
  return fmt::format("{:.{}f}%", points, points < 9.95 ? 1 : 0);
}

std::string error_of(paired_ratio const& ratio) {
  return ratio.error ? fmt::format("{:.1f}%", 100 * *ratio.error / ratio.middle) : "-";
}

/// " (±1.1%)"
std::string sureness_of(paired_ratio const& ratio) {
  return ratio.error ? fmt::format(" (±{})", error_of(ratio))
                     : " (in too few steps to be sure: give --steps 16 or more)";
}

/// "4.0% more time", "2.1% less time".
std::string cost_of(double ratio) {
  constexpr double nothing = 0.0005;
  if (std::abs(ratio - 1) < nothing) return "no more time";
  return fmt::format("{} {} time", percent(ratio - 1), ratio > 1 ? "more" : "less");
}

void add_row(table& to, compared_budget const& all, compared_row const& one) {
  if (!one.fits()) {
    to.remark(one.policy, one.needs_bytes == 0 ? one.failure
                                               : fmt::format("does not fit: the smallest that works is --budget {}KiB",
                                                             one.needs_bytes >> 10));
    return;
  }
  auto const& is = one.figures;
  auto const time = all.time_of(one);
  to.row({one.policy, format_bytes(is.peak_device_bytes), format_bytes(is.peak_pinned_bytes),
          fmt::format("{:.2f}x", time.middle), &one == &all.reference() ? "" : error_of(time),
          fmt::format("{:.1f}%", 100 * is.recompute_share), fmt::format("{:.1f} ms", is.waiting_us / 1000),
          fmt::format("{:.0f}", all.tokens_per_second(one)), fmt::format("{:.2f} M", is.parameters_per_gib * 1e-6),
          fmt::format("{:.4f}", is.final_loss), one.identical ? "yes" : "NO"});
}

/// What `auto` did with its time, as measured.
std::string reasons_of(compared_budget const& all, compared_row const& automatic) {
  auto const& is = automatic.figures;
  auto text = fmt::format("a step of auto's waited {:.1f} ms for copies and rebuilt {:.1f}% of the FLOPs",
                          is.waiting_us / 1000, 100 * is.recompute_share);
  if (is.planned) {
    text += fmt::format("; its plan foresaw {} than unlimited memory, it took {}", cost_of(*is.planned),
                        cost_of(all.time_of(automatic).middle));
  }
  return text;
}

/// "recomputation alone costs 24%, copies alone 43%"
std::string others_of(compared_budget const& all) {
  std::string text;
  auto const add = [&](std::string_view words, char const* policy) {
    auto const* const one = all.find(policy);
    if (one == nullptr) return;
    double const more = std::max(0.0, all.time_of(*one).middle - 1);
    text += fmt::format("{}{} {}", text.empty() ? "; " : ", ", words, percent(more));
  };
  add("recomputation alone costs", "recompute");
  add("copies alone", "offload");
  return text;
}

}  // namespace

std::string table_of(compared_budget const& all) {
  using side = table::side;
  table made({{.width = 10, .at = side::left},
              {.width = 9},
              {.width = 9},
              {.width = 9},
              {.width = 6},
              {.width = 10},
              {.width = 11},
              {.width = 8},
              {.width = 11},
              {.width = 10},
              {.width = 9, .at = side::left, .gap = 2}});
  made.row({"policy", "device", "host", "time", "±", "recompute", "waiting", "tokens/s", "params/GiB", "final loss",
            "gradients"});
  made.row({"", "peak", "peak", "of a step", "", "FLOPs", "a step", "", "", "", "identical"});
  for (auto const& one : all.rows) add_row(made, all, one);
  return made.text();
}

std::string words_of(compared_budget const& all) {
  auto const* const won = all.recommended();
  if (won == nullptr) return {};
  auto const& reference = all.reference();
  double const less = static_cast<double>(reference.figures.peak_device_bytes) /
                      static_cast<double>(std::max<std::size_t>(won->figures.peak_device_bytes, 1));
  auto const time = all.time_of(*won);
  constexpr double hardly = 1.05;
  auto const memory = less < hardly ? "the same memory" : fmt::format("{:.1f}x less memory", less);
  auto text = fmt::format("{:.0f}%: {} for {}{} with {}{}\n", 100 * all.share(), memory, cost_of(time.middle),
                          sureness_of(time), won->policy, others_of(all));
  if (time.scatters()) text += busy_machine;
  auto const* const automatic = all.find("auto");
  if (automatic == nullptr) return text + "auto did not fit this budget\n";
  auto const* const best = all.fastest();
  if (automatic == best) return text;
  auto const behind = all.time_over(*automatic, *best);
  if (won == automatic) {
    if (!behind.error)
      return text + fmt::format("Too few steps to tell auto from {}: give --steps 16 or more\n", best->policy);
    if (behind.middle <= 1) return text;  // than the other, though not than the reference
    return text + fmt::format("auto and {} are equal within what was measured: {} (±{})\n", best->policy,
                              cost_of(behind.middle), error_of(behind));
  }
  text += fmt::format("Not auto: {} was quicker, auto took {} (±{}); {}\n", best->policy, cost_of(behind.middle),
                      error_of(behind), reasons_of(all, *automatic));
  for (auto const& note : automatic->notes) text += "  " + note + "\n";
  return text;
}

std::string next_of(compared_budget const& all) {
  auto const* const best = all.recommended();
  if (best == nullptr) return {};
  return fmt::format("Try next: --policy {} --budget {}KiB in place of --compare\n", best->policy,
                     (all.budget_bytes + 1023) >> 10);
}

}  // namespace ferry::command
