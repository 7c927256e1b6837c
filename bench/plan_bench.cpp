// How long planning takes and how good plans are: first plans, polished plans and re-plans by length of the chain, and
// the stored cases against what is known of them.
//
//   build/release/bench/plan_bench [FOLDER OF CASES]
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferry/model_profile.hpp"
#include "ferry/plan.hpp"
#include "plan/case_solver.hpp"
#include "plan/chain_json.hpp"
#include "plan/chain_solver.hpp"
#include "plan/step_chain.hpp"
#include "support/random_chains.hpp"

namespace {

using namespace ferry;
using planning::chain;
using planning::chain_solver;
using clock_type = std::chrono::steady_clock;

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double ms_since(clock_type::time_point then) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - then).count();
}

void time_chain(std::string const& name, chain const& c) {
  std::vector<double> first;
  std::vector<double> polished;
  std::vector<double> again;
  planning::chain_solution found;
  for (int run = 0; run < 5; ++run) {
    auto const began = clock_type::now();
    chain_solver solver(c);
    planning::solve_options quick;
    quick.polish = false;
    (void)solver.solve(quick);
    first.push_back(ms_since(began));
    if (run < 3) {
      auto const from = clock_type::now();
      found = chain_solver(c).solve({});
      polished.push_back(ms_since(from));
    }
    solver.set_link(0.9 * c.d2h_bytes_per_s, 0.9 * c.h2d_bytes_per_s);
    auto const replan = clock_type::now();
    (void)solver.solve(quick);
    again.push_back(ms_since(replan));
  }
  fmt::print("{:<16} {:>6} {:>10.1f} {:>12.1f} {:>10.1f} {:>10.2f}% {:>10.2f}%\n", name, c.stages(), median(first),
             median(polished), median(again), 100 * (found.first_seconds / found.lower_bound_s - 1),
             100 * (found.seconds / found.lower_bound_s - 1));
}

void time_chains() {
  fmt::print("{:<16} {:>6} {:>10} {:>12} {:>10} {:>11} {:>11}\n", "chain", "stages", "first, ms", "polished, ms",
             "again, ms", "first gap", "gap");
  for (std::size_t const stages : {24U, 100U, 1000U}) {
    auto gpt = testing::gpt_chain(3, stages, stages);
    testing::set_budget(gpt, 0.2);
    time_chain("equal blocks", gpt);
    auto random = testing::long_random_chain(5, stages, stages);
    testing::set_budget(random, 0.2);
    time_chain("all different", random);
  }
}

void judge_cases(std::filesystem::path const& folder) {
  fmt::print("\n{:<26} {:>6} {:>10} {:>10} {:>10} {:>9} {:>9}\n", "case", "stages", "overhead", "best known", "ratio",
             "gap", "ms");
  std::vector<std::filesystem::path> files;
  for (auto const& file : std::filesystem::directory_iterator(folder)) files.push_back(file.path());
  std::ranges::sort(files);
  double sum = 0;
  double worst = 0;
  int count = 0;
  for (auto const& file : files) {
    std::ifstream in(file);
    auto const reference = nlohmann::json::parse(in).at("reference");
    if (!reference.at("best_combined_makespan").is_number()) continue;
    double const best = reference.at("best_combined_makespan");
    auto const c = planning::read_chain(file);
    chain_solver solver(c);
    auto const found = planning::solve_case(solver);
    double const ideal = c.ideal_s();
    fmt::print("{:<26} {:>6} {:>9.2f}% {:>9.2f}% {:>10.5f} {:>8.2f}% {:>9.1f}\n", file.stem().string(), c.stages(),
               100 * (found.seconds / ideal - 1), 100 * (best / ideal - 1), found.seconds / best,
               100 * (found.seconds / found.lower_bound_s - 1), found.solve_ms);
    sum += found.seconds / best;
    worst = std::max(worst, found.seconds / best);
    ++count;
  }
  fmt::print("{} cases: mean ratio {:.5f}, worst {:.5f}\n", count, sum / count, worst);
}

/// What placing items inside segments gains over placing whole segments.
void judge_items() {
  fmt::print("\n{:<12} {:>8} {:>16} {:>10}\n", "GPT 7B on", "budget", "whole segments", "items");
  for (char const* const gpu : {"a100-80", "rtx4090"}) {
    auto const on = named_hardware(gpu);
    auto const step = gpt_profile({.layers = 32, .width = 4096, .heads = 32, .context = 2048, .batch = 4}, on);
    double all = 0;
    for (auto const& segment : step.segments) {
      for (auto const& item : segment.items) all += static_cast<double>(item.bytes);
    }
    for (double const share : {0.1, 0.2, 0.3, 0.5}) {
      plan_options how;
      how.budget_bytes = static_cast<std::size_t>(share * all);
      how.insured = false;
      how.link_derating = 1;
      chain_solver whole(planning::make_step_chain(step, on, how, false).problem);
      auto const by_segments = whole.solve({});
      auto const by_items = make_plan(step, on, how);
      fmt::print("{:<12} {:>7.0f}% {:>15.2f}% {:>9.2f}%\n", gpu, 100 * share,
                 100 * (by_segments.seconds / whole.problem().ideal_s() - 1), 100 * by_items.overhead());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  time_chains();
  judge_items();
  judge_cases(argc > 1 ? argv[1] : "tests/data/planner-cases");
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  fmt::print("most memory: {:.0f} MiB\n", static_cast<double>(used.ru_maxrss) / 1024);
}
