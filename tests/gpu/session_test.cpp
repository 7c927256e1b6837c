// A session on a GPU: bytes that a trainer writes and reads by copies come back as they went, whatever became of them
// in between and whose stream it was.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "ferry/ferry.hpp"
#include "support/gate.hpp"
#include "support/gpu.hpp"

namespace ferry::testing {
namespace {

class GpuSession : public GpuTest {
 protected:
  static constexpr std::size_t item_bytes = 6 * mib + 52;  // the last chunk is a short one
  static constexpr std::uint32_t segments = 6;

  static config settings_for(policy_kind policy) {
    config settings;
    settings.policy.kind = policy;
    settings.budget = byte_amount::exactly(3 * (item_bytes + 4096));
    settings.host_budget = byte_amount::exactly((segments + 1) * (item_bytes + 4096));
    settings.verify = verify_mode::checksum;
    settings.log = log_level::error;
    return settings;
  }

  static item_key key(std::uint32_t segment) { return {0, segment, "h"}; }

  /// No two words of a step are alike.
  static void fill(memory const& to, std::uint64_t step, std::uint32_t segment) {
    auto* const words = to.as<std::uint32_t>();
    for (std::size_t i = 0; i < to.bytes() / sizeof *words; ++i) {
      words[i] = static_cast<std::uint32_t>(i * 2654435761U + segment * 40503U + step * 977U);
    }
  }

  /// Steps of forward and backward over `segments` items; every byte is compared. Copies alone write and read.
  void train(session& on, stream_ref stream, int steps, bool with_recipes) {
    std::array<memory, segments> written;
    for (auto& each : written) each = memory(dev(), memory_space::pinned, item_bytes);
    memory const back(dev(), memory_space::pinned, item_bytes);
    for (int step = 0; step < steps; ++step) {
      on.begin_step();
      for (std::uint32_t s = 0; s < segments; ++s) {
        auto const& from = written[s];
        if (gpu_order() != nullptr) gpu_order()->host_access(writes(from.data(), item_bytes), "fill");
        fill(from, static_cast<std::uint64_t>(step), s);
        auto const produce = [this, &from](stream_ref to_stream, void* to) {
          dev().copy(to_stream, "produce", copy_direction::host_to_device, to, from.data(), item_bytes);
        };
        auto block = on.allocate(item_bytes, stream);
        produce(stream, block.data());
        recipe how;
        if (with_recipes) how.enqueue = [produce](recipe_context const& to) { produce(to.stream, to.output); };
        on.save(key(s), std::move(block), stream, std::move(how)).end();
      }
      for (std::uint32_t s = segments; s-- > 0;) {
        auto item = on.restore(key(s), stream);
        dev().copy(stream, "consume", copy_direction::device_to_host, back.data(), item.data(), item_bytes);
        item.end();
        on.release(key(s));
        dev().synchronize(stream);
        if (gpu_order() != nullptr) gpu_order()->host_access(reads(back.data(), item_bytes), "compare");
        EXPECT_TRUE(std::equal(back.as<std::byte>(), back.as<std::byte>() + item_bytes, written[s].as<std::byte>()))
            << "step " << step << ", segment " << s;
      }
      on.end_step();
    }
  }
};

TEST_F(GpuSession, OffloadedBytesComeBack) {
  stream const compute(dev(), stream_kind::compute, "compute");
  session on(dev(), settings_for(policy_kind::offload));
  train(on, compute, 3, false);
  auto const stats = on.stats();
  EXPECT_GE(stats.device_to_host.bytes, 3 * item_bytes) << "the budget holds three of six items";
  EXPECT_GE(stats.host_to_device.bytes, 3 * item_bytes);
  EXPECT_EQ(stats.device_to_host.failed + stats.host_to_device.failed, 0U);
  EXPECT_LE(stats.device.peak_bytes, stats.device.limit_bytes);
  EXPECT_GT(stats.device_to_host.gbps, 0);
}

TEST_F(GpuSession, RebuiltBytesComeBack) {
  stream const compute(dev(), stream_kind::compute, "compute");
  session on(dev(), settings_for(policy_kind::recompute));
  on.set_placement([](item_info const&) { return placement::recompute; });
  train(on, compute, 3, true);
  EXPECT_GT(on.stats().recomputes, 0U);
}

TEST_F(GpuSession, APlanOfItsOwnMakingBringsThemBack) {
  stream const compute(dev(), stream_kind::compute, "compute");
  session on(dev(), settings_for(policy_kind::automatic));
  train(on, compute, 5, true);
}

TEST_F(GpuSession, WorksOnAStreamOfTheTrainers) {
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), cudaSuccess);
  {
    auto const lent = stream_ref::from_native(dev(), own);
    EXPECT_EQ(dev().native_handle(lent), own);
    session on(dev(), settings_for(policy_kind::offload));
    train(on, lent, 2, false);
  }
  device_.reset();
  EXPECT_EQ(cudaStreamSynchronize(own), cudaSuccess) << "it is still the trainer's";
  EXPECT_EQ(cudaStreamDestroy(own), cudaSuccess);
}

