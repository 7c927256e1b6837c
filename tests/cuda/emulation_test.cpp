// The emulated CUDA runtime does what CUDA's programming guide says: memory, streams, events, copies and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "world.hpp"

#if !defined(FERRY_CUDASIM_HEADERS)
#error "these are not the emulation's headers"
#endif

namespace cuda_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using clock = std::chrono::steady_clock;

double milliseconds_since(clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock::now() - begin).count();
}

TEST(Cudasim, DevicesAreDistinguishable) {
  start_anew({.devices = 3, .device_bytes = 1 << 20});
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 3);
  cudaDeviceProp first{};
  cudaDeviceProp second{};
  ASSERT_EQ(cudaGetDeviceProperties(&first, 0), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceProperties(&second, 1), cudaSuccess);
  EXPECT_NE(std::memcmp(first.uuid.bytes, second.uuid.bytes, 16), 0);
  EXPECT_EQ(first.totalGlobalMem, std::size_t{1} << 20);
  int major = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(major, first.major);
  char bus[16] = {};
  ASSERT_EQ(cudaDeviceGetPCIBusId(bus, sizeof(bus), 1), cudaSuccess);
  EXPECT_STREQ(bus, "0000:18:00.0");
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  int version = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_GE(version, 12040);
}

TEST(Cudasim, TheCurrentDeviceBelongsToTheThread) {
  start_anew();
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  std::thread([] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
  }).join();
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
}

