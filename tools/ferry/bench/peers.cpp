#include "bench/peers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bench/plan_sketch.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t least_offloaded = 1024;              // torchtune's min_offload_size
constexpr std::size_t least_input = std::size_t{2} << 20;  // unsloth's threshold

std::size_t bytes_of(profile_segment const& segment) {
  std::size_t sum = 0;
  for (auto const& one : segment.items) sum += one.bytes;
  return sum;
}

/// What no plan of these kinds can do without: the largest segment with its gradients.
std::size_t working_bytes(profile const& step) {
  std::size_t most = 0;
  for (auto const& segment : step.segments) {
    most = std::max(most, bytes_of(segment) + std::max(segment.forward_scratch_bytes, segment.backward_scratch_bytes));
  }
  return most;
}

std::vector<peer_plan> plans_of_first_layers(profile const& step, hardware const&, std::size_t budget_bytes) {
  // The last segment is needed first: no system sends it out.
  auto const segments = static_cast<std::uint32_t>(step.segments.size());
  std::size_t kept = 0;
  std::uint32_t least = segments - 1;
  while (least > 0 && kept + bytes_of(step.segments[least]) <= budget_bytes) kept += bytes_of(step.segments[least--]);
  std::vector<peer_plan> found;
  // From what arithmetic allows on, in steps that grow: what lies in flight and scratch memory need room too.
  for (std::uint32_t more = 0; least + more < segments; more = more < 4 ? more + 1 : more * 3 / 2) {
    std::uint32_t const layers = least + more;
    found.push_back({fmt::format("first {} of {} layers", layers, segments), offload_first(step, layers)});
  }
  bool const all_tried = !found.empty() && found.back().knob.starts_with(fmt::format("first {} ", segments - 1));
  if (!all_tried) {
    found.push_back({fmt::format("first {} of {} layers", segments - 1, segments), offload_first(step, segments - 1)});
  }
  return found;
}

/// Names of items, the dearest to rebuild for their bytes first: what a user who has measured would send out first.
std::vector<std::string> groups_of(profile const& step) {
  struct sums {
    double us = 0;
    double bytes = 0;
  };
  std::map<std::string, sums> all;
  for (auto const& segment : step.segments) {
    for (auto const& one : segment.items) {
      all[one.name].us += one.recipe_us.value_or(0);
      all[one.name].bytes += static_cast<double>(one.bytes);
    }
  }
  std::vector<std::string> names;
  for (auto const& [name, sum] : all) names.push_back(name);
  std::ranges::stable_sort(names, [&](std::string const& a, std::string const& b) {
    return all[a].us * all[b].bytes > all[b].us * all[a].bytes;
  });
  return names;
}

std::vector<peer_plan> plans_of_groups(profile const& step, hardware const&, std::size_t budget_bytes) {
  auto const names = groups_of(step);
  std::vector<peer_plan> found;
  std::size_t kept = 0;
  for (auto const& segment : step.segments) kept += bytes_of(segment);
  std::vector<std::string> chosen;
  for (auto const& name : names) {
    chosen.push_back(name);
    for (std::size_t i = 0; i + 1 < step.segments.size(); ++i) {
      for (auto const& one : step.segments[i].items) {
        if (one.name == name) kept -= one.bytes;
      }
    }
    if (kept > budget_bytes) continue;  // what stays alone is too much
    found.push_back({fmt::format("{}", fmt::join(chosen, "+")), offload_groups(step, chosen)});
  }
  return found;
}

/// The planner's own optimum on hardware without a link.
std::vector<peer_plan> plans_of_recompute_only(profile const& step, hardware on, std::size_t budget_bytes,
                                               double time_limit_ms) {
  on.device_to_host.gbps = on.host_to_device.gbps = 0;
  plan_options how;
  how.budget_bytes = budget_bytes;
  how.insured = false;
  how.time_limit_ms = time_limit_ms;
  try {
    return {{"", make_plan(step, on, how)}};
  } catch (infeasible_budget const&) {
    return {};
  }
}

}  // namespace

void keep_to_plan(config& settings) {
  constexpr double never_us = 1e9;
  settings.stall_tolerance_us = never_us;
  settings.adapt = false;
  settings.min_bytes = 0;
}

