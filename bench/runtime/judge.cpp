#include "runtime/judge.hpp"

#include <algorithm>
#include <optional>

#include "ferry/error.hpp"
#include "ferry/simulate.hpp"
#include "runtime/hindsight.hpp"

namespace ferry::bench {

namespace {

/// A small part of an item, so that a transfer can be given up in time; but the larger the better for the simulation.
std::size_t chunk_bytes_of(judged_chain const& chain) {
  std::size_t bytes = 0;
  std::size_t items = 0;
  for (auto const& segment : chain.step.segments) {
    for (auto const& item : segment.items) {
      bytes += item.bytes;
      ++items;
    }
  }
  constexpr std::size_t chunks_per_item = 16;
  return std::clamp(bytes / items / chunks_per_item, std::size_t{64} << 10, std::size_t{4} << 20);
}

config settings_of(judged_chain const& chain, variant const& how) {
  config settings;
  settings.budget = byte_amount::exactly(chain.budget_bytes);
  settings.host_budget = byte_amount::exactly(chain.on.host_bytes);
  settings.chunk_bytes = chunk_bytes_of(chain);
  settings.min_bytes = 0;
  apply(settings, how);
  return settings;
}

simulation run_variant(judged_chain const& chain, fault const& what, variant const& how, plan const* given) {
  simulation_options options;
  options.settings = settings_of(chain, how);
  if (!how.plans_itself) options.planned = *given;
  options.steps = settling_steps + faulty_steps;
  options.before_step = [&](std::uint32_t step, sim_device& on) {
    if (step >= settling_steps) inject(on, chain, what, step - settling_steps);
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

/// Nothing that was seen is better than hindsight. Without stalls all faulty steps are alike.
std::vector<double> best_of(std::vector<variant_outcome> const& seen, fault const& what, hindsight& knowing) {
  std::vector<double> best(faulty_steps);
  for (std::uint32_t k = 0; k < faulty_steps; ++k) {
    best[k] = k == 0 || what.stalls ? knowing.step_us(what, k) : best[0];
    for (auto const& each : seen) best[k] = std::min(best[k], each.faulty_us[k]);
  }
  if (!what.stalls) best.assign(faulty_steps, *std::ranges::min_element(best));
  return best;
}

outcome judge(judged_chain const& chain, fault const& what, hindsight& knowing) {
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
  result.hindsight_us = best_of(result.by_variant, what, knowing);
  return result;
}

}  // namespace

std::span<variant const> all_variants() {
  static std::vector<variant> const variants{
      {"adaptive", true, {}},
      {"static", false, {{"FERRY_ADAPT", "off"}, {"FERRY_STALL_TOLERANCE_US", "1e9"}}},
  };
  return variants;
}

void apply(config& to, variant const& how) {
  auto const known = describe_settings(to);
  for (auto const& [name, value] : how.settings) {
    if (std::ranges::find(known, name, &setting_description::variable) != known.end()) to.set(name, value);
  }
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
  hindsight knowing(chain, settings_of(chain, all_variants()[1]));
  std::vector<outcome> all;
  for (auto const& what : all_faults()) all.push_back(judge(chain, what, knowing));
  return all;
}

}  // namespace ferry::bench
