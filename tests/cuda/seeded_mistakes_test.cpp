// Wrong programs, written against CUDA's API as a trainer would: each is reported with a text that names its mistake,
// whatever the timing, and is silent once it is put right.
#include <cublas_v2.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "world.hpp"

namespace cuda_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using program = std::function<void(world&, bool right)>;

std::vector<std::string> violations_of(program const& tested, bool right, cudasim::options const& with) {
  world w(with);
  tested(w, right);
  w.finish();
  return cudasim::violations();
}

void expect_reported(std::string const& text, program const& tested, cudasim::options const& with = {}) {
  EXPECT_THAT(violations_of(tested, true, with), IsEmpty());
  EXPECT_THAT(violations_of(tested, false, with), Contains(HasSubstr(text)));
}

// Order between streams.

TEST(SeededMistakes, CopyDoesNotWaitForItsProducer) {
  expect_reported("missing event wait: 'cudaMemcpyAsync' on stream 2 of device 0 reads 1024 bytes",
                  [](world& w, bool right) {
                    w.produce(w.compute, w.device[0]);
                    if (right) w.order(w.compute, w.d2h);
                    w.offload(w.d2h, w.pinned[0], w.device[0]);
                  });
}

TEST(SeededMistakes, ConsumerDoesNotWaitForItsCopy) {
  expect_reported("'scale' on stream 1 of device 0 reads 1024 bytes", [](world& w, bool right) {
    w.prefetch(w.h2d, w.device[0], w.pinned[0]);
    if (right) w.order(w.h2d, w.compute);
    w.consume(w.compute, w.device[1], w.device[0]);
  });
}

TEST(SeededMistakes, DeviceBytesOverwrittenWhileTheyAreOffloaded) {
  expect_reported("'cudaMemcpyAsync' on stream 2 of device 0 may still be reading", [](world& w, bool right) {
    w.produce(w.compute, w.device[0]);
    w.order(w.compute, w.d2h);
    w.offload(w.d2h, w.pinned[0], w.device[0]);
    if (right) w.order(w.d2h, w.compute, 1);
    w.produce(w.compute, w.device[0], 2);
  });
}

TEST(SeededMistakes, PinnedSlotRefilledByTheHostTooEarly) {
  expect_reported("missing synchronisation: 'load'", [](world& w, bool right) {
    w.prefetch(w.h2d, w.device[0], w.pinned[0]);
    cudaEventRecord(w.events[0], w.h2d);
    if (right) cudaEventSynchronize(w.events[0]);
    cudasim::order().host_access(ferry::writes(w.pinned[0], w.bytes), "load");
  });
}

TEST(SeededMistakes, PinnedSlotReusedByAnotherCopyTooEarly) {
  expect_reported("'cudaMemcpyAsync' on stream 3 of device 0 may still be reading", [](world& w, bool right) {
    w.prefetch(w.h2d, w.device[0], w.pinned[0]);
    if (right) w.order(w.h2d, w.d2h);
    w.offload(w.d2h, w.pinned[0], w.device[1]);
  });
}

TEST(SeededMistakes, WaitBeforeTheRecord) {
  expect_reported("missing event wait", [](world& w, bool right) {
    w.produce(w.compute, w.device[0]);
    if (!right) cudaStreamWaitEvent(w.d2h, w.events[0]);
    cudaEventRecord(w.events[0], w.compute);
    if (right) cudaStreamWaitEvent(w.d2h, w.events[0]);
    w.offload(w.d2h, w.pinned[0], w.device[0]);
  });
}

TEST(SeededMistakes, WaitForAnEventThatIsNeverRecorded) {
  expect_reported("waits for an event that was never recorded",
                  [](world& w, bool right) {
                    if (right) cudaEventRecord(w.events[0], w.compute);
                    cudaStreamWaitEvent(w.d2h, w.events[0]);
                  },
                  {.report_unrecorded_waits = true});
}