bool keeps_to_rule(peer const& rule, session_stats const& stats) {
  auto const none_of = [&](std::initializer_list<reason> reasons) {
    return std::ranges::none_of(reasons, [&](reason why) { return stats.count(why) > 0; });
  };
  using enum reason;
  if (!none_of({dropped_pinned_full, dropped_in_flight_full, dropped_instead_of_waiting,
                recomputed_sooner_than_transfer, kept_pinned_full})) {
    return false;
  }
  return rule.rebuilds || none_of({dropped_for_space, recomputed_by_plan});
}

plan offload_everything(profile const& step) {
  plan_sketch sketch(step);
  for (std::uint32_t i = 0; i < sketch.segments(); ++i) {
    auto const& items = step.segments[i].items;
    for (std::size_t k = 0; k < items.size(); ++k) {
      if (items[k].bytes >= least_offloaded) sketch.place(i, k, placement::offload);
    }
    sketch.fetch_before_backward(i, i);
  }
  return std::move(sketch).finish();
}

plan offload_first(profile const& step, std::uint32_t layers) {
  plan_sketch sketch(step);
  std::uint32_t const last = sketch.segments() - 1;
  for (std::uint32_t i = 0; i < layers; ++i) {
    for (std::size_t k = 0; k < step.segments[i].items.size(); ++k) sketch.place(i, k, placement::offload);
  }
  // In the order in which they are needed: the fetches of one position run one after the other.
  for (std::uint32_t i = layers; i-- > 0;) {
    sketch.fetch_before_backward(std::clamp(i + last - layers, i + 1, last), i);
  }
  return std::move(sketch).finish();
}

plan offload_groups(profile const& step, std::vector<std::string> const& names) {
  plan_sketch sketch(step);
  for (std::uint32_t i = 0; i + 1 < sketch.segments(); ++i) {
    auto const& items = step.segments[i].items;
    for (std::size_t k = 0; k < items.size(); ++k) {
      if (std::ranges::find(names, items[k].name) != names.end()) sketch.place(i, k, placement::offload);
    }
    sketch.fetch_before_backward(i + 1, i);
  }
  return std::move(sketch).finish();
}

plan offload_inputs(profile const& step) {
  plan_sketch sketch(step);
  for (std::uint32_t i = 0; i < sketch.segments(); ++i) {
    auto const& items = step.segments[i].items;
    std::size_t const input = sketch.input_of(i);
    for (std::size_t k = 0; k < items.size(); ++k) {
      bool const large = items[k].bytes >= least_input && i + 1 < sketch.segments();
      bool const stays = !items[k].recipe_us || k == input;
      sketch.place(i, k, !stays ? placement::recompute : large ? placement::offload : placement::keep);
    }
    sketch.fetch_before_backward(std::min(i + 1, sketch.segments() - 1), i);
  }
  return std::move(sketch).finish();
}

std::vector<peer> peers(double time_limit_ms) {
  std::vector<peer> all;
  all.push_back({"offload-all", "every tensor out on a side stream, back on demand (torchtune, TRL)", false,
                 [](profile const& step, hardware const&, std::size_t) {
                   return std::vector<peer_plan>{{"", offload_everything(step)}};
                 }});
  all.push_back({"first-k", "K of N layers out, back with lookahead (TransformerEngine)", false,
                 plans_of_first_layers});
  all.push_back({"groups", "named groups out, back one layer ahead (Megatron, fine-grained)", false, plans_of_groups});
  all.push_back({"inputs", "block inputs out, blocks rebuilt (unsloth)", true,
                 [](profile const& step, hardware const&, std::size_t) {
                   return std::vector<peer_plan>{{"", offload_inputs(step)}};
                 }});
  all.push_back({"rebuild-only", "the best mix of keeping and rebuilding (rotor, torch.compile)", true,
                 [=](profile const& step, hardware const& on, std::size_t budget_bytes) {
                   return plans_of_recompute_only(step, on, budget_bytes, time_limit_ms);
                 }});
  all.push_back({"dtr", "evicts by cost, size and staleness, rebuilds on demand (DTR)", true,
                 [](profile const& step, hardware const&, std::size_t budget_bytes) {
                   if (working_bytes(step) > budget_bytes) return std::vector<peer_plan>{};
                   return std::vector<peer_plan>{{"", evict_and_rebuild(step, budget_bytes)}};
                 }});
  return all;
}

}  // namespace ferry::command
