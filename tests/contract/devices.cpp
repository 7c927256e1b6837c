// Which devices the contract suite runs on.
#include "contract/device_contract.hpp"
#if !defined(FERRY_CUDASIM) && !defined(FERRY_TEST_GPU)
#include "explore/explored_device.hpp"
#endif

namespace ferry::testing {

INSTANTIATE_TEST_SUITE_P(AllDevices, DeviceContract, ::testing::ValuesIn(all_devices()),
                         [](auto const& tested) { return tested.param.name; });

#if !defined(FERRY_CUDASIM) && !defined(FERRY_TEST_GPU)
/// Whatever gets on before each call, to whoever calls it is a device like any other.
std::unique_ptr<device> make_explored(std::size_t device_bytes, std::size_t pinned_bytes) {
  auto simulated = make_test_sim({.device_bytes = device_bytes,
                                  .pinned_bytes = pinned_bytes,
                                  .device_to_host = {.gbps = 20, .latency_us = 5},
                                  .host_to_device = {.gbps = 20, .latency_us = 5},
                                  .backed = true});
  sim_device& clock = *simulated;
  exploration how;
  how.on = true;
  how.host_slips = 200;
  return std::make_unique<explored_device>(std::move(simulated), clock, how, 1);
}

INSTANTIATE_TEST_SUITE_P(Explored, DeviceContract, ::testing::Values(device_factory{"explored", make_explored}),
                         [](auto const& tested) { return tested.param.name; });
#endif

}  // namespace ferry::testing
