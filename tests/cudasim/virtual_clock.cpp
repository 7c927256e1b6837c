// Virtual time; see virtual_clock.hpp.
#include "virtual_clock.hpp"

#include <algorithm>
#include <cmath>

namespace cudasim {

namespace {

virtual_duration microseconds(double count) { return virtual_duration(std::llround(count * 1e3)); }

}  // namespace

void virtual_clock::start(virtual_costs const& costs) {
  std::lock_guard const lock(mutex_);
  costs_ = costs;
}

bool virtual_clock::running() const {
  std::lock_guard const lock(mutex_);
  return costs_.has_value();
}

virtual_duration virtual_clock::duration_of(work_cost const& cost, ferry::label const& name) const {
  switch (cost.what) {
    case work_cost::kind::kernel: {
      auto const named = costs_->kernels_us.find(name.str());
      return microseconds(named != costs_->kernels_us.end() ? named->second : costs_->kernel_us);
    }
    case work_cost::kind::gemm:
      return costs_->gemm_tflops > 0 ? microseconds(cost.amount / (costs_->gemm_tflops * 1e6)) : virtual_duration{0};
    case work_cost::kind::copy: {
      double const gbps =
          cost.which == direction::device_to_host ? costs_->device_to_host_gbps : costs_->host_to_device_gbps;
      return microseconds(costs_->latency_us + (gbps > 0 ? cost.amount / (gbps * 1e3) : 0));
    }
    case work_cost::kind::host_function:
      return microseconds(costs_->host_function_us);
    case work_cost::kind::none:
      break;
  }
  return virtual_duration{0};
}

virtual_duration virtual_clock::enqueue(work_cost const& cost, ferry::label const& name, virtual_duration stream_end,
                                        virtual_duration now) {
  std::lock_guard const lock(mutex_);
  if (!costs_) return virtual_duration{0};
  auto start = std::max(stream_end, now);
  virtual_duration* const engine =
      cost.what == work_cost::kind::copy ? &engine_ends_[{cost.device, cost.which}] : nullptr;
  if (engine != nullptr) start = std::max(start, *engine);
  auto const end = start + duration_of(cost, name);
  if (engine != nullptr) *engine = end;
  latest_ = std::max(latest_, end);
  return end;
}

virtual_duration virtual_clock::makespan() const {
  std::lock_guard const lock(mutex_);
  return latest_;
}

}  // namespace cudasim
