// How well the session does when the link is not what was planned: stored chains and models on the sim device, whose
// link changes after a few steps, against the best possible in hindsight and against a plan that is only carried out.
//
//   build/release/bench/runtime_bench [--quick] [--case NAME] [--json FILE]
//   build/release/bench/runtime_bench --host
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "runtime/chains.hpp"
#include "runtime/host.hpp"
#include "runtime/judge.hpp"
#include "runtime/report.hpp"

namespace {

using namespace ferry;

/// The simulated steps need some 20 MiB. A runtime that never stops allocating must fail here, not take the machine.
void limit_memory() {
  constexpr rlim_t most = rlim_t{4} << 30;
  rlimit const limit{most, most};
  setrlimit(RLIMIT_DATA, &limit);
}

void judge_on_sim(bool quick, std::string const& only, std::string const& json_file) {
  auto const began = std::chrono::steady_clock::now();
  auto list = bench::load_chains(quick, only);
  std::vector<bench::outcome> all;
  bench::print_head();
  for (auto const& chain : list.chains) {
    try {
      auto const seen = bench::judge(chain);
      bench::print_rows(seen);
      all.insert(all.end(), seen.begin(), seen.end());
    } catch (std::exception const& cause) {
      list.skipped.push_back({chain.name, cause.what()});
    }
  }
  bench::print_summary(all, list.skipped);
  if (!json_file.empty()) bench::write_json(json_file, all, list.skipped);
  fmt::print("{} chains in {:.0f} s\n", list.chains.size(),
             std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  bool on_host = false;
  std::string only;
  std::string json_file;
  CLI::App program("Judges the session's runtime on the sim device when the link is not what was planned.",
                   "runtime_bench");
  program.add_flag("--quick", quick, "a handful of chains");
  program.add_flag("--host", on_host, "in real time instead: a small transformer on the host device");
  program.add_option("--case", only, "only chains whose name contains this");
  program.add_option("--json", json_file, "write everything to this file as well");
  CLI11_PARSE(program, argc, argv);
  limit_memory();
  if (on_host) {
    bench::judge_on_host();
  } else {
    judge_on_sim(quick, only, json_file);
  }
}
