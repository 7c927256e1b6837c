// Which devices the contract suite runs on.
#include "contract/device_contract.hpp"

namespace ferry::testing {

INSTANTIATE_TEST_SUITE_P(AllDevices, DeviceContract, ::testing::ValuesIn(all_devices()),
                         [](::testing::TestParamInfo<device_factory> const& tested) { return tested.param.name; });

}  // namespace ferry::testing
