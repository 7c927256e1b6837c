#include "compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "common/interrupt.hpp"
#include "common/output_file.hpp"
#include "common/progress.hpp"
#include "compared.hpp"
#include "ferry/error.hpp"
#include "slow_link.hpp"
#include "turns.hpp"

namespace ferry::command {

namespace {

constexpr char const* policies[] = {"keep", "recompute", "every=2", "offload", "selective", "auto"};

/// Of which somebody has to know if they do not fit; of `keep` nobody expects it, and the others are refinements.
bool has_to_fit(std::string const& policy) { return policy == "recompute" || policy == "offload" || policy == "auto"; }

double mean(std::span<step_record const> steps, std::function<double(step_record const&)> const& what) {
  double sum = 0;
  for (auto const& one : steps) sum += what(one);
  return sum / static_cast<double>(steps.size());
}

/// What `auto` tried, and what came of it.
std::vector<std::string> trials_of(session const& of) {
  std::vector<std::string> found;
  std::istringstream lines(of.explain());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("auto, step ")) found.push_back(std::move(line));
  }
  return found;
}

double parameters_per_gib(train_plan const& plan, entrant const& of) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  auto const bytes = static_cast<double>(plan.state_bytes() + of.steps.back().peak_device_bytes);
  return static_cast<double>(of.run->trainer().model().layout().trained()) / (bytes / gib);
}

compared_figures figures_of(train_plan const& plan, entrant const& of) {
  auto const counted = std::span(of.steps).subspan(first_judged(of.steps.size()));
  auto const& last = of.steps.back();
  compared_figures found;
  found.peak_device_bytes = last.peak_device_bytes;
  found.peak_pinned_bytes = last.peak_pinned_bytes;
  found.recompute_share =
      mean(counted, [](step_record const& one) { return one.recompute_flops; }) / of.run->flops_per_step();
  found.waiting_us = mean(counted, [](step_record const& one) { return one.waiting_us; });
  found.parameters_per_gib = parameters_per_gib(plan, of);
  found.final_loss = last.result.loss;
  if (auto const* const planned = of.run->session().followed()) found.planned = 1 + planned->overhead();
  return found;
}

compared_row row_of(train_plan const& plan, entrant const& of) {
  compared_row row{.policy = of.name, .failure = of.failure, .seconds = of.seconds(), .figures = {}, .notes = {}};
  row.identical = of.identical;
  if (of.run) {
    row.figures = figures_of(plan, of);
    row.notes = trials_of(of.run->session());
  } else {
    std::size_t const enough = smallest_budget(plan, of.settings);
    if (enough > of.settings.budget.bytes) row.needs_bytes = enough;
  }
  return row;
}

compared_budget compared_by(train_plan const& plan, std::size_t budget_bytes, training_in_turns& all) {
  compared_budget found{budget_bytes, plan.keep_all_bytes, plan.tokens_per_step(), {}};
  for (auto const& one : all.entrants()) found.rows.push_back(row_of(plan, one));
  return found;
}

nlohmann::ordered_json json_of(compared_budget const& all, compared_row const& one) {
  nlohmann::ordered_json row{{"policy", one.policy}, {"fits", one.fits()}};
  if (!one.fits()) {
    row["failure"] = one.failure;
    return row;
  }
  auto const& is = one.figures;
  auto const time = all.time_of(one);
  row["peak_device_bytes"] = is.peak_device_bytes;
  row["peak_pinned_bytes"] = is.peak_pinned_bytes;
  row["relative_time"] = time.middle;
  if (time.error) row["relative_time_error"] = *time.error;
  if (is.planned) row["planned_time"] = *is.planned;
  row["recompute_share"] = is.recompute_share;
  row["waiting_us_per_step"] = is.waiting_us;
  row["tokens_per_second"] = all.tokens_per_second(one);
  row["parameters_per_gib"] = is.parameters_per_gib;
  row["final_loss"] = is.final_loss;
  row["gradients_identical"] = one.identical;
  auto const counted = judged(one.seconds);
  row["seconds"] = std::vector<double>(counted.begin(), counted.end());
  if (!one.notes.empty()) row["trials"] = one.notes;
  return row;
}

nlohmann::ordered_json json_of(compared_budget const& all) {
  auto rows = nlohmann::ordered_json::array();
  for (auto const& one : all.rows) rows.push_back(json_of(all, one));
  return rows;
}

