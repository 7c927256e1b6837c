// One explored run; see explored_run.hpp.
#include "explore/explored_run.hpp"

#include <rapidcheck.h>

#include <tuple>

#include "explore/explored_programs.hpp"
#include "explore/shrink.hpp"
#include "support/session_runner.hpp"

namespace ferry::testing {

namespace {

/// Where a text begins that is the same for the same mistake, whatever the program.
std::string kind_of(std::string const& problems) {
  for (char const* const kind :
       {"wrong bytes", "is lost", "unexpected", "freed in flight", "on_release", "bytes left", "never succeeds"}) {
    if (problems.find(kind) != std::string::npos) return kind;
  }
  return problems.substr(0, problems.find_first_of("0123456789'"));
}

}  // namespace

program explored_program(std::uint64_t number) {
  static auto const any = rc::gen::exec([] { return any_explored_program(); });
  constexpr int size = 100;
  return any(rc::Random(number), size).value();
}

std::string explore(program const& p, coverage& total) {
  session_runner runner(p);
  runner.count_in(total);
  runner.run();
  return runner.problems();
}

bool repeats(program const& p) {
  auto const outcome = [&] {
    coverage met;
    session_runner runner(p);
    runner.count_in(met);
    runner.run();
    auto const time = runner.world().dev->now();
    return std::tuple(met.met(), to_json(runner.stats()), time, runner.problems(), runner.world().failed_calls());
  };
  return outcome() == outcome();
}

program smallest_failing(program failing, int most_runs) {
  coverage unused;
  auto const kind = kind_of(explore(failing, unused));
  return shrinker(
             std::move(failing),
             [&](program const& smaller) {
               auto const problems = explore(smaller, unused);
               return !problems.empty() && kind_of(problems) == kind;
             },
             most_runs)
      .shrink();
}

std::string text_of(program const& p) { return rc::toString(p); }

}  // namespace ferry::testing
