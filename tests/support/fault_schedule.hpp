// What happens to a training while it runs: links that change their speed or stand still, kernels that take longer,
// budgets and batches of other sizes, hints, and settings of all kinds. A schedule is plain data, all of it drawn from
// one number, so that a failure is repeated by that number.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/host_device.hpp"
#include "ferry/session.hpp"
#include "ferry/sim_device.hpp"
#include "support/real_device.hpp"
#include "support/session_model.hpp"

namespace ferry::testing {

/// Repeatable draws.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(mixed(seed)) {}

  std::uint64_t any() { return mixed(state_ += 0x9E3779B97F4A7C15ULL); }
  std::size_t below(std::size_t n) { return any() % n; }
  /// Both included.
  std::size_t from_to(std::size_t low, std::size_t high) { return low + below(high - low + 1); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  double unit() { return static_cast<double>(any() >> 11U) * 0x1p-53; }
  template <typename T>
  T of(std::initializer_list<T> choices) {
    return *(choices.begin() + below(choices.size()));
  }

 private:
  std::uint64_t state_;
};

/// Who decides what becomes of items.
enum class decider : std::uint8_t { automatic, offload, recompute, selective, every, sqrt, by_function, given_plan };

struct fault {
  enum class kind : std::uint8_t {
    link,    ///< other speeds from now on
    stall,   ///< an engine stands still, or is slower, for a while
    hint,    ///< `idle_hint`
    budget,  ///< `set_budget`
  };
  kind what = kind::link;
  std::size_t step = 0;
  double when = 0;  ///< as a share of the step's segments, forward and backward; 0: before the step
  std::array<double, 2> gbps{};
  sim_engine engine = sim_engine::compute;
  double factor = 1;
  double us = 0;
  double budget = 0;  ///< between the smallest, 0, and one for everything, 1
};

struct fault_schedule {
  std::uint64_t seed = 0;
  bool simulated = true;
  std::size_t steps = 6;
  std::uint32_t micro_batches = 1;
  bool interleaved = false;  ///< all forwards before all backwards
  bool waits = false;        ///< for the device, after each step
  decider by = decider::automatic;
  double budget = 0;  ///< as in `fault`
  bool scarce_pinned = false;
  std::array<double, 2> gbps{1, 1};
  double latency_us = 0;
  double memory_gbps = 1;  ///< what kernels go at
  unsigned delays_per_mille = 0;
  unsigned longest_delay_us = 1;
  std::vector<std::size_t> rows;  ///< the batch of each step
  std::vector<fault> faults;      ///< in order
  config settings;                ///< all but the budgets

