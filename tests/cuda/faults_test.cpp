// The emulated CUDA runtime fails as CUDA does, and as tests ask it to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "world.hpp"

namespace cuda_test {
namespace {

using ::testing::IsEmpty;

TEST(CudasimFaults, TheNthCallFailsOnceAndDoesNothing) {
  world const w;
  cudasim::fail("cudaMemcpyAsync", 2, cudaErrorInvalidValue);
  auto const copy = [&] {
    return cudaMemcpyAsync(w.pinned[0], w.device[0], world::bytes, cudaMemcpyDeviceToHost, w.d2h);
  };
  EXPECT_EQ(copy(), cudaSuccess);
  EXPECT_EQ(copy(), cudaErrorInvalidValue);
  EXPECT_EQ(copy(), cudaSuccess);
  EXPECT_EQ(cudasim::calls()["cudaMemcpyAsync"], 3U);
  cudasim::reset_calls();
  EXPECT_EQ(cudasim::calls()["cudaMemcpyAsync"], 0U);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(CudasimFaults, LastErrorsBelongToTheThreadAndAreReadOnce) {
  start_anew();
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(77)), "unrecognized error code");
}

TEST(CudasimFaults, AStickyErrorBreaksItsDeviceForGood) {
  {
    world w;
    cudasim::fail("cudaEventRecord", 1, cudaErrorIllegalAddress);
    EXPECT_EQ(cudaEventRecord(w.events[0], w.compute), cudaErrorIllegalAddress);
    void* x = nullptr;
    EXPECT_EQ(cudaMalloc(&x, 16), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaEventQuery(w.events[0]), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&x, 16), cudaSuccess) << "the other device works";
    EXPECT_EQ(cudaFree(x), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaFree(w.device[0]), cudaErrorIllegalAddress);
    w.device[0] = nullptr;
  }
  EXPECT_TRUE(cudasim::live().none()) << "what is destroyed on a broken device is gone: " << cudasim::live().text();
}

TEST(CudasimFaults, AKernelThatGoesWrongShowsLater) {
  world const w;
  std::vector<float> host(world::count);
  auto const config = on(w.compute);
  std::atomic<bool> open{false};
  cudasim::set_before_operation([&](char const*) {
    while (!open) std::this_thread::yield();
  });
  EXPECT_EQ(cudaLaunchKernelEx(&config, fill, host.data(), 16, 1.0F), cudaSuccess);
  open = true;
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaErrorIllegalAddress);
  EXPECT_EQ(host[0], 0.0F);
  EXPECT_EQ(cudaEventRecord(w.events[0], w.compute), cudaErrorIllegalAddress);
}

TEST(CudasimFaults, WorkOnABrokenDeviceDoesNotRun) {
  world const w;
  w.produce(w.compute, w.device[0], 1);
  w.finish();
  cudasim::break_device(0, cudaErrorLaunchFailure);
  static std::atomic<int> ran{0};
  ran = 0;
  EXPECT_EQ(cudaLaunchHostFunc(
                w.compute, [](void*) { ++ran; }, nullptr),
            cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaErrorLaunchFailure);
  EXPECT_EQ(ran, 0);
}

TEST(CudasimFaults, OperationsThatThrowBreakTheDevice) {
  world const w;
  cudasim::set_before_operation([](char const* kind) {
    if (std::string(kind) == "copy D2H") throw std::runtime_error("a copy engine fell off");
  });
  w.produce(w.compute, w.device[0]);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  w.offload(w.d2h, w.pinned[0], w.device[1]);
  EXPECT_EQ(cudaStreamSynchronize(w.d2h), cudaErrorLaunchFailure);
}

TEST(CudasimFaults, HooksSeeAndFailEveryCall) {
  world const w;
  std::vector<std::string> seen;
  cudasim::set_before_call([&](char const* function) {
    seen.emplace_back(function);
    return std::string(function) == "cudaEventRecord" ? cudaErrorUnknown : cudaSuccess;
  });
  EXPECT_EQ(cudaEventRecord(w.events[0], w.compute), cudaErrorUnknown);
  EXPECT_EQ(cudaEventQuery(w.events[0]), cudaSuccess);
  cudasim::set_before_call({});
  EXPECT_EQ(cudaEventRecord(w.events[0], w.compute), cudaSuccess);
  EXPECT_THAT(seen, ::testing::ElementsAre("cudaEventRecord", "cudaEventQuery"));
}

TEST(CudasimFaults, NothingWorksWithoutADriver) {
  start_anew();
  cudasim::remove_driver();
  int number = -1;
  EXPECT_EQ(cudaGetDeviceCount(&number), cudaErrorInsufficientDriver);
  EXPECT_EQ(number, 0);
  void* x = nullptr;
  EXPECT_EQ(cudaMalloc(&x, 16), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaDriverGetVersion(&number), cudaSuccess);
  EXPECT_EQ(number, 0);
  EXPECT_EQ(cudaRuntimeGetVersion(&number), cudaSuccess);
}

TEST(CudasimFaults, NothingWorksWithoutADevice) {
  for (int devices = 0; devices < 2; ++devices) {
    start_anew({.devices = devices});
    if (devices > 0) cudasim::remove_devices();
    int number = -1;
    EXPECT_EQ(cudaGetDeviceCount(&number), cudaErrorNoDevice);
    EXPECT_EQ(number, 0);
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaErrorNoDevice);
  }
}

TEST(CudasimFaults, NothingWorksOnceTheDriverIsUnloaded) {
  world const w;
  cudasim::unload_driver();
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaErrorCudartUnloading);
  EXPECT_EQ(cudaFree(w.device[0]), cudaErrorCudartUnloading);
  EXPECT_EQ(cudasim::live().device_allocations, 2U);
}

TEST(CudasimFaults, ResetWaitsForStreamsAndReleasesStalledLinks) {
  auto const w = std::make_unique<world>();
  cudasim::stall(0, cudasim::direction::device_to_host);
  w->offload(w->d2h, w->pinned[0], w->device[0]);
  start_anew();
  EXPECT_TRUE(cudasim::live().none());
  EXPECT_EQ(cudaStreamQuery(w->compute), cudaErrorInvalidResourceHandle) << "a handle of the emulation before";
}

}  // namespace
}  // namespace cuda_test
