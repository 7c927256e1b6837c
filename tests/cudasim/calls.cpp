// What every API call goes through; see calls.hpp.
#include "calls.hpp"

#include <new>
#include <utility>

#include "emulation.hpp"
#include "errors.hpp"

namespace cudasim {

cudaError_t call_book::enter(char const* function) {
  std::shared_ptr<std::function<cudaError_t(char const*)> const> hook;
  cudaError_t injected = cudaSuccess;
  {
    std::lock_guard const lock(mutex_);
    ++counts_[function];
    auto [at, end] = faults_.equal_range(function);
    while (at != end) {
      if (--at->second.calls_left > 0) {
        ++at;
        continue;
      }
      injected = at->second.error;
      at = faults_.erase(at);
    }
    hook = hook_;
  }
  cudaError_t const from_hook = hook != nullptr ? (*hook)(function) : cudaSuccess;
  return injected != cudaSuccess ? injected : from_hook;
}

void call_book::fail(std::string const& function, int nth, cudaError_t error) {
  std::lock_guard const lock(mutex_);
  faults_.emplace(function, fault{nth, error});
}

void call_book::set_hook(std::function<cudaError_t(char const*)> hook) {
  std::lock_guard const lock(mutex_);
  hook_ = hook ? std::make_shared<std::function<cudaError_t(char const*)> const>(std::move(hook)) : nullptr;
}

std::map<std::string, std::size_t> call_book::counts() const {
  std::lock_guard const lock(mutex_);
  return counts_;
}

void call_book::reset_counts() {
  std::lock_guard const lock(mutex_);
  counts_.clear();
}

void call_book::set_driver(driver_state state) {
  std::lock_guard const lock(mutex_);
  driver_ = state;
}

driver_state call_book::driver() const {
  std::lock_guard const lock(mutex_);
  return driver_;
}

namespace {

cudaError_t error_of(driver_state driver) {
  switch (driver) {
    case driver_state::removed:
      return cudaErrorInsufficientDriver;
    case driver_state::unloaded:
      return cudaErrorCudartUnloading;
    case driver_state::no_devices:
      return cudaErrorNoDevice;
    case driver_state::present:
      break;
  }
  return cudaSuccess;
}

cudaError_t error_of_current_device() {
  device_state* const device = sim().device(this_thread().device);
  return device != nullptr ? device->broken.load() : cudaSuccess;
}

}  // namespace

cudaError_t begin_call(char const* function, call_rules const& rules) {
  emulation& own = sim();
  if (this_thread().in_host_function) {
    own.report(std::string("API call in a host function: ") + function +
               " is called by a function that cudaLaunchHostFunc runs, which may deadlock the device");
    return cudaErrorNotPermitted;
  }
  if (cudaError_t const injected = own.calls.enter(function); injected != cudaSuccess) {
    device_state* const device = own.device(this_thread().device);
    if (is_sticky(injected) && device != nullptr) device->break_with(injected);
    return injected;
  }
  if (!rules.without_driver) {
    cudaError_t const missing = error_of(own.calls.driver());
    if (missing != cudaSuccess) return missing;
  }
  if (rules.current_device && !rules.cleans_up) {
    cudaError_t const broken = error_of_current_device();
    if (broken != cudaSuccess) return broken;
  }
  if (rules.unsafe_in_capture && own.captures.forbids_unsafe_call(this_thread().capture_mode)) {
    own.report(std::string("forbidden while capturing: ") + function +
               " might wait for the device, and a stream captures; call it before or after");
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

cudaError_t end_call(cudaError_t result, call_rules const& rules) {
  if (result == cudaSuccess && rules.cleans_up && rules.current_device) result = error_of_current_device();
  if (result != cudaSuccess) {
    this_thread().last_error = result;
    this_thread().announced.reset();  // it was for the call that failed, not for the next
  }
  return result;
}

cudaError_t error_of_exception() noexcept {
  try {
    throw;
  } catch (std::bad_alloc const&) {
    return cudaErrorMemoryAllocation;
  } catch (ferry::invalid_argument const&) {
    return cudaErrorInvalidResourceHandle;  // destroyed meanwhile by another thread
  } catch (...) {
    return cudaErrorUnknown;
  }
}

}  // namespace cudasim

extern "C" {

cudaError_t cudaGetLastError() {
  auto& thread = cudasim::this_thread();
  cudaError_t const broken = cudasim::error_of_current_device();
  cudaError_t const last = std::exchange(thread.last_error, cudaSuccess);
  return broken != cudaSuccess ? broken : last;
}

cudaError_t cudaPeekAtLastError() {
  cudaError_t const broken = cudasim::error_of_current_device();
  return broken != cudaSuccess ? broken : cudasim::this_thread().last_error;
}

}  // extern "C"
