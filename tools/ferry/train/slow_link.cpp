#include "slow_link.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/interrupt.hpp"
#include "common/output_file.hpp"
#include "common/progress.hpp"
#include "ferry/error.hpp"
#include "turns.hpp"

namespace ferry::command {

namespace {

constexpr double share_left = 1.0 / 3;

drop_row row_of(entrant const& of, std::size_t drop) {
  drop_row row{.name = of.name, .seconds = of.seconds(), .recompute_share = {}, .waiting_us = {}};
  double const flops = of.run->flops_per_step();
  for (auto const& one : of.steps) {
    row.recompute_share.push_back(one.recompute_flops / flops);
    row.waiting_us.push_back(one.waiting_us);
  }
  row.plans_after = of.steps.back().plans - of.steps[drop - 1].plans;
  for (auto const& one : std::span(of.steps).subspan(drop)) row.plans_after += one.plan_changes;
  return row;
}

void require_link_to_slow_down(train_plan const& plan) {
  if (plan.settings.device != "host") {
    throw setting_error(
        fmt::format("--slow-link: the link of {} is what it is; give --device host", plan.settings.device));
  }
  if (!plan.settings.link_schedule.empty())
    throw setting_error("--slow-link changes the link by itself: give FERRY_LINK_GBPS one speed, or leave it out");
  auto const& given = plan.settings.link_gbps;
  if (!given.automatic && (given.device_to_host == 0 || given.host_to_device == 0))
    throw setting_error("FERRY_LINK_GBPS=0: --slow-link needs a link with a speed; leave it out");
  if (plan.flags.training.steps < steps_to_drop) {
    throw setting_error(
        fmt::format("--slow-link needs time to plan before the link drops: give --steps={} or more", steps_to_drop));
  }
}

void write_files(train_plan const& plan, link_drop const& found) {
  if (!plan.flags.svg_file.empty()) write_output(plan.flags.svg_file, svg_of(found, words_of_model(plan)));
  if (plan.flags.json_file.empty()) return;
  auto rows = nlohmann::ordered_json::array();
  for (auto const& one : found.rows) {
    rows.push_back({{"policy", one.name},
                    {"seconds", one.seconds},
                    {"relative_times", times_over_reference(found, one)},
                    {"recompute_shares", one.recompute_share},
                    {"waiting_us", one.waiting_us},
                    {"plans_after", one.plans_after}});
  }
  nlohmann::ordered_json const value{{"budget_bytes", plan.budget_bytes}, {"keep_all_bytes", plan.keep_all_bytes},
                                     {"first_slow_step", found.step + 1}, {"link_gbps", found.gbps},
                                     {"slow_link_gbps", found.slow_gbps}, {"rows", std::move(rows)}};
  write_output(plan.flags.json_file, text_of(value));
}

/// False: interrupted.
bool run(training_in_turns& all, train_plan const& plan, link_drop& found) {
  all.enter("unlimited", {{"FERRY_POLICY", "keep"}});
  all.enter("static", {{"FERRY_POLICY", "auto"}, {"FERRY_ADAPT", "off"}, {"FERRY_STALL_TOLERANCE_US", "1e9"}});
  all.enter("rule alone", {{"FERRY_POLICY", "auto"}, {"FERRY_ADAPT", "off"}});
  all.enter("auto", {{"FERRY_POLICY", "auto"}});
  std::size_t const steps = plan.flags.training.steps;
  progress_bar bar(steps * all.entrants().size());
  found.step = steps / 2;
  for (std::size_t step = 0; step < steps; ++step) {
    if (step == found.step) {
      auto const before = all.pace();
      found.gbps = before.out;
      found.slow_gbps = before.out * share_left;
      all.set_pace({found.slow_gbps, before.back * share_left});
    }
    all.take_turns(bar);
    if (interrupted()) return false;
    for (auto const& one : all.entrants()) {
      if (!one.run) throw failed(one.failure);
    }
  }
  bar.clear();
  for (auto const& one : all.entrants()) found.rows.push_back(row_of(one, found.step));
  return true;
}

}  // namespace

exit_code show_slow_link(train_plan const& plan) {
  require_link_to_slow_down(plan);
  quiet_output quiet(is_standard_output(plan.flags.json_file) || is_standard_output(plan.flags.svg_file));
  training_in_turns all(plan, plan.budget_bytes, std::nullopt);
  link_drop found;
  if (!run(all, plan, found)) {
    fmt::print("interrupted\n");
    return was_interrupted;
  }
  fmt::print("{}: keeping all needs {}, the budget is {} ({:.0f}%)\n{}\n{}", words_of_model(plan),
             format_bytes(plan.keep_all_bytes), format_bytes(plan.budget_bytes),
             100.0 * static_cast<double>(plan.budget_bytes) / static_cast<double>(plan.keep_all_bytes), table_of(found),
             words_of(found));
  quiet.end();
  write_files(plan, found);
  all.require_right();
  return success;
}

}  // namespace ferry::command