TEST(SeededMistakes, RecordBeforeTheWorkThatItShouldCover) {
  expect_reported("missing event wait", [](world& w, bool right) {
    if (!right) cudaEventRecord(w.events[0], w.compute);
    w.produce(w.compute, w.device[0]);
    if (right) cudaEventRecord(w.events[0], w.compute);
    cudaStreamWaitEvent(w.d2h, w.events[0]);
    w.offload(w.d2h, w.pinned[0], w.device[0]);
  });
}

TEST(SeededMistakes, HostReadsBeforeItHasWaited) {
  expect_reported("missing synchronisation: 'checksum'", [](world& w, bool right) {
    w.offload(w.d2h, w.pinned[0], w.device[0]);
    if (right) cudaStreamSynchronize(w.d2h);
    cudasim::order().host_access(ferry::reads(w.pinned[0], w.bytes), "checksum");
  });
}

TEST(SeededMistakes, DestroyingAStreamIsNoWait) {
  expect_reported("missing synchronisation: 'checksum'", [](world& w, bool right) {
    w.offload(w.d2h, w.pinned[0], w.device[0]);
    if (right) cudaStreamSynchronize(w.d2h);
    cudaStreamDestroy(w.d2h);
    w.d2h = make_stream();
    cudasim::order().host_access(ferry::reads(w.pinned[0], w.bytes), "checksum");
  });
}

TEST(SeededMistakes, HostFunctionTouchesBytesThatACopyStillWrites) {
  expect_reported("missing event wait: 'checksum' on stream 1 of device 0", [](world& w, bool right) {
    w.offload(w.d2h, w.pinned[0], w.device[0]);
    if (right) w.order(w.d2h, w.compute);
    ferry::memory_access const read[] = {ferry::reads(w.pinned[0], w.bytes)};
    cudasim::order().announce("checksum", read);
    cudaLaunchHostFunc(
        w.compute, [](void*) {}, nullptr);
  });
}

