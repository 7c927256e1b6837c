#include "bench/measured_step.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "ferry/host_device.hpp"
#include "train/train_run.hpp"

namespace ferry::command {

namespace {

constexpr int warm_up = 2;  // steps that find cold caches, and sessions that have yet to learn
constexpr int timed = 5;

hardware describe(device const& on, train_plan const& plan) {
  hardware found;
  auto const& capabilities = on.capabilities();
  found.name = capabilities.name;
  found.device_bytes = plan.device_bytes_for(plan.keep_all_bytes);
  found.host_bytes = plan.keep_all_bytes;
  if (auto const* const host = dynamic_cast<host_device const*>(&on)) {
    found.device_to_host = host->link(copy_direction::device_to_host);
    found.host_to_device = host->link(copy_direction::host_to_device);
  } else {
    found.device_to_host.gbps = capabilities.device_to_host_gbps;
    found.host_to_device.gbps = capabilities.host_to_device_gbps;
  }
  return found;
}

/// The median of each time over several looks at the same step.
profile medians_of(std::vector<profile> const& seen) {
  profile middle = seen.back();
  auto const of_all = [&](auto const& time_of) {
    std::vector<double> times;
    for (auto const& one : seen) times.push_back(time_of(one));
    return median(std::move(times));
  };
  for (std::size_t i = 0; i < middle.segments.size(); ++i) {
    auto& segment = middle.segments[i];
    segment.forward_us = of_all([&](profile const& one) { return one.segments[i].forward_us; });
    segment.backward_us = of_all([&](profile const& one) { return one.segments[i].backward_us; });
    for (std::size_t k = 0; k < segment.items.size(); ++k) {
      auto& recipe_us = segment.items[k].recipe_us;
      if (!recipe_us) continue;
      recipe_us = of_all([&](profile const& one) { return one.segments[i].items[k].recipe_us.value_or(0); });
    }
  }
  return middle;
}

}  // namespace

train_flags training_of(gpt_dimensions const& shape, std::string const& device) {
  train_flags flags;
  flags.layers = shape.layers;
  flags.width = shape.width;
  flags.heads = shape.heads;
  flags.context = shape.context;
  flags.vocabulary = shape.vocabulary;
  flags.batch = shape.batch;
  flags.attention = shape.flash_attention ? "tiled" : "explicit";
  if (!device.empty()) flags.device = device;
  flags.budget = "100%";
  return flags;
}

config settings_for_one(train_plan const& plan, std::size_t budget_bytes, std::string_view policy) {
  auto settings = plan.settings;
  settings.host_budget = byte_amount::exactly(plan.keep_all_bytes);
  settings.trace_file.clear();
  settings.stats_file.clear();
  settings.profile_file.clear();
  settings.budget = byte_amount::exactly(budget_bytes);
  settings.set("FERRY_POLICY", policy);
  return settings;
}

measured_step measure_step(train_plan const& plan) {
  auto const on = make_device_for_several(plan, plan.keep_all_bytes, 1, 1);
  {
    train_run keeping(*on, plan, settings_for_one(plan, plan.keep_all_bytes, "keep"));
    double fastest = keeping.step().result.seconds;
    for (int i = 0; i < warm_up; ++i) fastest = std::min(fastest, keeping.step().result.seconds);
    balance_link(*on, plan, fastest);
  }
  train_run rebuilding(*on, plan, settings_for_one(plan, plan.keep_all_bytes, "recompute"));  // times every recipe
  rebuilding.session().record_profile(true);
  std::vector<profile> seen;
  for (int i = 0; i < warm_up + timed; ++i) {
    rebuilding.step();
    auto one = rebuilding.session().recorded_profile();
    if (i >= warm_up && one) seen.push_back(std::move(*one));
  }
  if (seen.empty()) throw failed("the step could not be measured; try again on a machine with less to do");
  return {medians_of(seen), describe(*on, plan)};
}

}  // namespace ferry::command
