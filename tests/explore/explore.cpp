#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "explore/explored_programs.hpp"
#include "explore/shrink.hpp"
#include "support/session_runner.hpp"

using namespace ferry::testing;

namespace {
std::string problems_of(program const& p) {
  session_runner runner(p);
  runner.run();
  return runner.problems();
}
rc::Shrinkable<program> drawn(std::uint64_t seed) {
  static auto const gen = rc::gen::exec([] { return any_explored_program(); });
  return gen(rc::Random(seed), 100);
}
}  // namespace

static std::uint64_t current = 0;

int main(int argc, char** argv) {
  std::set_terminate([] { std::fprintf(stderr, "seed %llu: terminated\n", (unsigned long long)current); std::abort(); });
  std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  auto const begin = std::chrono::steady_clock::now();
  double gen_s = 0;
  std::uint64_t failures = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto const t0 = std::chrono::steady_clock::now();
    auto const shrinkable = drawn(seed + i);
    program const p = shrinkable.value();
    gen_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
    current = seed + i;
    auto const problems = problems_of(p);
    if (problems.empty()) continue;
    ++failures;
    std::printf("seed %llu: %s\n", (unsigned long long)(seed + i), problems.substr(0, problems.find("after:")).c_str());
    if (count == 1) {
      auto const kind = [](std::string const& text) { return text.substr(0, 12); };
      auto const small = shrinker(p, [&](program const& q) { auto const t = problems_of(q); return !t.empty() && kind(t) == kind(problems); }, 20000).shrink();
      std::printf("%s\n%s\n", problems_of(small).c_str(), rc::toString(small).c_str());
    }
    std::fflush(stdout);
  }
  double const s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%llu programs, %llu failures, %.1f s (%.2f ms each, of which %.2f to draw)\n", (unsigned long long)count, (unsigned long long)failures, s, 1e3 * s / double(count), 1e3 * gen_s / double(count));
}