TEST(SeededMistakes, TwoStreamsShareAWorkspace) {
  expect_reported("missing event wait: 'cublasGemmEx'", [](world& w, bool right) {
    float* const workspace = make_device_floats(64);
    cudaStream_t const other = make_stream();
    float const one = 1;
    float const zero = 0;
    cublasHandle_t handles[2] = {};
    for (int i = 0; i < 2; ++i) {
      cublasCreate(&handles[i]);
      cublasSetStream(handles[i], i == 0 ? w.compute : other);
      cublasSetWorkspace(handles[i], workspace, 256);
      float* const x = w.device[i];
      if (right && i == 1) w.order(w.compute, other);
      cublasGemmEx(handles[i], CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, x, CUDA_R_32F, 4, x + 16, CUDA_R_32F, 4, &zero,
                   x + 32, CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    }
    cudaStreamSynchronize(w.compute);
    cudaStreamSynchronize(other);
    for (auto* each : handles) cublasDestroy(each);
    cudaStreamDestroy(other);
    cudaFree(workspace);
  });
}

// Lifetimes.

TEST(SeededMistakes, KernelUsesFreedMemory) {
  expect_reported("use after free: pointer 2 of the kernel 'scale'", [](world& w, bool right) {
    float* const gone = make_device_floats(world::count);
    if (!right) cudaFree(gone);
    w.consume(w.compute, w.device[0], gone);
    cudaStreamSynchronize(w.compute);
    if (right) cudaFree(gone);
  });
}

TEST(SeededMistakes, CopyUsesFreedMemory) {
  expect_reported("use after free: the copy 'cudaMemcpyAsync' reads", [](world& w, bool right) {
    float* const gone = make_device_floats(world::count);
    if (!right) cudaFree(gone);
    w.offload(w.d2h, w.pinned[0], gone);
    cudaStreamSynchronize(w.d2h);
    if (right) cudaFree(gone);
  });
}

TEST(SeededMistakes, KernelUsesABlockThatItsArenaTookBack) {
  expect_reported("use after free: 'scale' on stream 1 of device 0 reads 256 bytes of 'h'", [](world& w, bool right) {
    cudasim::order().allocated(w.device[0], 256, "h");
    w.produce(w.compute, w.device[1]);
    if (!right) cudasim::order().freed(w.device[0], 256);
    auto const config = on(w.compute);
    cudaLaunchKernelEx(&config, scale, w.device[1], w.device[0], 64, 2.0F);
    if (right) cudasim::order().freed(w.device[0], 256);
  });
}

TEST(SeededMistakes, DeviceMemoryFreedInFlight) {
  expect_reported("freed in flight: 'device memory", [](world& w, bool right) {
    float* const x = make_device_floats(world::count);
    w.produce(w.compute, x);
    if (right) cudaStreamSynchronize(w.compute);
    cudaFree(x);
  });
}

TEST(SeededMistakes, PinnedMemoryFreedInFlight) {
  expect_reported("freed in flight: 'pinned memory", [](world& w, bool right) {
    float* const slot = make_pinned_floats(world::count);
    w.prefetch(w.h2d, w.device[0], slot);
    if (right) cudaStreamSynchronize(w.h2d);
    cudaFreeHost(slot);
  });
}

TEST(SeededMistakes, RegistrationEndedInFlight) {
  expect_reported("freed in flight: 'registered memory", [](world& w, bool right) {
    static std::vector<float> host(world::count);
    cudaHostRegister(host.data(), world::bytes, cudaHostRegisterDefault);
    w.prefetch(w.h2d, w.device[0], host.data());
    if (right) cudaStreamSynchronize(w.h2d);
    cudaHostUnregister(host.data());
  });
}

TEST(SeededMistakes, StreamOrderedMemoryUsedAfterItsFree) {
  expect_reported("use after free", [](world& w, bool right) {
    void* x = nullptr;
    cudaMallocAsync(&x, world::bytes, w.compute);
    if (!right) cudaFreeAsync(x, w.compute);
    w.produce(w.compute, static_cast<float*>(x));
    if (right) cudaFreeAsync(x, w.compute);
  });
}

TEST(SeededMistakes, StreamOrderedMemoryUsedByAStreamThatDidNotWait) {
  expect_reported("missing event wait", [](world& w, bool right) {
    void* x = nullptr;
    cudaMallocAsync(&x, world::bytes, w.compute);
    if (right) w.order(w.compute, w.h2d);
    w.prefetch(w.h2d, static_cast<float*>(x), w.pinned[0]);
    cudaStreamSynchronize(w.h2d);
    cudaFreeAsync(x, w.compute);
  });
}

TEST(SeededMistakes, DoubleFree) {
  expect_reported("double free: cudaFree is given 'device memory", [](world&, bool right) {
    float* const x = make_device_floats(16);
    cudaFree(x);
    if (!right) cudaFree(x);
  });
  expect_reported("double free: cudaFreeHost is given 'pinned memory", [](world&, bool right) {
    float* const x = make_pinned_floats(16);
    cudaFreeHost(x);
    if (!right) cudaFreeHost(x);
  });
}

TEST(SeededMistakes, MemoryFreedByTheWrongFunction) {
  expect_reported("invalid free: cudaFree is given", [](world&, bool right) {
    float* const x = make_pinned_floats(16);
    if (!right) cudaFree(x);
    cudaFreeHost(x);
  });
}

TEST(SeededMistakes, StreamUsedAfterItWasDestroyed) {
  expect_reported("invalid handle: cudaMemcpyAsync is given a stream", [](world& w, bool right) {
    cudaStream_t const gone = make_stream();
    cudaStreamDestroy(gone);
    w.offload(right ? w.d2h : gone, w.pinned[0], w.device[0]);
  });
}

TEST(SeededMistakes, LeakedObjectsAreStillAlive) {
  auto const left = [](bool right) {
    {
      world const w;
      cudaEvent_t const forgotten = make_event();
      float* const lost = make_device_floats(16);
      if (right) {
        cudaEventDestroy(forgotten);
        cudaFree(lost);
      }
    }
    return cudasim::live();
  };
  EXPECT_TRUE(left(true).none()) << left(true).text();
  EXPECT_EQ(left(false).text(), "1 event, 1 device allocation, 64 bytes of device memory");
}

// Wrong memory.

TEST(SeededMistakes, PageableCopy) {
  expect_reported("pageable asynchronous copy: 'cudaMemcpyAsync' writes", [](world& w, bool right) {
    std::vector<float> pageable(world::count);
    w.offload(w.d2h, right ? w.pinned[0] : pageable.data(), w.device[0]);
    cudaStreamSynchronize(w.d2h);
  });
  expect_reported("pageable asynchronous copy: 'cudaMemcpyAsync' reads", [](world& w, bool right) {
    std::vector<float> pageable(world::count);
    w.prefetch(w.h2d, w.device[0], right ? w.pinned[0] : pageable.data());
    cudaStreamSynchronize(w.h2d);
  });
}

TEST(SeededMistakes, CopyLeavesDeviceMemory) {
  expect_reported("out of range: the copy 'cudaMemcpyAsync' reads 'device memory", [](world& w, bool right) {
    w.offload(w.d2h, w.pinned[0], w.device[0] + 1, right ? world::bytes - 4 : world::bytes);
  });
}

TEST(SeededMistakes, CopyLeavesPinnedMemory) {
  expect_reported("out of range: the copy 'cudaMemcpyAsync' reads 'pinned memory", [](world& w, bool right) {
    w.prefetch(w.h2d, w.device[0], w.pinned[0] + 1, right ? world::bytes - 4 : world::bytes);
  });
}

TEST(SeededMistakes, CopyRunsIntoTheNextBlockOfItsArena) {
  expect_reported("out of range: 'cudaMemcpyAsync' on stream 2 of device 0 reads 320 bytes of 'h'",
                  [](world& w, bool right) {
                    cudasim::order().allocated(w.device[0], 256, "h");
                    cudasim::order().allocated(w.device[0] + 64, 256, "g");
                    w.offload(w.d2h, w.pinned[0], w.device[0], right ? 256 : 320);
                  });
}

TEST(SeededMistakes, WrongCopyKind) {
  expect_reported("wrong copy kind: 'cudaMemcpyAsync' is given cudaMemcpyHostToDevice for a copy D2H",
                  [](world& w, bool right) {
                    cudaMemcpyAsync(w.pinned[0], w.device[0], world::bytes,
                                    right ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, w.d2h);
                  });
}

TEST(SeededMistakes, KernelGetsAHostPointer) {
  expect_reported("host pointer: pointer 2 of the kernel 'scale' is memory of the host", [](world& w, bool right) {
    std::vector<float> host(world::count);
    w.consume(w.compute, w.device[0], right ? w.device[1] : host.data());
  });
}

TEST(SeededMistakes, KernelGetsMemoryOfAnotherDevice) {
  expect_reported("memory of another device: pointer 2 of the kernel 'scale'", [](world& w, bool right) {
    cudaSetDevice(1);
    float* const foreign = make_device_floats(world::count);
    cudaSetDevice(0);
    w.consume(w.compute, w.device[0], right ? w.device[1] : foreign);
  });
}

TEST(SeededMistakesDeathTest, HostDereferencesADevicePointer) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  world const w;
  EXPECT_DEATH(
      {
        float const volatile* const address = w.device[0];
        float const value = *address;
        std::exit(value == 0 ? 0 : 1);
      },
      "");
  EXPECT_EQ(w.pinned[0][0], 0.0F);
}

