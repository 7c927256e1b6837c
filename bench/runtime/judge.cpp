#include "runtime/judge.hpp"

#include <algorithm>
#include <optional>

#include "ferry/error.hpp"
#include "ferry/simulate.hpp"

namespace ferry::bench {

namespace {

constexpr double hindsight_planning_ms = 400;

config settings_of(judged_chain const& chain, variant const& how) {
  config settings;
  settings.budget = byte_amount::exactly(chain.budget_bytes);
  settings.host_budget = byte_amount::exactly(chain.on.host_bytes);
  settings.chunk_bytes = std::size_t{16} << 20;  // so large that a copy's latency hardly matters
  settings.min_bytes = 0;
  for (auto const& [name, value] : how.settings) settings.set(name, value);
  return settings;
}

simulation run_variant(judged_chain const& chain, fault const& what, variant const& how, plan const* given) {
  simulation_options options;
  options.settings = settings_of(chain, how);
  if (!how.plans_itself) options.planned = *given;
  options.steps = settling_steps + faulty_steps;
  options.before_step = [&](std::uint32_t step, sim_device& on) {
    if (step == settling_steps) change_link(on, with_fault(chain.on, what));
  };
  return simulate(chain.step, chain.on, options);
}

/// What was followed in the last step before the fault.
plan const* plan_at_fault(simulation const& seen) {
  plan const* last = nullptr;
  for (auto const& each : seen.plans) {
    if (each.from_step < settling_steps) last = &each.what;
  }
  return last;
}

variant_outcome outcome_of(simulation const& seen) {
  variant_outcome result;
  result.faulty_us.assign(seen.steps_us.begin() + settling_steps, seen.steps_us.end());
  for (auto const& each : seen.plans) result.plans += each.from_step >= settling_steps ? 1 : 0;
  return result;
}

/// The planner's best plan for the true link, as the session carries it out.
double planned_in_hindsight_us(judged_chain const& chain, fault const& what, variant const& plain) {
  auto const on = with_fault(chain.on, what);
  plan_options how;
  how.budget_bytes = chain.budget_bytes;
  how.insured = false;
  how.link_derating = 1;
  how.time_limit_ms = hindsight_planning_ms;
  simulation_options options;
  options.settings = settings_of(chain, plain);
  options.planned = make_plan(chain.step, on, how);
  options.steps = 2;
  return simulate(chain.step, on, options).step_us;
}

outcome judge(judged_chain const& chain, fault const& what) {
  auto const variants = all_variants();
  outcome result{chain.name, what, {}, {}};
  std::optional<plan> in_force;
  for (auto const& how : variants) {
    auto const seen = run_variant(chain, what, how, in_force ? &*in_force : nullptr);
    if (!in_force) {
      auto const* const made = plan_at_fault(seen);
      if (made == nullptr) throw error("the session makes no plan for it");
      in_force = *made;
    }
    result.by_variant.push_back(outcome_of(seen));
  }
  double best = planned_in_hindsight_us(chain, what, variants[1]);
  for (auto const& each : result.by_variant) best = std::min(best, *std::ranges::min_element(each.faulty_us));
  result.hindsight_us.assign(faulty_steps, best);
  return result;
}

}  // namespace

std::span<variant const> all_variants() {
  static std::vector<variant> const variants{
      {"adaptive", true, {}},
      {"static", false, {{"FERRY_STALL_TOLERANCE_US", "1e9"}}},
  };
  return variants;
}

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

ratios ratios_of(outcome const& seen, std::size_t which) {
  constexpr std::size_t third = 2;
  std::vector<double> each;
  for (std::size_t k = 0; k < seen.hindsight_us.size(); ++k) {
    each.push_back(seen.by_variant[which].faulty_us[k] / seen.hindsight_us[k]);
  }
  return {each.front(), each[third], median({each.begin() + third, each.end()})};
}

std::vector<outcome> judge(judged_chain const& chain) {
  std::vector<outcome> all;
  for (auto const& what : all_faults()) all.push_back(judge(chain, what));
  return all;
}

}  // namespace ferry::bench
