// `ferry plan --sweep`: what each budget buys, from the smallest that works to the one that keeps all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/interrupt.hpp"
#include "common/output_file.hpp"
#include "common/printable.hpp"
#include "common/progress.hpp"
#include "common/timeline.hpp"
#include "ferry/config.hpp"
#include "plan/step_chain.hpp"
#include "plan_flags.hpp"
#include "plan_text.hpp"

namespace ferry::command {

namespace {

struct point {
  std::size_t budget_bytes = 0;
  plan best;  ///< without its items and operations; that of a smaller budget if none was faster
};

/// From which budget on something holds.
struct break_even {
  std::string what;
  std::optional<std::size_t> budget_bytes;  ///< nothing: not even with the largest
};

class sweep {
 public:
  explicit sweep(plan_flags const& flags)
      : flags_(flags), given_(load_step(flags.step)), options_(options_of(flags, given_.step)) {
    options_.host_budget_bytes = host_budget(flags.step, given_).value_or(0);
  }

  void run();
  void print() const;
  [[nodiscard]] nlohmann::ordered_json json() const;
  [[nodiscard]] std::size_t done() const noexcept { return points_.size(); }

 private:
  void find_ends();
  [[nodiscard]] std::size_t budget_of(std::size_t index) const;
  [[nodiscard]] std::vector<break_even> break_evens() const;
  [[nodiscard]] break_even first_with(std::string what, std::function<bool(plan const&)> const& holds) const;
  [[nodiscard]] std::string table() const;
  [[nodiscard]] std::string curve() const;