// Wrong streams and devices.

TEST(SeededMistakes, KernelOnTheDefaultStream) {
  expect_reported("default stream: cudaLaunchKernelEx",
                  [](world& w, bool right) { w.produce(right ? w.compute : nullptr, w.device[0]); });
}

TEST(SeededMistakes, CopyOnTheDefaultStream) {
  for (cudaStream_t const wrong : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
    expect_reported("default stream: cudaMemcpyAsync",
                    [wrong](world& w, bool right) { w.offload(right ? w.d2h : wrong, w.pinned[0], w.device[0]); });
  }
}

TEST(SeededMistakes, KernelOnAStreamOfAnotherDevice) {
  expect_reported("stream of another device: the kernel 'fill' is launched on the stream 1 of device 0 while device 1",
                  [](world& w, bool right) {
                    cudaSetDevice(right ? 0 : 1);
                    w.produce(w.compute, w.device[0]);
                    cudaSetDevice(0);
                  });
}

TEST(SeededMistakes, EventRecordedOnAStreamOfAnotherDevice) {
  expect_reported("stream of another device: cudaEventRecord", [](world& w, bool right) {
    cudaSetDevice(right ? 0 : 1);
    cudaEvent_t const event = make_event();
    cudaSetDevice(0);
    cudaEventRecord(event, w.compute);
    cudaEventDestroy(event);
  });
}

