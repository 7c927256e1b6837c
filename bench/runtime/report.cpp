#include "runtime/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace ferry::bench {

namespace {

constexpr std::size_t judged = 0;  // of the variants
constexpr std::size_t rival = 1;
constexpr double not_asked = std::numeric_limits<double>::infinity();

/// What is asked of the judged variant: its largest ratios to hindsight, and its least speed-up over its rival.
struct target {
  char fault;
  double first;
  double later;
  double speed_up;
};
constexpr double hardly_slower = 1 / 1.01;
constexpr target targets[] = {{'a', 1.02, 1.02, hardly_slower},
                              {'b', 1.10, 1.03, hardly_slower},
                              {'c', 1.10, 1.03, 1.3},
                              {'d', 1.15, 1.15, hardly_slower},
                              {'e', 1.10, 1.03, hardly_slower}};

target target_of(char fault) { return *std::ranges::find(targets, fault, &target::fault); }

double speed_up(outcome const& seen, std::size_t step) {
  return seen.by_variant[rival].faulty_us[step] / seen.by_variant[judged].faulty_us[step];
}

/// The median over the faulty steps from the third on.
double steady_speed_up(outcome const& seen) {
  std::vector<double> each;
  for (std::size_t k = 2; k < seen.hindsight_us.size(); ++k) each.push_back(speed_up(seen, k));
  return median(std::move(each));
}

struct spread {
  double middle = 0;
  double ninetieth = 0;
  double worst = 0;
};

spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  auto const last = values.size() - 1;
  return {values[values.size() / 2], values[(9 * last + 9) / 10], values.back()};
}

void print_spread(char const* when, std::vector<double> const& values, double asked) {
  auto const [middle, ninetieth, worst] = spread_of(values);
  auto const met = std::ranges::count_if(values, [asked](double v) { return v <= asked + 5e-4; });
  fmt::print("  {:<22} median {:>6.3f}   90% {:>6.3f}   worst {:>6.3f}   asked <= {:.2f}: {} of {}\n", when, middle,
             ninetieth, worst, asked, met, values.size());
}

void print_speed_up(char const* when, std::vector<double> values, double asked) {
  std::ranges::sort(values);
  auto const met = std::ranges::count_if(values, [asked](double v) { return v >= asked - 5e-4; });
  fmt::print("  {:<22} median {:>6.3f}   least {:>6.3f}   asked >= {:.2f}: {} of {}\n", when, values[values.size() / 2],
             values.front(), asked, met, values.size());
}

void summarise(std::vector<outcome> const& all, fault const& what) {
  std::vector<double> first, third, steady, faster_first, faster;
  for (auto const& seen : all) {
    if (seen.what.letter != what.letter) continue;
    auto const r = ratios_of(seen, judged);
    first.push_back(r.first);
    third.push_back(r.third);
    steady.push_back(r.steady);
    faster_first.push_back(speed_up(seen, 0));
    faster.push_back(steady_speed_up(seen));
  }
  if (first.empty()) return;
  auto const asked = target_of(what.letter);
  fmt::print("({}) {}\n", what.letter, what.what);
  print_spread("first faulty step", first, asked.first);
  print_spread("third", third, asked.later);
  print_spread("steady", steady, asked.later);
  print_speed_up("over static, first", std::move(faster_first), hardly_slower);
  print_speed_up("over static, steady", std::move(faster), asked.speed_up);
}

}  // namespace

void print_head() {
  fmt::print("{:<26} {:<17} {:>12}", "chain", "fault", "hindsight ms");
  for (auto const& how : all_variants()) {
    fmt::print(" | {:>8} {:>7} {:>7} {:>5}", how.name.substr(0, 8), "third", "steady", "plans");
  }
  fmt::print(" | {:>8}\n", "speed-up");
}

void print_rows(std::vector<outcome> const& of_one_chain) {
  for (auto const& seen : of_one_chain) {
    fmt::print("{:<26} ({}) {:<13} {:>12.3f}", seen.chain, seen.what.letter, seen.what.what,
               1e-3 * median(seen.hindsight_us));
    for (std::size_t v = 0; v < seen.by_variant.size(); ++v) {
      auto const r = ratios_of(seen, v);
      fmt::print(" | {:>8.3f} {:>7.3f} {:>7.3f} {:>5}", r.first, r.third, r.steady, seen.by_variant[v].plans);
    }
    fmt::print(" | {:>8.3f}\n", steady_speed_up(seen));
  }
  std::fflush(stdout);
}

void print_summary(std::vector<outcome> const& all, std::vector<skipped_chain> const& skipped) {
  fmt::print("\n");
  for (auto const& what : all_faults()) summarise(all, what);
  for (auto const& [name, why] : skipped) fmt::print("skipped {}: {}\n", name, why);
}

void write_json(std::filesystem::path const& file, std::vector<outcome> const& all,
                std::vector<skipped_chain> const& skipped) {
  nlohmann::json root;
  root["rows"] = nlohmann::json::array();
  for (auto const& seen : all) {
    nlohmann::json row{
        {"chain", seen.chain}, {"fault", std::string(1, seen.what.letter)}, {"hindsight_us", seen.hindsight_us}};
    for (std::size_t v = 0; v < seen.by_variant.size(); ++v) {
      auto const r = ratios_of(seen, v);
      row["variants"][std::string(all_variants()[v].name)] = {{"faulty_us", seen.by_variant[v].faulty_us},
                                                              {"plans", seen.by_variant[v].plans},
                                                              {"first", r.first},
                                                              {"third", r.third},
                                                              {"steady", r.steady}};
    }
    row["speed_up"] = steady_speed_up(seen);
    root["rows"].push_back(std::move(row));
  }
  for (auto const& [name, why] : skipped) root["skipped"][name] = why;
  std::ofstream(file) << root.dump(2) << '\n';
}

}  // namespace ferry::bench
