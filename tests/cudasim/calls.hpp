// What every API call goes through: counts, injected faults, the state of the driver and the device, and the thread's
// last error. Threads: any.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cuda_runtime_api.h"
#include "ferry/device.hpp"

namespace cudasim {

enum class driver_state : unsigned char { present, removed, unloaded, no_devices };

class call_book {
 public:
  /// Counts the call. What it is to fail with, or cudaSuccess.
  [[nodiscard]] cudaError_t enter(char const* function);

  void fail(std::string const& function, int nth, cudaError_t error);
  void set_hook(std::function<cudaError_t(char const*)> hook);
  [[nodiscard]] std::map<std::string, std::size_t> counts() const;
  void reset_counts();
  void set_driver(driver_state state);
  [[nodiscard]] driver_state driver() const;

 private:
  struct fault {
    int calls_left;
    cudaError_t error;
  };

  mutable std::mutex mutex_;
  std::map<std::string, std::size_t> counts_;
  std::multimap<std::string, fault> faults_;
  std::shared_ptr<std::function<cudaError_t(char const*)> const> hook_;
  driver_state driver_ = driver_state::present;
};

/// What a function needs, and what forbids it.
struct call_rules {
  bool without_driver = false;  ///< answers although there is no driver or device
  bool current_device = true;   ///< fails when the current device is broken
  bool cleans_up = false;       ///< on a broken device does its work all the same, and then fails
  bool unsafe_in_capture = false;
};

inline constexpr call_rules any_time{.without_driver = true, .current_device = false};
inline constexpr call_rules by_handle{.current_device = false};
inline constexpr call_rules waiting{.current_device = false, .unsafe_in_capture = true};
inline constexpr call_rules allocating{.unsafe_in_capture = true};
inline constexpr call_rules freeing{.cleans_up = true, .unsafe_in_capture = true};
inline constexpr call_rules destroying{.current_device = false, .cleans_up = true};

/// What forbids the call, or cudaSuccess.
[[nodiscard]] cudaError_t begin_call(char const* function, call_rules const& rules);
/// Notes what becomes of the call, and returns it.
cudaError_t end_call(cudaError_t result, call_rules const& rules);
/// What the call failed with as an exception.
[[nodiscard]] cudaError_t error_of_exception() noexcept;

template <typename Body>
cudaError_t api_call(char const* function, call_rules const& rules, Body const& body) {
  cudaError_t result = begin_call(function, rules);
  if (result == cudaSuccess) {
    try {
      result = body();
    } catch (ferry::deadlock_error const&) {
      throw;  // no error of CUDA's would tell the test as much
    } catch (...) {
      result = error_of_exception();
    }
  }
  return end_call(result, rules);
}

}  // namespace cudasim
