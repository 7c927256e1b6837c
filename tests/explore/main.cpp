// ferry_explore: random programs on a device where chance decides who gets on when and what fails, each from one
// number. `scripts/explore` builds and runs it, docs/testing.md explains it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "explore/explored_run.hpp"
#include "explore/explorers.hpp"
#include "explore/possible.hpp"

namespace {

using namespace ferry::testing;

#if defined(FERRY_CUDASIM)
constexpr char const* device_name = "cuda";
#else
constexpr char const* device_name = "sim";
#endif

struct flags {
  std::optional<unsigned> seconds;
  std::optional<std::uint64_t> programs;
  std::optional<std::uint64_t> seed;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  std::optional<std::uint64_t> replay;
  std::string numbers;
  int shrink_runs = 5000;
  bool twice = false;
  bool go_on = false;
  bool coverage = false;
  bool quiet = false;
};

auto printed(std::uint64_t number) { return static_cast<unsigned long long>(number); }

/// Tells what went wrong, and with how little.
void tell(explored_failure const& failure, int shrink_runs) {
  std::printf("program %llu on %s: %s\n", printed(failure.number), device_name, failure.problems.c_str());
  bool const crashed = failure.problems.find("crashed") == 0 || failure.problems.find("ended") == 0;
  if (!crashed && shrink_runs > 0) {
    auto const small = smallest_failing(explored_program(failure.number), shrink_runs);
    coverage unused;
    std::printf("made as small as it gets:\n%s\n%s", explore(small, unused).c_str(), text_of(small).c_str());
  }
  std::printf("again: scripts/explore --device %s --replay %llu\n", device_name, printed(failure.number));
}

void tell_coverage(std::map<std::string, std::uint64_t> const& met) {
  std::printf("\n%zu kinds of happenings were met:\n", met.size());
  for (auto const& [what, times] : met) std::printf("%12llu  %s\n", printed(times), what.c_str());
  std::printf("\npossible, and never met:\n");
  std::size_t missing = 0;
  for (auto const& each : all_happenings()) {
    if (why_impossible(each) != nullptr || met.contains(each.text())) continue;
    std::printf("              %s\n", each.text().c_str());
    ++missing;
  }
  std::printf("%zu in all\n", missing);
}

int replay(std::uint64_t number, int shrink_runs) {
  coverage unused;
  auto const problems = explore(explored_program(number), unused);
  if (problems.empty()) {
    std::printf("program %llu on %s: nothing goes wrong\n%s", printed(number), device_name,
                text_of(explored_program(number)).c_str());
    return 0;
  }
  tell({number, problems}, shrink_runs);
  return 1;
}

/// Numbers of programs that once failed, one a line: `sim 123  # why`. Those of this device are run.
int replay_all(std::string const& file, int shrink_runs) {
  std::ifstream in(file);
  if (!in) {
    std::fprintf(stderr, "ferry_explore: '%s' cannot be read\n", file.c_str());
    return 2;
  }
  int failed = 0;
  int run = 0;
  std::string line;
  while (std::getline(in, line)) {
    line = line.substr(0, line.find('#'));
    char device[8] = {};
    unsigned long long number = 0;
    int const read = std::sscanf(line.c_str(), "%7s %llu", device, &number);
    if (read == EOF) continue;
    if (read != 2) {
      std::fprintf(stderr, "ferry_explore: '%s' has a line that is no device and number: %s\n", file.c_str(),
                   line.c_str());
      return 2;
    }
    if (std::string(device) != device_name) continue;
    ++run;
    coverage unused;
    auto const problems = explore(explored_program(number), unused);
    if (problems.empty()) continue;
    tell({number, problems}, shrink_runs);
    ++failed;
  }
  std::printf("%d programs that once failed on %s: %d fail\n", run, device_name, failed);
  return failed > 0 ? 1 : 0;
}

int explore_all(flags const& given) {
  exploring how;
  how.first =
      given.seed ? *given.seed : std::random_device{}() | (std::uint64_t{std::random_device{}() & 0xFFFFU} << 32U);
  how.most = given.programs;
  if (given.seconds || !given.programs) how.time = std::chrono::seconds(given.seconds.value_or(10));
  how.processes = given.jobs;
  how.twice = given.twice;
  how.go_on = given.go_on;
  how.progress = !given.quiet && isatty(2) != 0;
  stop_when_interrupted();
  std::printf("exploring on %s, seed %llu\n", device_name, printed(how.first));
  std::fflush(stdout);
  auto const result = explore_programs(how);
  for (auto const& each : result.failures) tell(each, given.shrink_runs);
  if (given.coverage) tell_coverage(result.met);
  int wrong = result.failures.empty() ? 0 : 1;
  for (auto const& each : all_happenings()) {
    auto const* const why = why_impossible(each);
    if (why == nullptr || !result.met.contains(each.text())) continue;
    std::printf("met, though it is impossible: %s, because %s\n", each.text().c_str(), why);
    wrong = 1;
  }
  std::printf("%llu programs on %s in %.1f s, %zu failed, %zu kinds of happenings\n", printed(result.programs),
              device_name, result.seconds, result.failures.size(), result.met.size());
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Explores what may become of random programs, on a device where chance decides who gets on when and what "
      "fails. Every run can be had again by its number.");
  flags given;
  app.add_option("--seconds", given.seconds, "for so long; 10 unless --programs is given")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--programs", given.programs, "so many at most")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", given.seed, "the first program's number; a fresh one if not given")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--jobs", given.jobs, "processes side by side; as many as there are cores if not given")
      ->check(CLI::Range(1, 256));
  app.add_option("--replay", given.replay, "one program, by its number: what goes wrong, and with how little")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--numbers", given.numbers, "all programs of this device in a file: a device and a number a line");
  app.add_option("--shrink-runs", given.shrink_runs, "how often a failing program is tried smaller")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--twice", given.twice, "runs each program again, and sees whether it repeats exactly");
  app.add_flag("--go-on", given.go_on, "after a failure too");
  app.add_flag("--coverage", given.coverage, "shows what happened how often, and what never did");
  app.add_flag("--quiet", given.quiet, "no progress");
  CLI11_PARSE(app, argc, argv);
  if (given.replay) return replay(*given.replay, given.shrink_runs);
  if (!given.numbers.empty()) return replay_all(given.numbers, given.shrink_runs);
  return explore_all(given);
}
