// The host device: a GPU's shape on a CPU. A stream is a thread with an in-order queue, device and pinned
// memory are bounded slabs of real memory, and each link direction copies for real, paced to a set
// bandwidth and latency. Computation on a compute stream runs inside a oneTBB arena of the stream's own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/export.h"
#include "ferry/link.hpp"

namespace ferry {

struct config;

/// What a host device is made with.
struct host_device_options {
  std::size_t device_bytes = std::size_t{1} << 30;
  std::size_t pinned_bytes = std::size_t{2} << 30;
  link_speed device_to_host{};
  link_speed host_to_device{};
  /// What is left of a paced direction while the other is at work. Only the link's own shares count: what copies cost
  /// the computation here, they cost it for real.
  contention beside{};
  /// Threads that a compute stream may use; 0 leaves a core of several to the copies (FERRY_COMPUTE_THREADS in
  /// docs/settings.md).
  unsigned compute_threads = 0;
  /// Report stream-order mistakes (see `host_device::order_violations`). Costs time at every call.
  bool check_order = false;
  /// Called on the stream's thread before each operation runs: tests delay here, or throw to make it fail.
  std::function<void(label const& operation)> before_operation{};
};

/// The host device, with what only it has: its checker's findings, and a link that can be set.
class FERRY_API host_device : public device {
 public:
  ~host_device() override;
  /// What the checker found so far, each naming both operations; empty without `check_order`.
  [[nodiscard]] virtual std::vector<std::string> order_violations() const = 0;
  /// Changes the pacing of one direction from the next copy on.
  virtual void set_link(copy_direction direction, link_speed speed) = 0;
  [[nodiscard]] virtual link_speed link(copy_direction direction) const = 0;
};

[[nodiscard]] FERRY_API std::unique_ptr<host_device> make_host_device(host_device_options options = {});

/// The bandwidth that gives this machine's compute the balance of a 7B-class block on an A100 with PCIe 4.
/// Measures the machine's multiply-add rate for a few milliseconds.
[[nodiscard]] FERRY_API double balanced_link_gbps(unsigned compute_threads = 0);

}  // namespace ferry
