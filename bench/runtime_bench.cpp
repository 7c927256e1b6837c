// How well the session does when the link is not what was planned: stored chains and models on the sim device, whose
// link changes after a few steps, against the best possible in hindsight and against a plan that is only carried out.
//
//   build/release/bench/runtime_bench [--quick] [--case NAME] [--json FILE]
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "ferry/error.hpp"
#include "runtime/chains.hpp"
#include "runtime/judge.hpp"
#include "runtime/report.hpp"

int main(int argc, char** argv) {
  using namespace ferry;
  bool quick = false;
  std::string only;
  std::string json_file;
  CLI::App program("Judges the session's runtime on the sim device when the link is not what was planned.");
  program.add_flag("--quick", quick, "a handful of chains");
  program.add_option("--case", only, "only chains whose name contains this");
  program.add_option("--json", json_file, "write everything to this file as well");
  CLI11_PARSE(program, argc, argv);

  auto const began = std::chrono::steady_clock::now();
  auto list = bench::load_chains(quick, only);
  std::vector<bench::outcome> all;
  bench::print_head();
  for (auto const& chain : list.chains) {
    try {
      auto const seen = bench::judge(chain);
      bench::print_rows(seen);
      all.insert(all.end(), seen.begin(), seen.end());
    } catch (error const& cause) {
      list.skipped.push_back({chain.name, cause.what()});
    }
  }
  bench::print_summary(all, list.skipped);
  if (!json_file.empty()) bench::write_json(json_file, all, list.skipped);
  fmt::print("{} chains in {:.0f} s\n", list.chains.size(),
             std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
}
