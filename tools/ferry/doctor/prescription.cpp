#include "doctor/prescription.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/warnings.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr int most_ranks = 1024;

std::string in_mib(std::size_t bytes, bool up) { return fmt::format("{}MiB", (bytes + (up ? mib - 1 : 0)) / mib); }

desk desk_for(question const& asked, training const& how, std::size_t budget) {
  return {.of = asked.of, .how = how, .on = asked.on, .budget = budget, .host_budget = pinnable(asked.host_memory)};
}

bool enough(question const& asked, training const& how) {
  std::size_t const beside = states_of(asked.of, how).sum() + asked.reserve;
  if (beside >= asked.on.device_bytes) return false;
  std::size_t const budget = asked.on.device_bytes - beside;
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

/// Keeping all where that fits; else what the planner finds, with the whole batch if some plan of it fits.
std::optional<forecast> advise(desk const& at) {
  if (auto kept = keeping_all(at, at.of.batch)) return kept;
  int const part = largest_part_planned(at);
  return part > 0 ? by_planner(at, part) : std::nullopt;
}

/// The best two others.
void add_alternatives(prescription& to, desk const& at) {
  auto& others = to.alternatives;
  auto const add = [&](std::optional<forecast> one, char const* policy) {
    if (one) {
      others.push_back(std::move(*one));
    } else {
      to.unfit.emplace_back(policy);
    }
  };
  int const kept = largest_part_kept(at);
  if (kept > 0 && kept < at.of.batch) add(keeping_all(at, kept), "keep");
  int const part = to.advised->micro_batch;
  add(recomputing(at, part), "recompute");
  add(offloading(at, part), "offload");
  if (others.size() < 2) add(recomputing_by_root(at, part), "sqrt");
  // Another plan takes as long as the first: only where it is soon there, and no smaller part keeps everything.
  constexpr int soon_planned = 48;
  if ((others.size() < 2 || kept == 0) && part > 1 && at.of.layers <= soon_planned) {
    int smaller = part / 2;
    while (at.of.batch % smaller != 0) --smaller;
    add(by_planner(at, smaller), "auto");
  }
  std::ranges::stable_sort(others, {}, &forecast::step_us);
  if (others.size() > 2) others.resize(2);
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

std::size_t pinnable(std::size_t host_memory) noexcept { return host_memory / 5 * 4; }

prescription prescribe(question const& asked) {
  prescription made;
  made.asked = asked;
  profile const step = step_of(asked.of, asked.how, asked.on);
  made.memory = memory_of(asked.of, asked.how, step, asked.on.device_bytes, asked.reserve);
  if (!made.memory.states_fit() || !enough(asked, asked.how)) add_remedies(made);
  training const how = made.memory.states_fit() || !made.instead ? asked.how : *made.instead;
  if (made.memory.states_fit()) made.instead.reset();
  made.memory_instead = memory_of(asked.of, how, step, asked.on.device_bytes, asked.reserve);
  made.budget = made.memory_instead.budget();
  desk const at = desk_for(asked, how, made.budget);
  made.least_bytes = least_bytes(at, asked.of.batch);
  made.least_bytes_of_one = least_bytes(at, 1);
  if (made.budget > 0) {
    made.batch = largest_batch(at);
    made.context = largest_context(at);
    made.advised = advise(at);
  }
  if (made.advised) {
    add_alternatives(made, at);
    add_variables(made);
  }
  made.warnings = warnings_of(made, step);
  made.assumptions = assumptions_of(made);
  return made;
}

}  // namespace ferry::command