  [[nodiscard]] bool may_run_out() const {
    return scarce_pinned || interleaved || !(by == decider::automatic || by == decider::offload);
  }
};

inline std::ostream& operator<<(std::ostream& out, fault_schedule const& s) {
  out << "schedule " << s.seed << (s.simulated ? " on sim" : " on host") << ", decider " << static_cast<int>(s.by)
      << ", " << s.steps << " steps of " << s.micro_batches << (s.interleaved ? " interleaved" : "") << ", budget "
      << s.budget << (s.scarce_pinned ? ", scarce pinned" : "") << ", link " << s.gbps[0] << "/" << s.gbps[1] << " "
      << s.latency_us << " us, memory " << s.memory_gbps << ", delays " << s.delays_per_mille << "x"
      << s.longest_delay_us << ", given:";
  for (auto const& each : describe_settings(s.settings)) {
    if (each.value != each.initial) out << " " << each.variable << "=" << each.value;
  }
  out << "; faults:";
  for (auto const& f : s.faults) {
    out << " [" << f.step << "+" << f.when << " ";
    switch (f.what) {
      case fault::kind::link:
        out << "link " << f.gbps[0] << "/" << f.gbps[1];
        break;
      case fault::kind::stall:
        out << "engine " << static_cast<int>(f.engine) << " x" << f.factor << " for " << f.us;
        break;
      case fault::kind::hint:
        out << "hint " << f.us;
        break;
      case fault::kind::budget:
        out << "budget " << f.budget;
        break;
    }
    out << "]";
  }
  out << "; rows:";
  for (auto const rows : s.rows) out << " " << rows;
  return out;
}

namespace detail {

/// Out and back. Items that are slow to leave never come back, so most often the way back is the slower one.
inline std::array<double, 2> any_gbps(dice& d) {
  double const out = d.of({0.05, 0.2, 0.8, 1.6, 4.0, 4.0});
  return {out, d.one_in(3) ? out : d.of({0.02, 0.05, 0.1, 0.2, 0.8, 4.0})};
}

inline fault any_fault(dice& d, fault_schedule const& s) {
  fault f;
  f.step = d.below(s.steps);
  f.when = d.one_in(3) ? 0 : d.unit();
  f.what = d.of({fault::kind::link, fault::kind::link, fault::kind::stall, fault::kind::stall, fault::kind::stall,
                 fault::kind::hint, fault::kind::hint, fault::kind::budget});
  f.gbps = any_gbps(d);
  f.engine = d.of({sim_engine::compute, sim_engine::device_to_host, sim_engine::host_to_device});
  if (d.one_in(2)) {  // when items are on their way back
    f.when = 0.5 + 0.5 * d.unit();
    f.engine = sim_engine::host_to_device;
  }
  f.factor = d.of({3.0, 10.0, 10.0, 50.0, sim_slow_down::standstill});
  f.us = d.of({30.0, 200.0, 1000.0, 5000.0}) * (s.simulated ? 1 : 0.2);
  f.budget = d.one_in(4) ? 0 : d.unit() * d.unit();
  return f;
}

inline void draw_settings(dice& d, fault_schedule& s) {
  auto& settings = s.settings;
  settings.log = log_level::off;
  settings.set("FERRY_MIN_BYTES", "0");
  settings.set("FERRY_STALL_TOLERANCE_US", d.of({"0", "0", "0", "50", "50", "1000000"}));
  settings.chunk_bytes = d.of<std::size_t>({512, 1024, 2048, 3000, 4096});  // less than the variable accepts
  settings.set("FERRY_RUN_AHEAD", d.of({"1", "1", "2", "3"}));
  settings.set("FERRY_ADAPT", d.one_in(4) ? "off" : "on");
  settings.set("FERRY_INSURE", d.one_in(3) ? "off" : "on");
  settings.set("FERRY_VERIFY", d.one_in(4) ? "checksum" : "off");
  settings.set("FERRY_MAX_IN_FLIGHT", d.one_in(4) ? "40%" : "100%");
  switch (s.by) {
    case decider::automatic:
    case decider::given_plan:
      settings.set("FERRY_POLICY", "auto");
      break;
    case decider::offload:
      settings.set("FERRY_POLICY", "offload");
      break;
    case decider::recompute:
      settings.set("FERRY_POLICY", "recompute");
      break;
    case decider::selective:
      settings.set("FERRY_POLICY", "selective");
      break;
    case decider::every:
      settings.set("FERRY_POLICY", "every=2");
      break;
    case decider::sqrt:
      settings.set("FERRY_POLICY", "sqrt");
      break;
    case decider::by_function:
      settings.set("FERRY_POLICY", "keep");
      break;
  }
}

}  // namespace detail

inline fault_schedule draw_fault_schedule(std::uint64_t seed, bool simulated) {
  dice d(seed);
  fault_schedule s;
  s.seed = seed;
  s.simulated = simulated;
  s.steps = d.from_to(6, 10);
  s.micro_batches = d.one_in(3) ? 2 : 1;
  s.interleaved = s.micro_batches > 1 && d.one_in(4);
  s.waits = d.one_in(2);
  constexpr auto a = decider::automatic;
  s.by = d.of({a, a, a, a, a, a, a, a, decider::offload, decider::recompute, decider::selective, decider::every,
               decider::sqrt, decider::by_function, decider::by_function, decider::by_function, decider::given_plan,
               decider::given_plan});
  s.budget = d.one_in(3) ? 0 : d.unit() * d.unit();
  s.scarce_pinned = d.one_in(8);
  s.gbps = detail::any_gbps(d);
  s.latency_us = d.of({0.0, 2.0, 10.0});
  s.memory_gbps = d.of({0.3, 1.0, 3.0, 10.0});
  s.delays_per_mille = d.of({0U, 20U, 100U, 400U});
  s.longest_delay_us = d.of({20U, 100U, 600U});
  detail::draw_settings(d, s);

  // A batch of another size, once or twice; a plan that was given is for one size.
  std::size_t const rows = 8 * d.from_to(1, 4);
  s.rows.assign(s.steps, rows);
  if (s.by != decider::given_plan && d.one_in(4)) {
    std::size_t const from = d.from_to(1, s.steps - 1);
    std::size_t const other = 8 * d.from_to(1, 4);
    for (std::size_t i = from; i < s.steps; ++i) s.rows[i] = other;
    if (d.one_in(2)) s.rows[s.steps - 1] = rows;
  }
  for (std::size_t n = d.from_to(2, 5 * s.steps); n > 0; --n) s.faults.push_back(detail::any_fault(d, s));
  if (d.one_in(3)) {  // a way back that is slow just when it is needed
    s.settings.verify = verify_mode::off;
    s.settings.stall_tolerance_us = d.of({0.0, 50.0, 50.0});
    s.settings.chunk_bytes = 512;  // most of an item is behind the few chunks in flight
    s.gbps[0] = 4;
    for (std::size_t step = 1; step < s.steps; ++step) {
      auto f = detail::any_fault(d, s);
      f.what = fault::kind::stall;
      f.step = step;
      f.when = 0.5 + 0.5 * d.unit();
      f.engine = sim_engine::host_to_device;
      f.factor = d.of({3.0, 10.0, 50.0});
      f.us = 2000;
      s.faults.push_back(f);
    }
  }
  if (d.one_in(4)) {  // the link by the setting
    s.settings.link_schedule.push_back({0, s.gbps[0], s.gbps[1]});
    auto const later = detail::any_gbps(d);
    s.settings.link_schedule.push_back({d.from_to(2, s.steps - 1), later[0], later[1]});
  }
  std::ranges::stable_sort(s.faults, {}, [](fault const& f) { return std::pair(f.step, f.when); });
  return s;
}

/// The name of a kernel that takes so many times as long as its accesses, where time is virtual.
inline label costly_kernel(std::size_t times) { return label("k" + std::to_string(times)); }

/// Where a schedule takes place: a sim device with real memory, or one whose time is real, with the stream-order
/// checker on.
class faulty_world {
 public:
  faulty_world(fault_schedule const& s, std::size_t device_bytes, std::size_t pinned_bytes)
      : schedule_(s), dev(s.simulated ? make_sim(device_bytes, pinned_bytes) : make_host(device_bytes, pinned_bytes)) {}
  faulty_world(faulty_world const&) = delete;
  faulty_world& operator=(faulty_world const&) = delete;

