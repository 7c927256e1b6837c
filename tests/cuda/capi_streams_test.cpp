// The C interface on a GPU: streams of CUDA's own passed as they are, or as handles; kernels launched on what recipes
// are told; default streams refused.
#include <cuda_runtime.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/cuda_fixture.hpp"
#include "ferry/ferry.h"

namespace ferry::testing {
namespace {

using ::testing::HasSubstr;

constexpr int floats = 8 << 10;
constexpr std::size_t bytes = floats * sizeof(float);

__global__ void filled_by(float* out, int count, float value) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) out[i] = value;
}
__global__ void doubled_from(float* out, float const* in, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) out[i] = 2 * in[i];
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_on(void* stream, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t how{};
  how.gridDim = dim3(1);
  how.blockDim = dim3(32);
  how.stream = static_cast<cudaStream_t>(stream);
  return cudaLaunchKernelEx(&how, kernel, arguments...);
}

/// A recipe's view of its stream.
struct told {
  void* stream = nullptr;
  void* native = nullptr;
  int runs = 0;
};

int twice(ferry_recipe_context const* to, void* user) {
  auto& seen = *static_cast<told*>(user);
  seen = {to->stream, to->native_stream, seen.runs + 1};
  return launch_on(to->native_stream, doubled_from, static_cast<float*>(to->output),
                   static_cast<float const*>(to->inputs[0]), floats);
}

