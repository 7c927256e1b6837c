#include "runtime/chains.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ferry/model_profile.hpp"
#include "support/case_step.hpp"
#include "support/planner_cases.hpp"

namespace ferry::bench {

namespace {

constexpr std::array quick_chains{"a06_rand_L6", "b06_gpt_h4096_L32_m20", "e02_resnet50_m15", "f02_rand_L40",
                                  "gpt-1.5B rtx4090 20%"};

bool wanted(std::string_view name, bool quick, std::string const& only) {
  if (!only.empty()) return name.find(only) != std::string_view::npos;
  return !quick || std::ranges::find(quick_chains, name) != quick_chains.end();
}

void add_cases(chain_list& list, bool quick, std::string const& only) {
  constexpr double hardly_a_link = 1e3;  // bytes a second
  for (auto const& name : testing::planner_case_names()) {
    if (!wanted(name, quick, only)) continue;
    auto const known = testing::load_planner_case(name);
    auto const& c = known.problem;
    if (!known.known("best_combined_makespan")) {
      list.skipped.push_back({name, "nothing fits its budget"});
    } else if (std::min(c.d2h_bytes_per_s, c.h2d_bytes_per_s) < hardly_a_link) {
      list.skipped.push_back({name, "it has no link"});
    } else if (c.device_bytes >= known.derived.at("keep_all_peak_bytes").get<double>()) {
      list.skipped.push_back({name, "everything fits its budget"});
    } else {
      list.chains.push_back({name, testing::step_of(c), testing::hardware_of(c), testing::budget_of(c)});
    }
  }
}

void add_models(chain_list& list, bool quick, std::string const& only) {
  for (char const* const gpu : {"a100-80", "rtx4090"}) {
    auto on = named_hardware(gpu);
    struct model {
      std::string_view name;
      profile step;
    };
    std::array const models{
        model{"gpt-7B", gpt_profile({.layers = 32, .width = 4096, .heads = 32, .context = 2048, .batch = 4}, on)},
        model{"gpt-1.5B", gpt_profile({.layers = 48, .width = 1600, .heads = 25, .context = 1024, .batch = 8}, on)},
        model{"resnet-50", resnet_profile({.depth = 50, .batch = 256}, on)}};
    on.device_bytes = std::size_t{1} << 40;  // budgets are shares of what is saved, whatever the card has
    for (auto const& one : models) {
      for (double const share : {0.2, 0.4}) {
        auto const name = fmt::format("{} {} {:.0f}%", one.name, gpu, 100 * share);
        if (wanted(name, quick, only)) {
          list.chains.push_back({name, one.step, on, testing::bytes_of(one.step, share)});
        }
      }
    }
  }
}

}  // namespace

double judged_chain::segment_us() const {
  double all = 0;
  for (auto const& segment : step.segments) all += segment.forward_us + segment.backward_us;
  return all / static_cast<double>(step.segments.size());
}

chain_list load_chains(bool quick, std::string const& only) {
  chain_list list;
  add_cases(list, quick, only);
  add_models(list, quick, only);
  return list;
}

}  // namespace ferry::bench
