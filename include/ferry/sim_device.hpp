// The sim device: a device with a virtual clock, on which kernels and copies only cost time.
//
// The clock counts whole nanoseconds and stands still unless somebody waits: in `synchronize`, in `pass_time`, or when
// a stream is destroyed. What the host does in between takes no time. The same calls give the same times, so a step of
// a real session can be predicted, compared and repeated exactly, on hardware that is not there.
//
// Kernels of different streams run side by side without slowing each other down. Each link direction copies one at a
// time, in the order the copies become ready, as the host device's link does. What copies cost each other and the
// kernels beside them is an option. A kernel's function runs when the kernel is over, on the thread that waits.
//
// Threads: any thread may call anything; one of those that wait lets time pass for all. Results are repeatable as long
// as one thread enqueues.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/export.h"
#include "ferry/host_device.hpp"

namespace ferry {

/// What an operation occupies.
enum class sim_engine : std::uint8_t { compute, device_to_host, host_to_device };

/// For a while everything on an engine takes `factor` times as long; infinitely long if the factor is infinite.
struct sim_slow_down {
  static constexpr auto never = std::chrono::nanoseconds::max();
  static constexpr double standstill = std::numeric_limits<double>::infinity();

  sim_engine what = sim_engine::compute;
  double factor = standstill;
  std::chrono::nanoseconds from{0};
  std::chrono::nanoseconds until = never;
};

/// The nth launch or copy of that name, or of any if it is empty, fails when its time is up. Counted by when they end.
struct sim_failure {
  label name;
  std::uint64_t nth = 1;
};

/// One launch or copy that is over.
struct sim_operation {
  label name;
  label stream;
  sim_engine where = sim_engine::compute;
  std::size_t bytes = 0;  ///< of a copy
  std::chrono::nanoseconds start{0};
  std::chrono::nanoseconds end{0};
  bool failed = false;
};

/// What a sim device is made with.
struct sim_device_options {
  std::size_t device_bytes = std::size_t{1} << 30;
  std::size_t pinned_bytes = std::size_t{2} << 30;
  link_speed device_to_host{};  ///< `gbps` 0: copies take no time
  link_speed host_to_device{};
  contention beside{};  ///< what copies cost each other and the kernels
  /// What a kernel costs; asked when it is launched. Without it, its accesses' bytes at `memory_gbps`.
  std::function<std::chrono::nanoseconds(label const& name, std::span<memory_access const> accesses)> kernel_cost{};
  double memory_gbps = 0;  ///< 0: kernels take no time
  /// Memory is real, and copies move its bytes. Otherwise it is addresses only, and any amount costs nothing.
  bool backed = false;
  /// Addresses are as scarce as bytes, as on real devices, so that gaps between what is in use cost room.
  bool gaps_cost = false;
  /// As `device_capabilities` says of it; false is a GPU's way.
  bool recalls_copies = true;
  std::vector<sim_slow_down> slow_downs{};
  std::vector<sim_failure> failures{};
  /// Called when an operation's time is up, before it does anything: tests throw here to make it fail.
  std::function<void(label const& operation)> before_operation{};
  /// Whether it says that work which can never end is dropped.
  bool quiet = false;
  /// Told of every launch and copy that is over, on the thread that waits.
  std::function<void(sim_operation const&)> observe{};
};

/// The sim device, with what only it has: slow-downs and failures on demand.
class FERRY_API sim_device : public device, public virtual_time {
 public:
  ~sim_device() override;
  [[nodiscard]] virtual_time* time() noexcept final { return this; }

  /// For operations that begin from now on. Slow-downs of the same engine that overlap multiply.
  /// Throws: `invalid_argument` for a factor that is not above zero.
  virtual void slow_down(sim_slow_down const& added) = 0;
  /// Counts from now on. Throws: `invalid_argument` for the zeroth.
  virtual void fail(sim_failure const& added) = 0;
  /// Changes the speed of one direction from the next copy on.
  virtual void set_link(copy_direction direction, link_speed speed) = 0;
  [[nodiscard]] virtual link_speed link(copy_direction direction) const = 0;
};

[[nodiscard]] FERRY_API std::unique_ptr<sim_device> make_sim_device(sim_device_options options = {});

}  // namespace ferry
