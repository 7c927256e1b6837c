// The link to the GPU: how fast it is, and that its two directions and the GPU's work do not hold each other up. The
// figures are printed; only what no machine should miss is a failure.
#include <algorithm>
#include <cstdio>
#include <string>

#include "device/cuda_calibration.hpp"
#include "ferry/device.hpp"
#include "support/gate.hpp"
#include "support/gpu.hpp"

namespace ferry::testing {
namespace {

class GpuLink : public GpuTest {
 protected:
  static constexpr std::size_t bytes = 64 * mib;

  static void report(char const* what, double value, char const* unit) {
    std::printf("%s: %.2f %s\n", what, value, unit);
    RecordProperty(what, std::to_string(value));
  }

  memory const& there(std::size_t which) { return made(there_[which], memory_space::device); }
  memory const& here(std::size_t which) { return made(here_[which], memory_space::pinned); }

  void TearDown() override {
    for (auto* const each : {&there_[0], &there_[1], &here_[0], &here_[1]}) *each = {};
    GpuTest::TearDown();
  }

 private:
  memory const& made(memory& slot, memory_space space) {
    if (slot.data() == nullptr) slot = memory(dev(), space, bytes);
    return slot;
  }
  memory there_[2];
  memory here_[2];
};

TEST_F(GpuLink, HasTheSpeedOfALink) {
  auto const speed = cuda::measure_speed(dev());
  report("device_to_host_gbps", speed.device_to_host, "GB/s");
  report("host_to_device_gbps", speed.host_to_device, "GB/s");
  EXPECT_GT(speed.device_to_host, 0.1);
  EXPECT_GT(speed.host_to_device, 0.1);
}

TEST_F(GpuLink, BothDirectionsRunAtOnce) {
  stream const out(dev(), stream_kind::copy, "out");
  stream const in(dev(), stream_kind::copy, "in");
  event const begin(dev(), event_timing::on);
  event const end_out(dev(), event_timing::on);
  event const end_in(dev(), event_timing::on);
  auto const copy_out = [&] {
    dev().copy(out, "out", copy_direction::device_to_host, here(0).data(), there(0).data(), bytes);
    end_out.record(out);
  };
  auto const copy_in = [&] {
    dev().copy(in, "in", copy_direction::host_to_device, there(1).data(), here(1).data(), bytes);
    end_in.record(in);
  };
  auto const begin_both = [&] {
    in.synchronize();
    begin.record(out);
    dev().wait(in, begin);
  };
  auto const took_us = [&](event const& end) {
    end.synchronize();
    return dev().elapsed_us(begin, end);
  };
  copy_out();  // the first of each wakes the link up
  copy_in();
  out.synchronize();

  begin_both();
  copy_out();
  double const out_us = took_us(end_out);
  begin_both();
  copy_in();
  double const in_us = took_us(end_in);
  begin_both();
  copy_out();
  copy_in();
  double const both_us = std::max(took_us(end_out), took_us(end_in));

  report("share_of_one_after_the_other", both_us / (out_us + in_us), "(0.5: at once, 1: one after the other)");
  EXPECT_GT(both_us, 0);
  if (!gpu_is_emulated) {
    EXPECT_LT(both_us, 0.95 * (out_us + in_us)) << "one copy engine, or a link of one direction";
  }
}

TEST_F(GpuLink, CopiesDoNotWaitForWork) {
  stream const compute(dev(), stream_kind::compute, "compute");
  stream const out(dev(), stream_kind::copy, "out");
  stream const in(dev(), stream_kind::copy, "in");
  memory const& from = there(0);  // taken before work runs: CUDA may wait for it when memory is made
  memory const& to = here(0);
  memory const& back = there(1);
  gate held;
  opens_at_end const at_end(held);
  dev().launch(compute, "busy", {}, [&held] { held.wait(); });
  dev().copy(out, "out", copy_direction::device_to_host, to.data(), from.data(), bytes);
  out.synchronize();
  dev().copy(in, "in", copy_direction::host_to_device, back.data(), to.data(), bytes);
  in.synchronize();
  EXPECT_FALSE(held.is_open());
  held.open();
  compute.synchronize();
}

TEST_F(GpuLink, WhatWasMeasuredBeforeIsKnown) {
  auto const found = find_cuda();
  ASSERT_FALSE(found.devices.empty());
  EXPECT_DOUBLE_EQ(device_->capabilities().device_to_host_gbps, found.devices[0].device_to_host_gbps);
  EXPECT_EQ(device_->capabilities().name, "cuda:0");
  EXPECT_EQ(device_->architecture(), found.devices[0].architecture);
  EXPECT_FALSE(device_->capabilities().host_addressable);
}

}  // namespace
}  // namespace ferry::testing
