// On a virtual clock: what the CUDA device keeps on streams of their own takes no longer than the longest of them.
#include <chrono>
#include <vector>

#include "cuda/cuda_fixture.hpp"

namespace ferry::testing {
namespace {

using std::chrono::microseconds;

class Overlap : public CudaTest {
 protected:
  static constexpr std::size_t chunk = 100'000;  // 10 us at 10 GB/s
  static constexpr int rounds = 50;

  /// Kernels of so many microseconds on one stream, chunks each way on two others.
  microseconds makespan(double kernel_us, bool kernels, bool out, bool in) {
    cudasim::reset();
    auto& dev = make();
    cudasim::use_virtual_time({.device_to_host_gbps = 10, .host_to_device_gbps = 10, .host_function_us = kernel_us});
    {
      stream const compute(dev, stream_kind::compute, "compute");
      stream const d2h(dev, stream_kind::copy, "d2h");
      stream const h2d(dev, stream_kind::copy, "h2d");
      memory const left(dev, memory_space::device, chunk);
      memory const right(dev, memory_space::device, chunk);
      memory const to(dev, memory_space::pinned, chunk);
      memory const from(dev, memory_space::pinned, chunk);
      for (int i = 0; i < rounds; ++i) {
        if (kernels) dev.launch(compute, "kernel", {}, [] {});
        if (out) dev.copy(d2h, "out", copy_direction::device_to_host, to.data(), left.data(), chunk);
        if (in) dev.copy(h2d, "in", copy_direction::host_to_device, right.data(), from.data(), chunk);
      }
      for (auto const* const each : {&compute, &d2h, &h2d}) each->synchronize();
    }
    device_.reset();
    return std::chrono::duration_cast<microseconds>(cudasim::makespan());
  }
};

TEST_F(Overlap, CopiesAndKernelsTakeAsLongAsTheLongerOfThem) {
  EXPECT_EQ(makespan(25, true, false, false), microseconds(25 * rounds));
  EXPECT_EQ(makespan(25, false, true, true), microseconds(10 * rounds));
  EXPECT_EQ(makespan(25, true, true, true), microseconds(25 * rounds));
  EXPECT_EQ(makespan(4, true, true, true), microseconds(10 * rounds));
}

TEST_F(Overlap, AnEventAddsWhatItOrders) {
  auto& dev = make();
  cudasim::use_virtual_time({.device_to_host_gbps = 10, .host_to_device_gbps = 10, .host_function_us = 7});
  stream const compute(dev, stream_kind::compute, "compute");
  stream const d2h(dev, stream_kind::copy, "d2h");
  memory const there(dev, memory_space::device, chunk);
  memory const here(dev, memory_space::pinned, chunk);
  event const begin(dev, event_timing::on);
  event const produced(dev);
  event const end(dev, event_timing::on);
  begin.record(compute);
  dev.launch(compute, "kernel", {}, [] {});
  produced.record(compute);
  dev.wait(d2h, produced);
  dev.copy(d2h, "out", copy_direction::device_to_host, here.data(), there.data(), chunk);
  end.record(d2h);
  end.synchronize();
  EXPECT_NEAR(dev.elapsed_us(begin, end), 17, 1e-3);
}

}  // namespace
}  // namespace ferry::testing
