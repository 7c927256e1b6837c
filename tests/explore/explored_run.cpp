// One explored run; see explored_run.hpp.
#include "explore/explored_run.hpp"

#include <rapidcheck.h>

#include "explore/explored_programs.hpp"
#include "explore/possible.hpp"
#include "explore/shrink.hpp"
#include "support/session_runner.hpp"

namespace ferry::testing {

namespace {

/// Where a text begins that is the same for the same mistake, whatever the program.
std::string kind_of(std::string const& problems) {
  for (char const* const kind : {"wrong bytes", "is lost", "unexpected", "freed in flight", "on_release", "bytes left",
                                 "never succeeds", "met, though it is impossible"}) {
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

explored explore(program const& p) {
  explored seen;
  session_runner runner(p);
  runner.count_in(seen.met);
  runner.run();
  seen.problems = runner.problems();
  for (auto const& [what, times] : seen.met.met()) {
    if (auto const* const why = why_impossible(what)) {
      seen.problems += "met, though it is impossible: " + what.text() + ", because " + why + "\n";
    }
  }
  seen.figures = to_json(runner.stats()) + std::to_string(runner.world().failed_calls());
  seen.time = runner.world().dev->now();
  return seen;
}

program smallest_failing(program failing, int most_runs) {
  auto const kind = kind_of(explore(failing).problems);
  return shrinker(
             std::move(failing),
             [&](program const& smaller) {
               auto const problems = explore(smaller).problems;
               return !problems.empty() && kind_of(problems) == kind;
             },
             most_runs)
      .shrink();
}

std::string text_of(program const& p) { return rc::toString(p); }

}  // namespace ferry::testing