  /// What comes next in the schedule, up to the given share of a step. `budget_bytes(share)` says what a budget is.
  template <typename BudgetBytes>
  void pass(std::size_t step, double share, session& on, bool may_hint, BudgetBytes const& budget_bytes) {
    for (; next_ < schedule_.faults.size(); ++next_) {
      auto const& f = schedule_.faults[next_];
      if (f.step > step || (f.step == step && f.when > share)) return;
      switch (f.what) {
        case fault::kind::link:
          set_link(copy_direction::device_to_host, f.gbps[0]);
          set_link(copy_direction::host_to_device, f.gbps[1]);
          break;
        case fault::kind::stall:
          stall(f);
          break;
        case fault::kind::hint:
          if (may_hint) on.idle_hint(f.us);
          break;
        case fault::kind::budget:
          on.set_budget(byte_amount::exactly(budget_bytes(f.budget)));
          break;
      }
    }
  }

 private:
  void set_link(copy_direction direction, double gbps) {
    if (sim_ != nullptr) {
      sim_->set_link_gbps(direction, gbps);
    } else {
      set_link_of(*dev, direction, gbps);
    }
  }
  void stall(fault const& f) {
    if (sim_ != nullptr) {
      auto const span = std::chrono::nanoseconds(static_cast<std::int64_t>(1e3 * f.us));
      sim_->slow_down({.what = f.engine, .factor = f.factor, .from = sim_->now(), .until = sim_->now() + span});
      return;
    }
    // Whatever begins next on any stream comes that much later.
    stalled_us_.store(static_cast<unsigned>(f.us), std::memory_order_relaxed);
  }

  [[nodiscard]] std::chrono::nanoseconds delay() {
    auto const drawn = mixed(schedule_.seed + mixed(drawn_.fetch_add(1, std::memory_order_relaxed)));
    bool const delayed = drawn % 1000 < schedule_.delays_per_mille;
    return std::chrono::microseconds(delayed ? (drawn >> 10U) % schedule_.longest_delay_us : 0);
  }

  [[nodiscard]] std::chrono::nanoseconds cost_of(label const& kernel, std::span<memory_access const> accesses) {
    auto const name = kernel.view();
    double const times = name.size() == 2 && name[0] == 'k' ? name[1] - '0' : 1;
    double bytes = 0;
    for (auto const& each : accesses) bytes += static_cast<double>(each.bytes);
    return delay() + std::chrono::nanoseconds(static_cast<std::int64_t>(times * bytes / schedule_.memory_gbps));
  }

  std::unique_ptr<device> make_sim(std::size_t device_bytes, std::size_t pinned_bytes) {
    auto made = make_sim_device(
        {.device_bytes = device_bytes,
         .pinned_bytes = pinned_bytes,
         .device_to_host = {schedule_.gbps[0], schedule_.latency_us},
         .host_to_device = {schedule_.gbps[1], schedule_.latency_us},
         .kernel_cost = [this](label const& name, auto const& accesses) { return cost_of(name, accesses); },
         .backed = true});
    sim_ = made.get();
    return made;
  }
  std::unique_ptr<device> make_host(std::size_t device_bytes, std::size_t pinned_bytes) {
    return make_real_device({.device_bytes = device_bytes,
                             .pinned_bytes = pinned_bytes,
                             .device_to_host = {schedule_.gbps[0], schedule_.latency_us},
                             .host_to_device = {schedule_.gbps[1], schedule_.latency_us},
                             .compute_threads = 1,
                             .before_operation = [this](label const&) {
                               auto pause = delay();
                               pause += std::chrono::microseconds(stalled_us_.exchange(0, std::memory_order_relaxed));
                               if (pause.count() > 0) std::this_thread::sleep_for(pause);
                             }});
  }

  fault_schedule const& schedule_;
  std::size_t next_ = 0;
  sim_device* sim_ = nullptr;
  std::atomic<std::uint64_t> drawn_{0};
  std::atomic<unsigned> stalled_us_{0};

 public:
  std::unique_ptr<device> dev;  // last: its threads look at the others
};

}  // namespace ferry::testing
