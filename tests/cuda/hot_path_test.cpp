// What a warm step asks of CUDA: counted calls, not seconds.
#include <array>
#include <cstdio>
#include <optional>

#include "cuda/cuda_fixture.hpp"

namespace ferry::testing {
namespace {

constexpr std::uint32_t segments = 8;
constexpr std::uint32_t items_per_segment = 8;
constexpr std::uint32_t items = segments * items_per_segment;
constexpr std::size_t chunk_bytes = 64 << 10;

/// Everything leaves in forward and comes back in backward.
class HotPath : public CudaTest {
 protected:
  void start(std::size_t chunks_per_item) {
    item_bytes_ = chunks_per_item * chunk_bytes;
    auto& dev = make({.device_bytes = std::size_t{32} << 20, .pinned_bytes = std::size_t{64} << 20});
    compute_.emplace(dev, stream_kind::compute, "compute");
    config settings;
    settings.policy.kind = policy_kind::offload;
    settings.budget = byte_amount::exactly(16 * item_bytes_);
    settings.host_budget = byte_amount::exactly((items + 2) * item_bytes_);
    settings.chunk_bytes = chunk_bytes;
    settings.log = log_level::off;
    session_.emplace(dev, settings);
  }
  void TearDown() override {
    session_.reset();
    compute_.reset();
    CudaTest::TearDown();
  }

  static item_key key(std::uint32_t i) {
    return {0, i / items_per_segment, label("x" + std::to_string(i % items_per_segment))};
  }

  void step() {
    session_->begin_step();
    for (std::uint32_t i = 0; i < items; ++i) {
      session_->save(key(i), session_->allocate(item_bytes_, *compute_), *compute_).end();
    }
    for (std::uint32_t i = items; i-- > 0;) {
      session_->restore(key(i), *compute_).end();
      session_->release(key(i));
    }
    session_->end_step();
    session_->synchronize();
  }

  /// Of one step, after some have gone before. Events are made as long as more of them are in use at once than ever
  /// before, which is a matter of timing: of the steps that follow, the first that makes none is looked at.
  std::map<std::string, std::size_t> calls_of_a_step() {
    for (int i = 0; i < 20; ++i) step();
    session_stats before;
    for (int tries = 0; tries < 50; ++tries) {
      before = session_->stats();
      cudasim::reset_calls();
      step();
      if (!cudasim::calls().contains("cudaEventCreateWithFlags")) break;
    }
    auto const after = session_->stats();
    chunks_ = after.device_to_host.chunks + after.host_to_device.chunks - before.device_to_host.chunks -
              before.host_to_device.chunks;
    restored_ = after.count(reason::restored_from_host) - before.count(reason::restored_from_host);
    auto const calls = cudasim::calls();
    for (auto const& [function, count] : calls) std::printf("%6zu  %s\n", count, function.c_str());
    std::printf("%6llu  chunks, %llu of %u items came back over the link\n", static_cast<unsigned long long>(chunks_),
                static_cast<unsigned long long>(restored_), items);
    return calls;
  }

  /// For each item at most a copy out and one in for every chunk, each with its mark, a mark after its producer and one
  /// after its last use, and two waits. What is measured besides costs marks of its own: where a chunk met an idle
  /// link, where a restore had to wait, and where segments begin.
  void expect_few(std::map<std::string, std::size_t>& calls, std::size_t chunks_per_item) const {
    EXPECT_EQ(calls["cudaMemcpyAsync"], chunks_);
    EXPECT_LE(calls["cudaMemcpyAsync"], 2 * chunks_per_item * items);
    EXPECT_LE(calls["cudaStreamWaitEvent"], 2 * items);
    std::size_t const measured = chunks_ + 2 * items + 4 * segments;
    EXPECT_LE(calls["cudaEventRecord"], chunks_ + 2 * items + measured);
  }

  std::size_t item_bytes_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t restored_ = 0;
  std::optional<stream> compute_;
  std::optional<session> session_;
};

void expect_no_allocation(std::map<std::string, std::size_t> const& calls) {
  for (char const* const function :
       {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaMallocAsync", "cudaEventCreateWithFlags",
        "cudaEventDestroy", "cudaStreamCreateWithPriority", "cudaDeviceSynchronize", "cudaSetDevice"}) {
    EXPECT_FALSE(calls.contains(function)) << function;
  }
}

TEST_F(HotPath, AnItemOfOneChunkTakesFewCalls) {
  start(1);
  auto calls = calls_of_a_step();
  expect_no_allocation(calls);
  expect_few(calls, 1);
}

TEST_F(HotPath, AnItemOfManyChunksTakesOneCopyAndOneMarkForEach) {
  start(8);
  auto calls = calls_of_a_step();
  expect_no_allocation(calls);
  expect_few(calls, 8);
}

}  // namespace
}  // namespace ferry::testing
