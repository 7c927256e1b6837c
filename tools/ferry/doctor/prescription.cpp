#include "doctor/prescription.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>

#include "doctor/warnings.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr int most_ranks = 1024;

std::string in_mib(std::size_t bytes, bool up) { return fmt::format("{}MiB", (bytes + (up ? mib - 1 : 0)) / mib); }

desk desk_for(question const& asked, training const& how, std::size_t budget) {
  return {.of = asked.of,
          .how = how,
          .on = asked.on,
          .budget = budget,
          .host_budget = pinnable(asked.host_memory),
          .between = interconnect_of(asked, how)};
}

bool enough(question const& asked, training const& how) {
  std::size_t const beside = states_of(asked.of, how).sum() + asked.reserve;
  if (beside >= asked.on.device_bytes) return false;
  std::size_t const budget = (asked.on.device_bytes - beside) / mib * mib;
  return least_bytes(desk_for(asked, how, budget), 1) <= budget;
}

/// The fewest ranks, of 2, 4, 8 and so on, that make it fit; 0 if none do.
int ranks_needed(question const& asked, training how) {
  for (how.ranks = std::max(2, 2 * how.ranks); how.ranks <= most_ranks; how.ranks *= 2) {
    if (enough(asked, how)) return how.ranks;
  }
  return 0;
}

void add_remedy(prescription& to, training const& how, std::string flags) {
  to.remedies.push_back({std::move(flags), states_of(to.asked.of, how).sum(), enough(to.asked, how)});
}

/// What would make weights, gradients and optimizer smaller; `instead` becomes the first way that is enough.
void add_remedies(prescription& to) {
  training const& now = to.asked.how;
  if (now.optimizer == optimizer_kind::adamw) {
    training other = now;
    other.optimizer = optimizer_kind::adamw8bit;
    add_remedy(to, other, "--optimizer adamw8bit");
    if (to.remedies.back().enough) to.instead = other;
  }
  for (int stage = std::max(1, now.zero); stage <= 3; ++stage) {
    training other = now;
    other.zero = stage;
    if (int const ranks = ranks_needed(to.asked, other); ranks > 0) {
      other.ranks = ranks;
      add_remedy(to, other, fmt::format("--zero {} --ranks {}", stage, ranks));
      if (!to.instead || (to.instead->ranks > ranks)) to.instead = other;
    } else {
      other.ranks = most_ranks;
      add_remedy(to, other, fmt::format("--zero {} --ranks {}", stage, most_ranks));
    }
  }
}

/// Of forecasts that take the same time, the one with less of this needs less.
std::tuple<bool, bool, bool, std::size_t> needs_of(forecast const& one) {
  return {one.out_bytes > 0, one.accumulate > 1, one.recompute_us > 0, one.peak_bytes};
}

/// Planned in parts whose bound says that they could be better than what is found; and as a whole, for trainers that do
/// not accumulate.
void add_planned(std::vector<forecast>& to, desk const& at, int kept) {
  struct candidate {
    int part = 0;
    double least_us = 0;
  };
  std::vector<candidate> candidates;
  for (int const part : parts_of(at.of.batch)) {
    if (part <= kept) break;  // keeping all is the plan
    double const least = least_us(at, part);
    if (std::isfinite(least)) candidates.push_back({part, least});
  }
  std::ranges::stable_sort(candidates, {}, &candidate::least_us);
  constexpr std::ptrdiff_t most_planned = 2;  // an answer is wanted at once
  for (auto const& next : candidates) {
    bool const whole = next.part == at.of.batch;
    bool const hopeless = std::ranges::any_of(to, [&](forecast const& one) { return one.step_us <= next.least_us; }) ||
                          std::ranges::count(to, "auto", &forecast::policy) == most_planned;
    if (hopeless && !whole) continue;
    if (auto made = by_planner(at, next.part)) to.push_back(std::move(*made));
  }
}

/// By a rule, in the largest parts that it fits in.
template <typename Rule>
void add_by_rule(prescription& to, std::vector<forecast>& all, desk const& at, char const* policy, Rule const& rule) {
  for (int const part : parts_of(at.of.batch)) {
    if (auto one = rule(at, part)) return all.push_back(std::move(*one));
  }
  to.unfit.emplace_back(policy);
}