class CapiStreams : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1);  // where the measured link is kept
    ferry_settings* settings = nullptr;
    ASSERT_EQ(ferry_settings_create(&settings), FERRY_OK);
    for (auto const& [variable, value] :
         std::vector<std::pair<char const*, char const*>>{{"FERRY_DEVICE", "cuda"},
                                                          {"FERRY_DEVICE_BYTES", "8MiB"},
                                                          {"FERRY_PINNED_BYTES", "8MiB"},
                                                          {"FERRY_POLICY", "recompute"},
                                                          {"FERRY_BUDGET", "1MiB"}}) {
      ASSERT_EQ(ferry_settings_set(settings, variable, value), FERRY_OK) << ferry_last_error();
    }
    ASSERT_EQ(ferry_device_create(settings, &on_), FERRY_OK) << ferry_last_error();
    ASSERT_EQ(ferry_session_create(on_, settings, &session_), FERRY_OK) << ferry_last_error();
    ASSERT_EQ(ferry_settings_destroy(settings), FERRY_OK);
    ASSERT_EQ(cudaStreamCreateWithFlags(&native_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(ferry_session_destroy(session_), FERRY_OK) << ferry_last_error();
    EXPECT_EQ(ferry_device_destroy(on_), FERRY_OK) << ferry_last_error();
    EXPECT_EQ(cudaStreamDestroy(native_), cudaSuccess);
    unsetenv("XDG_CACHE_HOME");
    CudaTest::TearDown();
  }

  /// Saves x = 3 and y = 2 x, gets y back by its recipe, all with this stream.
  void run_step(void* stream, told& seen) {
    ferry_key const x{0, 0, "x"};
    ferry_key const y{0, 0, "y"};
    ferry_recipe how{};
    how.size = sizeof how;
    how.enqueue = twice;
    how.user = &seen;
    how.inputs = &x;
    how.input_count = 1;
    ferry_block* block = nullptr;
    ferry_lease* x_lease = nullptr;
    ferry_lease* lease = nullptr;
    void* x_data = nullptr;
    void* data = nullptr;
    ASSERT_EQ(ferry_session_begin_step(session_), FERRY_OK) << ferry_last_error();
    ASSERT_EQ(ferry_session_allocate(session_, bytes, stream, "x", &block, &x_data), FERRY_OK) << ferry_last_error();
    ASSERT_EQ(launch_on(native_, filled_by, static_cast<float*>(x_data), floats, 3.0F), cudaSuccess);
    ASSERT_EQ(ferry_session_save(session_, &x, block, stream, nullptr, &x_lease), FERRY_OK) << ferry_last_error();
    ASSERT_EQ(ferry_session_allocate(session_, bytes, stream, "y", &block, &data), FERRY_OK) << ferry_last_error();
    ASSERT_EQ(launch_on(native_, doubled_from, static_cast<float*>(data), static_cast<float const*>(x_data), floats),
              cudaSuccess);
    ASSERT_EQ(ferry_lease_end(x_lease), FERRY_OK);
    ASSERT_EQ(ferry_session_save(session_, &y, block, stream, &how, nullptr), FERRY_OK) << ferry_last_error();
    ASSERT_EQ(ferry_session_restore(session_, &y, stream, &lease, &data), FERRY_OK) << ferry_last_error();
    void* back = nullptr;
    ASSERT_EQ(cudaHostAlloc(&back, bytes, cudaHostAllocDefault), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(back, data, bytes, cudaMemcpyDeviceToHost, native_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(native_), cudaSuccess);
    auto const* const values = static_cast<float const*>(back);
    EXPECT_EQ(std::vector<float>(values, values + floats), std::vector<float>(floats, 6.0F));
    ASSERT_EQ(cudaFreeHost(back), cudaSuccess);
    ASSERT_EQ(ferry_lease_end(lease), FERRY_OK);
    ASSERT_EQ(ferry_session_end_step(session_), FERRY_OK) << ferry_last_error();
  }

  temporary_folder cache_;
  ferry_device* on_ = nullptr;
  ferry_session* session_ = nullptr;
  cudaStream_t native_ = nullptr;
};

TEST_F(CapiStreams, ArePassedAsTheyAre) {
  told seen;
  for (int step = 0; step < 3; ++step) run_step(native_, seen);
  EXPECT_EQ(seen.runs, 3);
  EXPECT_EQ(seen.stream, native_);
  EXPECT_EQ(seen.native, native_);
}

TEST_F(CapiStreams, ArePassedAsHandles) {
  ferry_stream* handle = nullptr;
  void* same = nullptr;
  told seen;
  ASSERT_EQ(ferry_stream_from_native(on_, native_, &handle), FERRY_OK) << ferry_last_error();
  ASSERT_EQ(ferry_stream_native(handle, &same), FERRY_OK);
  EXPECT_EQ(same, native_);
  run_step(handle, seen);
  EXPECT_EQ(seen.stream, handle);
  EXPECT_EQ(seen.native, native_);
  EXPECT_EQ(ferry_device_destroy(on_), FERRY_ERROR_IN_USE);
  ASSERT_EQ(ferry_stream_synchronize(handle), FERRY_OK);
  ASSERT_EQ(ferry_stream_destroy(handle), FERRY_OK);
  EXPECT_EQ(cudaStreamSynchronize(native_), cudaSuccess) << "it is still the trainer's";
  EXPECT_EQ(ferry_session_begin_step(session_), FERRY_OK);
  ferry_block* block = nullptr;
  EXPECT_EQ(ferry_session_allocate(session_, bytes, handle, "gone", &block, nullptr), FERRY_ERROR_INVALID_HANDLE);
  EXPECT_EQ(ferry_session_end_step(session_), FERRY_OK);
  run_step(native_, seen);  // and as it is again
  EXPECT_EQ(seen.stream, native_);
}

TEST_F(CapiStreams, OfFerrysOwnAreKnownToCuda) {
  ferry_stream* stream = nullptr;
  void* native = nullptr;
  ASSERT_EQ(ferry_stream_create(on_, "own", &stream), FERRY_OK) << ferry_last_error();
  ASSERT_EQ(ferry_stream_native(stream, &native), FERRY_OK);
  EXPECT_EQ(cudaStreamSynchronize(static_cast<cudaStream_t>(native)), cudaSuccess);
  ferry_event* event = nullptr;
  int complete = 0;
  ASSERT_EQ(ferry_event_create(on_, &event), FERRY_OK);
  ASSERT_EQ(ferry_event_record(event, native_), FERRY_OK) << ferry_last_error();
  ASSERT_EQ(ferry_stream_wait(stream, event), FERRY_OK) << ferry_last_error();
  ASSERT_EQ(ferry_event_synchronize(event), FERRY_OK);
  ASSERT_EQ(ferry_event_query(event, &complete), FERRY_OK);
  EXPECT_EQ(complete, 1);
  ASSERT_EQ(ferry_event_destroy(event), FERRY_OK);
  ASSERT_EQ(ferry_stream_destroy(stream), FERRY_OK);
}

TEST_F(CapiStreams, ByDefaultAreRefused) {
  ferry_block* block = nullptr;
  for (void* const each :
       {static_cast<void*>(nullptr), static_cast<void*>(cudaStreamLegacy), static_cast<void*>(cudaStreamPerThread)}) {
    EXPECT_EQ(ferry_session_allocate(session_, bytes, each, "none", &block, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(ferry_last_error(), HasSubstr("cudaStreamNonBlocking"));
    EXPECT_EQ(block, nullptr);
  }
}

TEST_F(CapiStreams, OfCudasOwnAreLaunchedOnByCuda) {
  EXPECT_EQ(ferry_stream_launch(
                native_, "work", [](void*) { return 0; }, nullptr, nullptr, 0),
            FERRY_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace ferry::testing
