// The devices that tests run on. Each factory makes a fresh device with the stream-order checker on where
// the device has one; `order_violations` is what that checker found.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/host_device.hpp"
#include "ferry/sim_device.hpp"
#include "support/real_device.hpp"

#if defined(FERRY_TEST_GPU)
#include "support/gpu.hpp"
#elif defined(FERRY_CUDASIM)
#include "support/stepped_device.hpp"
#endif

namespace ferry::testing {

#if defined(FERRY_TEST_GPU)
/// For `SetUp`: false if the devices are not there, and the test has ended.
inline bool has_devices() { return has_gpu(); }
/// CUDA may run functions of independent streams one after the other.
inline constexpr bool functions_overlap = false;
/// Of elapsed times, as CUDA's documentation has it.
inline constexpr double time_resolution_us = 0.5;
#else
inline bool has_devices() { return true; }
inline constexpr bool functions_overlap = true;
inline constexpr double time_resolution_us = 0.005;
#endif

struct device_factory {
  std::string name;
  std::function<std::unique_ptr<device>(std::size_t device_bytes, std::size_t pinned_bytes)> make;

  friend std::ostream& operator<<(std::ostream& out, device_factory const& factory) { return out << factory.name; }
};

/// An unpaced host device that checks stream order.
inline std::unique_ptr<host_device> make_checked_host(host_device_options options) {
  options.check_order = true;
  options.compute_threads = 2;
  return make_host_device(std::move(options));
}

/// The name of kernels that take long: a millisecond where time is virtual.
inline constexpr char const* long_kernel = "hold";

inline std::chrono::nanoseconds virtual_cost_of(label const& kernel) {
  return kernel == long_kernel ? std::chrono::milliseconds(1) : std::chrono::microseconds(1);
}

/// A sim device on which kernels take a microsecond.
inline std::unique_ptr<sim_device> make_test_sim(sim_device_options options) {
  options.kernel_cost = [](label const& name, std::span<memory_access const>) { return virtual_cost_of(name); };
  return make_sim_device(std::move(options));
}

/// Every device that passes the contract suite; a new one joins by a line here.
inline std::vector<device_factory> all_devices() {
#if defined(FERRY_TEST_GPU)
  return {{"gpu", [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
             return make_cuda_device(
                 {.device_bytes = device_bytes, .pinned_bytes = pinned_bytes, .order = gpu_order()});
           }}};
#elif defined(FERRY_CUDASIM)
  return {
      {"cuda",
       [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
         return make_real_device({.device_bytes = device_bytes, .pinned_bytes = pinned_bytes});
       }},
      {"cuda_paced",
       [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
         return make_real_device({.device_bytes = device_bytes,
                                  .pinned_bytes = pinned_bytes,
                                  .device_to_host = {.gbps = 2, .latency_us = 5},
                                  .host_to_device = {.gbps = 2, .latency_us = 5}});
       }},
      {"cuda_stepped",
       [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
         if (cudasim::live().none()) cudasim::reset({.protect_device_memory = false, .stepped = true});
         return std::make_unique<stepped_device>(
             cuda_device_options{
                 .device_bytes = device_bytes, .pinned_bytes = pinned_bytes, .order = &cudasim::order()},
             stepped_costs{virtual_cost_of, [](std::string_view, std::size_t bytes) {
                             return std::chrono::nanoseconds(5000 + bytes / 20);
                           }});
       }},
  };
#else
  return {
      {"host",
       [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
         return make_checked_host({.device_bytes = device_bytes, .pinned_bytes = pinned_bytes});
       }},
      {"host_paced",
       [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
         return make_checked_host({.device_bytes = device_bytes,
                                   .pinned_bytes = pinned_bytes,
                                   .device_to_host = {.gbps = 2, .latency_us = 5},
                                   .host_to_device = {.gbps = 2, .latency_us = 5}});
       }},
      {"sim",
       [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
         return make_test_sim({.device_bytes = device_bytes,
                               .pinned_bytes = pinned_bytes,
                               .device_to_host = {.gbps = 20, .latency_us = 5},
                               .host_to_device = {.gbps = 20, .latency_us = 5}});
       }},
      {"sim_like_a_gpu",
       [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
         return make_test_sim({.device_bytes = device_bytes,
                               .pinned_bytes = pinned_bytes,
                               .device_to_host = {.gbps = 20, .latency_us = 5},
                               .host_to_device = {.gbps = 20, .latency_us = 5},
                               .backed = true,
                               .recalls_copies = false});
       }},
      {"sim_backed",
       [](std::size_t device_bytes, std::size_t pinned_bytes) -> std::unique_ptr<device> {
         return make_test_sim({.device_bytes = device_bytes,
                               .pinned_bytes = pinned_bytes,
                               .device_to_host = {.gbps = 20, .latency_us = 5},
                               .host_to_device = {.gbps = 20, .latency_us = 5},
                               .backed = true});
       }},
  };
#endif
}

}  // namespace ferry::testing