/// The best of what can be done; and the best of each other policy, in one part and in several.
void advise(prescription& to, desk const& at) {
  std::vector<forecast> all;
  int const kept = largest_part_kept(at);
  if (kept > 0) {
    all.push_back(*keeping_all(at, kept));
  } else {
    to.unfit.emplace_back("keep");
  }
  if (kept < at.of.batch) {
    add_planned(all, at, kept);
    if (all.empty()) return;
    add_by_rule(to, all, at, "recompute", recomputing);
    add_by_rule(to, all, at, "offload", offloading);
    add_by_rule(to, all, at, "sqrt", recomputing_by_root);
  }
  all = ranked(std::move(all));
  to.advised = std::move(all.front());
  constexpr std::size_t most_alternatives = 3;
  for (auto& one : std::span(all).subspan(1)) {
    auto const same = [&](forecast const& other) {
      return other.policy == one.policy && (other.accumulate > 1) == (one.accumulate > 1);
    };
    bool const told = same(*to.advised) || std::ranges::any_of(to.alternatives, same);
    if (!told && to.alternatives.size() < most_alternatives) to.alternatives.push_back(std::move(one));
  }
}

void add_variables(prescription& to) {
  auto const& advised = *to.advised;
  to.variables.emplace_back("FERRY_POLICY", advised.policy);
  to.variables.emplace_back("FERRY_BUDGET", in_mib(to.budget, false));
  if (advised.host_bytes == 0) return;
  // Late transfers hold their slots a little longer than foreseen.
  std::size_t const pinned = std::min(pinnable(to.asked.host_memory), advised.host_bytes + advised.host_bytes / 10);
  if (pinned > to.asked.host_memory / 2) to.variables.emplace_back("FERRY_PINNED_BYTES", in_mib(pinned, true));
  to.variables.emplace_back("FERRY_HOST_BUDGET", in_mib(pinned, true));
}

}  // namespace

std::size_t pinnable(std::size_t host_memory) noexcept { return host_memory / 5 * 4 / mib * mib; }

interconnect interconnect_of(question const& asked, training const& how) noexcept {
  auto const kind = asked.between.value_or(usual_interconnect(asked.on, how.ranks));
  return {kind, asked.between_gbps.value_or(usual_gbps(kind, asked.on))};
}

std::vector<forecast> ranked(std::vector<forecast> all) {
  constexpr double as_good = 1.005;
  for (auto next = all.begin(); next != all.end(); ++next) {
    double const least = std::ranges::min_element(next, all.end(), {}, &forecast::step_us)->step_us;
    auto const better = [&](forecast const& a, forecast const& b) {
      bool const a_is_fast = a.step_us <= as_good * least;
      bool const b_is_fast = b.step_us <= as_good * least;
      return a_is_fast != b_is_fast ? a_is_fast : a_is_fast && needs_of(a) < needs_of(b);
    };
    std::iter_swap(next, std::ranges::min_element(next, all.end(), better));
  }
  return all;
}

prescription prescribe(question const& asked) {
  prescription made;
  made.asked = asked;
  profile const step = step_of(asked.of, asked.how, asked.on);
  made.memory = memory_of(asked.of, asked.how, step, asked.on.device_bytes, asked.reserve);
  if (!made.memory.states_fit() || !enough(asked, asked.how)) add_remedies(made);
  training const how = made.memory.states_fit() || !made.instead ? asked.how : *made.instead;
  if (made.memory.states_fit()) made.instead.reset();
  made.memory_instead = memory_of(asked.of, how, step, asked.on.device_bytes, asked.reserve);
  made.budget = made.memory_instead.budget() / mib * mib;  // as it is then set
  desk const at = desk_for(asked, how, made.budget);
  made.least_bytes = least_bytes(at, asked.of.batch);
  made.least_bytes_of_one = least_bytes(at, 1);
  if (made.budget > 0) {
    made.batch = largest_batch(at);
    made.context = largest_context(at);
    made.between = at.between;
    advise(made, at);
  }
  if (made.advised) {
    add_variables(made);
    made.in_torch = torch_ways(at);
  }
  made.warnings = warnings_of(made, step);
  made.assumptions = assumptions_of(made);
  return made;
}

}  // namespace ferry::command