TEST(SeededMistakes, DeviceSynchronise) {
  expect_reported("device synchronisation: cudaDeviceSynchronize", [](world& w, bool right) {
    w.produce(w.compute, w.device[0]);
    right ? cudaStreamSynchronize(w.compute) : cudaDeviceSynchronize();
  });
}

TEST(SeededMistakes, ElapsedTimeOfEventsWithoutTiming) {
  expect_reported("event without timing", [](world& w, bool right) {
    cudaEvent_t const events[2] = {make_event(right ? cudaEventDefault : cudaEventDisableTiming),
                                   make_event(cudaEventDefault)};
    for (auto* each : events) cudaEventRecord(each, w.compute);
    cudaStreamSynchronize(w.compute);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, events[0], events[1]);
  });
}

TEST(SeededMistakes, ApiCallInAHostFunction) {
  expect_reported("API call in a host function: cudaGetDevice", [](world& w, bool right) {
    int device = 0;
    auto const ask = [](void* argument) { cudaGetDevice(static_cast<int*>(argument)); };
    auto const add = [](void* argument) { ++*static_cast<int*>(argument); };
    cudaLaunchHostFunc(w.compute, right ? static_cast<cudaHostFn_t>(add) : ask, &device);
    cudaStreamSynchronize(w.compute);
  });
}

// Capture.

TEST(SeededMistakes, AllocationWhileAStreamCaptures) {
  expect_reported("forbidden while capturing: cudaMalloc", [](world& w, bool right) {
    float* x = nullptr;
    if (right) cudaMalloc(&x, 64);
    cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeGlobal);
    if (!right) cudaMalloc(&x, 64);
    w.produce(w.compute, w.device[0]);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(w.compute, &graph), right ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaFree(x);
  });
}

TEST(SeededMistakes, QueryOfACapturedEvent) {
  expect_reported("forbidden while capturing: cudaEventQuery", [](world& w, bool right) {
    cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeRelaxed);
    cudaEventRecord(w.events[0], w.compute);
    cudaEventQuery(w.events[right ? 1 : 0]);
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(w.compute, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
  });
}

// Products.

TEST(SeededMistakes, ProductWithoutAWorkspace) {
  expect_reported("product without a workspace: cublasGemmEx", [](world& w, bool right) {
    cublasHandle_t handle = nullptr;
    cublasCreate(&handle);
    float* const workspace = make_device_floats(64);
    // Setting the stream takes the workspace away.
    if (!right) cublasSetWorkspace(handle, workspace, 256);
    cublasSetStream(handle, w.compute);
    if (right) cublasSetWorkspace(handle, workspace, 256);
    float const one = 1;
    float const zero = 0;
    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, w.device[0], CUDA_R_32F, 8, w.device[0] + 64,
                 CUDA_R_32F, 8, &zero, w.device[1], CUDA_R_32F, 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cudaStreamSynchronize(w.compute);
    cublasDestroy(handle);
    cudaFree(workspace);
  });
}

}  // namespace
}  // namespace cuda_test
