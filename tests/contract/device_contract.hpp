// The contract suite: what every device must do, whatever it is made of. A test takes a fresh device from
// the factory it is run with, never depends on how fast anything is, and ends with a silent order checker.
//
// On a device with a virtual clock a kernel's function runs when the kernel is over: there a kernel that holds its
// stream until a gate opens is one that takes long (see `long_kernel`), and whoever synchronises with it opens the gate
// first.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/error.hpp"
#include "support/gate.hpp"
#include "support/test_devices.hpp"

namespace ferry::testing {

class DeviceContract : public ::testing::TestWithParam<device_factory> {
 protected:
  static constexpr std::size_t device_bytes = std::size_t{16} << 20;
  static constexpr std::size_t pinned_bytes = std::size_t{32} << 20;

  void SetUp() override {
    if (has_devices()) device_ = make();
  }
  void TearDown() override {
    if (device_ != nullptr) {
      EXPECT_THAT(order_violations(*device_), ::testing::IsEmpty());
    }
  }

  /// Of all devices only the explored one: there chance decides in the order of calls, which threads would change.
  [[nodiscard]] static bool is_for_one_thread() { return GetParam().name == "explored"; }
  [[nodiscard]] std::unique_ptr<device> make() const { return GetParam().make(device_bytes, pinned_bytes); }

  /// The device under test. Streams, events and memory of a test's body are gone before it is.
  std::unique_ptr<device> device_;
  device& dev() { return *device_; }

  /// For tests that look again and again.
  void let_time_pass() {
    if (auto* const time = dev().time()) {
      time->pass_time();
    } else {
      std::this_thread::yield();
    }
  }
  void launch(stream_ref on, unique_function<void()> work, label const& name = "work") {
    dev().launch(on, name, {}, std::move(work));
  }
  /// Holds the stream until the gate opens.
  void hold(stream_ref on, gate const& until) {
    launch(
        on, [&until] { until.wait(); }, long_kernel);
  }
};

}  // namespace ferry::testing