/// While the progress thread asks how far its copies are.
TEST_F(GpuSession, WorkBetweenItsCallsCanBeCaptured) {
  stream const compute(dev(), stream_kind::compute, "compute");
  auto* const native = static_cast<cudaStream_t>(dev().native_handle(compute));
  memory const back(dev(), memory_space::pinned, item_bytes);
  session on(dev(), settings_for(policy_kind::offload));
  on.begin_step();
  std::array<cudaGraphExec_t, segments> graphs{};
  for (std::uint32_t s = 0; s < segments; ++s) {
    auto block = on.allocate(item_bytes, compute);
    cudaGraph_t captured = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(block.data(), static_cast<int>(s + 1), item_bytes, native), cudaSuccess);
    ASSERT_EQ(cudaStreamEndCapture(native, &captured), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&graphs[s], captured, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(captured), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(graphs[s], native), cudaSuccess);
    on.save(key(s), std::move(block), compute).end();
  }
  for (std::uint32_t s = segments; s-- > 0;) {
    auto item = on.restore(key(s), compute);
    dev().copy(compute, "consume", copy_direction::device_to_host, back.data(), item.data(), item_bytes);
    item.end();
    on.release(key(s));
    compute.synchronize();
    if (gpu_order() != nullptr) gpu_order()->host_access(reads(back.data(), item_bytes), "compare");
    auto const* const bytes = back.as<std::byte>();
    EXPECT_TRUE(std::all_of(bytes, bytes + item_bytes, [&](std::byte b) { return b == std::byte(s + 1); })) << s;
  }
  on.end_step();
  EXPECT_EQ(device_->lost(), "");
  for (auto* const each : graphs) EXPECT_EQ(cudaGraphExecDestroy(each), cudaSuccess);
}

TEST_F(GpuSession, OffloadsWhileComputeIsBusy) {
  stream const compute(dev(), stream_kind::compute, "compute");
  memory const from(dev(), memory_space::pinned, item_bytes);
  gate held;
  session on(dev(), settings_for(policy_kind::offload));
  opens_at_end const at_end(held);  // before the session goes, which waits
  on.begin_step();
  auto block = on.allocate(item_bytes, compute);
  dev().copy(compute, "produce", copy_direction::host_to_device, block.data(), from.data(), item_bytes);
  on.save(key(0), std::move(block), compute).end();
  dev().launch(compute, "busy", {}, [&held] { held.wait(); });
  on.synchronize();
  EXPECT_FALSE(held.is_open());
  EXPECT_EQ(on.stats().device_to_host.bytes, item_bytes) << "the copy did not wait for what came after the item";
  held.open();
  compute.synchronize();
  on.end_step();
}

}  // namespace
}  // namespace ferry::testing