  plan_flags const& flags_;
  given_step given_;
  plan_options options_;
  std::size_t smallest_ = 0;
  std::size_t largest_ = 0;  ///< keeps all
  std::vector<point> points_;
  progress progress_;
};

void sweep::find_ends() {
  progress_.show("smallest budget");
  smallest_ = planning::smallest_budget(given_.step, given_.on, options_);
  double const all =
      static_cast<double>(planning::keep_all_peak(given_.step, given_.on)) / (1 - options_.fragmentation_margin);
  largest_ = std::max(smallest_, static_cast<std::size_t>(std::ceil(all)));
}

std::size_t sweep::budget_of(std::size_t index) const {
  double const share = static_cast<double>(index) / (flags_.sweep - 1);
  return smallest_ + static_cast<std::size_t>(share * static_cast<double>(largest_ - smallest_));
}

void sweep::run() {
  find_ends();
  for (std::size_t i = 0; i < flags_.sweep && !interrupted(); ++i) {
    options_.budget_bytes = budget_of(i);
    progress_.show(fmt::format("budget {}/{}: {}", i + 1, flags_.sweep, format_bytes(options_.budget_bytes)));
    auto made = make_plan(given_.step, given_.on, options_);
    made.items.clear();
    made.operations.clear();
    // What fits a smaller budget fits this one too.
    if (!points_.empty() && points_.back().best.step_us < made.step_us) {
      double const bound = made.lower_bound_us;
      made = points_.back().best;
      made.lower_bound_us = bound;
    }
    points_.push_back({options_.budget_bytes, std::move(made)});
    if (largest_ == smallest_) break;
  }
  progress_.clear();
}

break_even sweep::first_with(std::string what, std::function<bool(plan const&)> const& holds) const {
  break_even found{std::move(what), std::nullopt};
  for (std::size_t i = points_.size(); i-- > 0 && holds(points_[i].best);) found.budget_bytes = points_[i].budget_bytes;
  return found;
}

std::vector<break_even> sweep::break_evens() const {
  std::vector<break_even> found;
  for (int const percent : {10, 5, 1}) {
    found.push_back(first_with(fmt::format("overhead below {}%", percent),
                               [=](plan const& one) { return one.overhead() < 0.01 * percent; }));
  }
  found.push_back(first_with("nothing is recomputed", [](plan const& one) { return one.recompute_us <= 0; }));
  found.push_back(first_with("nothing is ferried", [](plan const& one) { return one.offloaded_bytes == 0; }));
  return found;
}

std::string sweep::table() const {
  std::string text = fmt::format("{:>10} {:>6}  {:>9} {:>9} {:>10} {:>11} {:>7}\n", "budget", "share", "step",
                                 "overhead", "ferried", "recomputed", "gap");
  for (auto const& one : points_) {
    auto const share = 100.0 * static_cast<double>(one.budget_bytes) /
                       static_cast<double>(std::max<std::size_t>(given_.keep_all_bytes, 1));
    text +=
        fmt::format("{:>10} {:>5.1f}%  {:>9} {:>8.2f}% {:>10} {:>11} {:>6.2f}%\n", format_bytes(one.budget_bytes),
                    share, words_of_time(one.best.step_us), 100 * std::max(one.best.overhead(), 0.0),
                    format_bytes(one.best.offloaded_bytes), words_of_time(one.best.recompute_us), 100 * gap(one.best));
  }
  return text + "share: of the sum of all items; gap: to a lower bound\n";
}

/// Overhead over budget.
std::string sweep::curve() const {
  constexpr std::size_t columns = 64;
  constexpr std::size_t rows = 10;
  double highest = 0;
  for (auto const& one : points_) highest = std::max(highest, one.best.overhead());
  if (!(highest > 0) || points_.size() < 2) return {};
  std::vector<std::string> lines(rows, std::string(columns, ' '));
  auto const least = static_cast<double>(points_.front().budget_bytes);
  auto const most = static_cast<double>(points_.back().budget_bytes);
  for (auto const& one : points_) {
    double const across = (static_cast<double>(one.budget_bytes) - least) / std::max(most - least, 1.0);
    double const up = std::clamp(one.best.overhead() / highest, 0.0, 1.0);
    auto const column = static_cast<std::size_t>(std::lround(across * (columns - 1)));
    auto const row = static_cast<std::size_t>(std::lround((1 - up) * (rows - 1)));
    lines[row][column] = '*';
  }
  std::string text = "overhead\n";
  for (std::size_t i = 0; i < rows; ++i) {
    double const at = 100 * highest * static_cast<double>(rows - 1 - i) / (rows - 1);
    text += fmt::format("{:>7.1f}% |{}\n", at, lines[i].substr(0, lines[i].find_last_not_of(' ') + 1));
  }
  auto const left = format_bytes(points_.front().budget_bytes);
  auto const right = format_bytes(points_.back().budget_bytes);
  text += fmt::format("{:>8} +{}\n", "", std::string(columns, '-'));
  text += fmt::format("{:>8}  {:<{}}{:>{}}\n", "", left, columns / 2, right, columns - columns / 2);
  return text;
}

void sweep::print() const {
  fmt::print("{}\n\n{}\n", printable(given_.step.name), table());
  if (auto const drawn = curve(); !drawn.empty()) fmt::print("{}\n", drawn);
  for (auto const& one : break_evens()) {
    fmt::print("{:<22} {}\n", one.what,
               one.budget_bytes ? fmt::format("from {} on", format_bytes(*one.budget_bytes)) : "with none of these");
  }
  if (largest_ > given_.on.device_bytes) {
    fmt::print("{:<22} {}, so no budget beyond that can be had\n", fmt::format("{} has", printable(given_.on.name)),
               format_bytes(given_.on.device_bytes));
  }
}

nlohmann::ordered_json sweep::json() const {
  auto rows = nlohmann::ordered_json::array();
  for (auto const& one : points_) {
    rows.push_back({{"budget_bytes", one.budget_bytes},
                    {"planned_for_bytes", one.best.budget_bytes},
                    {"step_us", one.best.step_us},
                    {"overhead", one.best.overhead()},
                    {"offloaded_bytes", one.best.offloaded_bytes},
                    {"fetched_bytes", one.best.fetched_bytes},
                    {"recompute_us", one.best.recompute_us},
                    {"recompute_flops", recompute_flops(one.best)},
                    {"waiting_us", one.best.waiting_us},
                    {"lower_bound_us", one.best.lower_bound_us},
                    {"gap", gap(one.best)},
                    {"insured", one.best.insured}});
  }
  auto evens = nlohmann::ordered_json::array();
  for (auto const& one : break_evens()) {
    evens.push_back({{"what", one.what}});
    if (one.budget_bytes) {
      evens.back()["from_bytes"] = *one.budget_bytes;
    } else {
      evens.back()["from_bytes"] = nullptr;
    }
  }
  return {{"profile", given_.step.name},
          {"hardware", given_.on.name},
          {"smallest_budget_bytes", smallest_},
          {"keep_all_budget_bytes", largest_},
          {"keep_all_bytes", given_.keep_all_bytes},
          {"points", std::move(rows)},
          {"break_even", std::move(evens)},
          {"interrupted", interrupted()}};
}

}  // namespace

exit_code sweep_budgets(plan_flags const& flags) {
  require_usable_output(flags.json_file);
  sweep all(flags);
  listen_for_interrupts();
  all.run();
  if (!flags.json_file.empty()) write_output(flags.json_file, text_of(all.json()));
  if (!flags.silent() && all.done() > 0) all.print();
  if (!interrupted()) return success;
  if (!flags.silent()) fmt::print("interrupted after {} of {} budgets\n", all.done(), flags.sweep);
  return was_interrupted;
}

}  // namespace ferry::command