class comparison {
 public:
  explicit comparison(train_plan const& plan)
      : plan_(plan), bar_(plan.budgets.size() * plan.flags.training.steps * (1 + std::size(policies))) {}

  /// All budgets, one after the other, each printed when it is through. False: interrupted.
  bool run();
  void write_files() const;
  /// Throws: `failed`.
  void require_fit() const;

 private:
  void run_budget(std::size_t budget_bytes);
  void print_budget() const;

  train_plan const& plan_;
  progress_bar bar_;
  std::optional<link_pace> pace_;  // of the first, for all
  std::vector<compared_budget> found_;
};

bool comparison::run() {
  for (std::size_t const bytes : plan_.budgets) {
    run_budget(bytes);
    if (interrupted()) return false;
  }
  fmt::print("\n");
  for (auto const& one : found_) fmt::print("{}", words_of(one));
  fmt::print("{}", next_of(found_.front()));
  return true;
}

void comparison::run_budget(std::size_t budget_bytes) {
  training_in_turns all(plan_, budget_bytes, pace_);
  all.enter("unlimited", {{"FERRY_POLICY", "keep"}});
  for (char const* const policy : policies) all.enter(policy, {{"FERRY_POLICY", policy}});
  for (std::uint64_t step = 0; step < plan_.flags.training.steps && !interrupted(); ++step) all.take_turns(bar_);
  bar_.clear();
  if (interrupted()) return;
  if (found_.empty()) {
    fmt::print("{}: keeping all needs {}\nlink {}\n", words_of_model(plan_), format_bytes(plan_.keep_all_bytes),
               all.words_of_link());
  }
  pace_ = all.pace();
  found_.push_back(compared_by(plan_, budget_bytes, all));
  print_budget();
  all.require_right();
}

void comparison::print_budget() const {
  auto const& last = found_.back();
  fmt::print("\nthe budget is {} ({:.0f}%)\n{}", format_bytes(last.budget_bytes), 100 * last.share(), table_of(last));
  std::fflush(stdout);
}

void comparison::write_files() const {
  if (!plan_.flags.svg_file.empty()) write_output(plan_.flags.svg_file, svg_of(found_, words_of_model(plan_)));
  if (plan_.flags.json_file.empty()) return;
  nlohmann::ordered_json value{{"budget_bytes", found_.front().budget_bytes},
                               {"keep_all_bytes", plan_.keep_all_bytes},
                               {"device_to_host_gbps", pace_->out},
                               {"host_to_device_gbps", pace_->back},
                               {"policies", json_of(found_.front())}};
  if (found_.size() > 1) {
    auto& others = value["other_budgets"] = nlohmann::ordered_json::array();
    for (auto const& one : std::span(found_).subspan(1))
      others.push_back({{"budget_bytes", one.budget_bytes}, {"policies", json_of(one)}});
  }
  write_output(plan_.flags.json_file, text_of(value));
}

void comparison::require_fit() const {
  for (auto const& budget : found_) {
    std::vector<std::string> names;
    std::size_t enough = 0;
    for (auto const& one : budget.rows) {
      if (one.fits() || !has_to_fit(one.policy)) continue;
      names.push_back(one.policy);
      enough = std::max(enough, one.needs_bytes);
    }
    if (names.empty()) continue;
    throw failed(fmt::format(
        "{} did not fit the budget of {}; {}", fmt::join(names, ", "), format_bytes(budget.budget_bytes),
        enough > 0 ? fmt::format("the smallest that works is --budget {}KiB", enough >> 10) : "raise --budget"));
  }
}

void require_possible(train_plan const& plan) {
  if (plan.settings.device == "sim") {
    throw setting_error(fmt::format("{}=sim: --compare needs a device that computes; give host or cuda",
                                    plan.flags.device ? "--device" : "FERRY_DEVICE"));
  }
  if (is_set("FERRY_POLICY"))
    fmt::print(stderr, "ferry: FERRY_POLICY has no effect here: --compare tries every policy\n");
}

}  // namespace

exit_code compare_policies(train_plan const& plan) {
  require_possible(plan);
  if (plan.flags.slow_link) return show_slow_link(plan);
  quiet_output quiet(is_standard_output(plan.flags.json_file) || is_standard_output(plan.flags.svg_file));
  comparison all(plan);
  if (!all.run()) {
    fmt::print("interrupted\n");
    return was_interrupted;
  }
  quiet.end();
  all.write_files();
  all.require_fit();
  return success;
}

}  // namespace ferry::command
