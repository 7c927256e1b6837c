#include "runtime/faults.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>

#include "support/random_chains.hpp"

namespace ferry::bench {

namespace {

constexpr std::array faults{fault{'a', "as planned", 1.0}, fault{'b', "half speed", 1.0 / 2},
                            fault{'c', "a third", 1.0 / 3}, fault{'d', "random stalls", 1.0, true},
                            fault{'e', "twice as fast", 2.0}};

/// FNV-1a: chains keep their stalls when others join the list.
std::uint64_t seed_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::chrono::nanoseconds nanoseconds(double s) { return std::chrono::nanoseconds(std::llround(1e9 * s)); }

}  // namespace

std::span<fault const> all_faults() { return faults; }

hardware with_fault(hardware on, fault const& which) {
  on.device_to_host.gbps *= which.speed;
  on.host_to_device.gbps *= which.speed;
  return on;
}

std::vector<planning::link_stall> stalls_of(judged_chain const& chain, fault const& which, std::uint32_t faulty_step) {
  if (!which.stalls) return {};
  testing::random_source chance(seed_of(chain.name) + faulty_step);
  auto const segments = static_cast<double>(chain.step.segments.size());
  double const segment_s = 1e-6 * chain.segment_us();
  std::vector<planning::link_stall> drawn(chance.count(1, 2));
  for (auto& each : drawn) {
    double const length_s = segment_s * chance.between(1, std::min(20.0, segments));
    each.from_s = chance.between(0, segments * segment_s - length_s);
    each.until_s = each.from_s + length_s;
  }
  std::ranges::sort(drawn, {}, &planning::link_stall::from_s);
  if (drawn.size() == 2 && drawn[1].from_s <= drawn[0].until_s) {
    drawn[0].until_s = std::max(drawn[0].until_s, drawn[1].until_s);
    drawn.pop_back();
  }
  return drawn;
}

void inject(sim_device& into, judged_chain const& chain, fault const& which, std::uint32_t faulty_step) {
  auto const link = with_fault(chain.on, which);
  into.set_link(copy_direction::device_to_host, link.device_to_host);
  into.set_link(copy_direction::host_to_device, link.host_to_device);
  auto const began = into.now();
  for (auto const& stall : stalls_of(chain, which, faulty_step)) {
    for (auto const direction : {sim_engine::device_to_host, sim_engine::host_to_device}) {
      into.slow_down({.what = direction,
                      .factor = sim_slow_down::standstill,
                      .from = began + nanoseconds(stall.from_s),
                      .until = began + nanoseconds(stall.until_s)});
    }
  }
}

}  // namespace ferry::bench
