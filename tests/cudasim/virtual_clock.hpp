// Virtual time: what work would cost on a GPU, added up when it is enqueued. Threads: any; one lock inside.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "cudasim.hpp"

namespace cudasim {

using virtual_duration = std::chrono::nanoseconds;

/// What an operation is to the clock.
struct work_cost {
  enum class kind : std::uint8_t { none, kernel, gemm, copy, host_function };
  kind what = kind::none;
  int device = 0;                               ///< of a copy
  direction which = direction::device_to_host;  ///< of a copy
  double amount = 0;                            ///< bytes of a copy, floating-point operations of a product
};

class virtual_clock {
 public:
  void start(virtual_costs const& costs);
  [[nodiscard]] bool running() const;

  /// An operation is enqueued on a stream that is busy until `stream_end`, by a thread whose time is `now`: its end.
  [[nodiscard]] virtual_duration enqueue(work_cost const& cost, ferry::label const& name, virtual_duration stream_end,
                                         virtual_duration now);
  [[nodiscard]] virtual_duration makespan() const;

 private:
  [[nodiscard]] virtual_duration duration_of(work_cost const& cost, ferry::label const& name) const;

  mutable std::mutex mutex_;
  std::optional<virtual_costs> costs_;
  std::map<std::pair<int, direction>, virtual_duration> engine_ends_;
  virtual_duration latest_{0};
};

}  // namespace cudasim