TEST(Cudasim, DeviceMemoryIsBounded) {
  start_anew({.device_bytes = 4096});
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 3000), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 2000), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 4096U - 3072U);
  EXPECT_EQ(total, 4096U);
  cudaSetDevice(1);
  EXPECT_EQ(cudaMalloc(&second, 2000), cudaSuccess);
  cudaSetDevice(0);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  cudasim::set_device_bytes(0, 8192);
  EXPECT_EQ(cudaMalloc(&first, 8192), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_TRUE(cudasim::live().none()) << cudasim::live().text();
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Cudasim, MemoryPoolsAreBounded) {
  start_anew();
  cudaStream_t const stream = make_stream();
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.maxSize = 1024;
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  void* x = nullptr;
  void* y = nullptr;
  EXPECT_EQ(cudaMallocFromPoolAsync(&x, 1000, pool, stream), cudaSuccess);
  EXPECT_EQ(cudaMallocFromPoolAsync(&y, 1000, pool, stream), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFreeAsync(x, stream), cudaSuccess);
  EXPECT_EQ(cudaMallocFromPoolAsync(&y, 1000, pool, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(y, stream), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_TRUE(cudasim::live().none()) << cudasim::live().text();
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Cudasim, PointersTellWhatTheyPointAt) {
  world const w;
  std::vector<float> host(64);
  auto const type = [](void const* address) {
    cudaPointerAttributes result{};
    EXPECT_EQ(cudaPointerGetAttributes(&result, address), cudaSuccess);
    return result.type;
  };
  EXPECT_EQ(type(w.device[0] + 7), cudaMemoryTypeDevice);
  EXPECT_EQ(type(w.pinned[0]), cudaMemoryTypeHost);
  EXPECT_EQ(type(host.data()), cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaHostRegister(host.data(), 256, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(host.data() + 8, 64, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(type(host.data() + 3), cudaMemoryTypeHost);
  EXPECT_EQ(cudasim::live().registrations, 1U);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
}

TEST(Cudasim, BytesTravelToTheDeviceAndBack) {
  world const w;
  for (int i = 0; i < world::count; ++i) w.pinned[0][i] = static_cast<float>(i);
  w.prefetch(w.h2d, w.device[0], w.pinned[0]);
  w.order(w.h2d, w.compute);
  w.consume(w.compute, w.device[1], w.device[0]);
  w.order(w.compute, w.d2h);
  w.offload(w.d2h, w.pinned[1], w.device[1]);
  ASSERT_EQ(cudaStreamSynchronize(w.d2h), cudaSuccess);
  for (int i = 0; i < world::count; ++i) EXPECT_EQ(w.pinned[1][i], 2.0F * static_cast<float>(i));
  cudaMemsetAsync(w.device[1], 0, world::bytes, w.compute);
  cudaMemcpyAsync(w.device[1], w.device[0], 16, cudaMemcpyDefault, w.compute);
  w.finish();
  auto const values = read_back(w.device[1], 8);
  EXPECT_THAT(values, ::testing::ElementsAre(0, 1, 2, 3, 0, 0, 0, 0));
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Cudasim, HostFunctionsMayComputeOnUnprotectedDeviceMemory) {
  world const w({.protect_device_memory = false});
  cudaLaunchHostFunc(
      w.compute, [](void* x) { *static_cast<float*>(x) = 5; }, w.device[0]);
  w.finish();
  EXPECT_EQ(w.device[0][0], 5.0F);
}

TEST(Cudasim, StreamsAreAsynchronousAndInOrder) {
  world const w;
  std::atomic<bool> open{false};
  cudasim::set_before_operation([&](char const*) {
    while (!open) std::this_thread::yield();
  });
  w.produce(w.compute, w.device[0], 1);
  w.produce(w.compute, w.device[0], 2);
  cudaEventRecord(w.events[0], w.compute);
  EXPECT_EQ(cudaStreamQuery(w.compute), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(w.events[0]), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(w.events[1]), cudaSuccess) << "never recorded";
  open = true;
  EXPECT_EQ(cudaEventSynchronize(w.events[0]), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(w.events[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(w.compute), cudaSuccess);
  EXPECT_EQ(read_back(w.device[0], 1)[0], 2.0F);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Cudasim, AStreamFinishesItsWorkAfterItWasDestroyed) {
  start_anew();
  cudaStream_t const stream = make_stream();
  static std::atomic<int> ran{0};
  ran = 0;
  for (int i = 0; i < 100; ++i)
    cudaLaunchHostFunc(
        stream, [](void*) { ++ran; }, nullptr);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudasim::live().streams, 0U);
  start_anew();
  EXPECT_EQ(ran, 100);
}

TEST(Cudasim, AnyThreadMayUseAnyStream) {
  world const w;
  static std::atomic<int> ran{0};
  ran = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        cudaLaunchHostFunc(
            w.compute, [](void*) { ++ran; }, nullptr);
        cudaEvent_t const event = make_event();
        cudaEventRecord(event, w.compute);
        cudaStreamWaitEvent(w.d2h, event);
        cudaEventSynchronize(event);
        cudaEventDestroy(event);
      }
    });
  }
  for (auto& each : threads) each.join();
  w.finish();
  EXPECT_EQ(ran, 800);
  EXPECT_EQ(cudasim::live().events, 4U);
}

TEST(Cudasim, CopiesAndQueriesDoNotMindTheCurrentDevice) {
  world const w;
  cudaSetDevice(1);
  w.prefetch(w.h2d, w.device[0], w.pinned[0]);
  w.order(w.h2d, w.compute);
  EXPECT_EQ(cudaStreamSynchronize(w.h2d), cudaSuccess);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
  w.produce(w.compute, w.device[0]);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  cudaSetDevice(0);
}

TEST(Cudasim, LinksArePaced) {
  world const w;
  std::size_t const bytes = std::size_t{4} << 20;
  float* const device = make_device_floats(bytes / sizeof(float));
  float* const pinned = make_pinned_floats(bytes / sizeof(float));
  cudasim::set_link(0, cudasim::direction::device_to_host, 0.2);  // 21 ms
  cudaEvent_t const begin = make_event(cudaEventDefault);
  cudaEvent_t const end = make_event(cudaEventDefault);
  cudaEventRecord(begin, w.d2h);
  w.offload(w.d2h, pinned, device, bytes);
  cudaEventRecord(end, w.d2h);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  float milliseconds = 0;
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 20.0F);
  EXPECT_LE(milliseconds, 200.0F);
  cudaFree(device);
  cudaFreeHost(pinned);
}

TEST(Cudasim, AStalledLinkHoldsItsCopiesBack) {
  world const w;
  cudasim::stall(0, cudasim::direction::device_to_host);
  w.offload(w.d2h, w.pinned[0], w.device[0]);
  w.prefetch(w.h2d, w.device[1], w.pinned[1]);
  EXPECT_EQ(cudaStreamSynchronize(w.h2d), cudaSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(cudaStreamQuery(w.d2h), cudaErrorNotReady);
  cudasim::resume(0, cudasim::direction::device_to_host);
  EXPECT_EQ(cudaStreamSynchronize(w.d2h), cudaSuccess);
}

TEST(Cudasim, ElapsedTimeIsThatOfTheStream) {
  world const w;
  cudaEvent_t const begin = make_event(cudaEventDefault);
  cudaEvent_t const end = make_event(cudaEventDefault);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle) << "never recorded";
  auto const started = clock::now();
  cudaEventRecord(begin, w.compute);
  cudaLaunchHostFunc(
      w.compute, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr);
  cudaEventRecord(end, w.compute);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  cudaEventSynchronize(end);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 4.9F);
  EXPECT_LE(milliseconds, milliseconds_since(started));
}

TEST(Cudasim, ProfilerRangesNameOperations) {
  world const w;
  nvtxRangePushA("offload h");
  w.offload(w.d2h, w.pinned[0], w.device[0]);
  nvtxRangePop();
  w.produce(w.compute, w.device[0]);
  w.finish();
  EXPECT_THAT(cudasim::violations(), Contains(HasSubstr("'offload h' on stream 2 of device 0 may still be reading")));
  EXPECT_EQ(cudasim::nvtx(), (cudasim::nvtx_counts{1, 1, 0}));
}

}  // namespace
}  // namespace cuda_test
