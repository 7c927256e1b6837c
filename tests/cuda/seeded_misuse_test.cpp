// Wrong programs, as in seeded_mistakes_test.cpp: memory, streams and calls that are not what the API wants.
#include <cublas_v2.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "seeded.hpp"

namespace cuda_test {
namespace {

// Wrong memory.

TEST(SeededMisuse, PageableCopy) {
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

TEST(SeededMisuse, CopyLeavesDeviceMemory) {
  expect_reported("out of range: the copy 'cudaMemcpyAsync' reads 'device memory", [](world& w, bool right) {
    w.offload(w.d2h, w.pinned[0], w.device[0] + 1, right ? world::bytes - 4 : world::bytes);
  });
}

TEST(SeededMisuse, CopyLeavesPinnedMemory) {
  expect_reported("out of range: the copy 'cudaMemcpyAsync' reads 'pinned memory", [](world& w, bool right) {
    w.prefetch(w.h2d, w.device[0], w.pinned[0] + 1, right ? world::bytes - 4 : world::bytes);
  });
}

TEST(SeededMisuse, CopyRunsIntoTheNextBlockOfItsArena) {
  expect_reported("out of range: 'cudaMemcpyAsync' on stream 2 of device 0 reads 320 bytes of 'h'",
                  [](world& w, bool right) {
                    cudasim::order().allocated(w.device[0], 256, "h");
                    cudasim::order().allocated(w.device[0] + 64, 256, "g");
                    w.offload(w.d2h, w.pinned[0], w.device[0], right ? 256 : 320);
                  });
}

TEST(SeededMisuse, WrongCopyKind) {
  expect_reported("wrong copy kind: 'cudaMemcpyAsync' is given cudaMemcpyHostToDevice for a copy D2H",
                  [](world& w, bool right) {
                    cudaMemcpyAsync(w.pinned[0], w.device[0], world::bytes,
                                    right ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, w.d2h);
                  });
}

TEST(SeededMisuse, KernelGetsAHostPointer) {
  expect_reported("host pointer: pointer 2 of the kernel 'scale' is memory of the host", [](world& w, bool right) {
    std::vector<float> host(world::count);
    w.consume(w.compute, w.device[0], right ? w.device[1] : host.data());
  });
}

TEST(SeededMisuse, KernelGetsMemoryOfAnotherDevice) {
  expect_reported("memory of another device: pointer 2 of the kernel 'scale'", [](world& w, bool right) {
    cudaSetDevice(1);
    float* const foreign = make_device_floats(world::count);
    cudaSetDevice(0);
    w.consume(w.compute, w.device[0], right ? w.device[1] : foreign);
  });
}

TEST(SeededMisuseDeathTest, HostDereferencesADevicePointer) {
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

TEST(SeededMisuse, KernelOnTheDefaultStream) {
  expect_reported("default stream: cudaLaunchKernelEx",
                  [](world& w, bool right) { w.produce(right ? w.compute : nullptr, w.device[0]); });
}

TEST(SeededMisuse, CopyOnTheDefaultStream) {
  for (cudaStream_t const wrong : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
    expect_reported("default stream: cudaMemcpyAsync",
                    [wrong](world& w, bool right) { w.offload(right ? w.d2h : wrong, w.pinned[0], w.device[0]); });
  }
}

TEST(SeededMisuse, KernelOnAStreamOfAnotherDevice) {
  expect_reported("stream of another device: the kernel 'fill' is launched on the stream 1 of device 0 while device 1",
                  [](world& w, bool right) {
                    cudaSetDevice(right ? 0 : 1);
                    w.produce(w.compute, w.device[0]);
                    cudaSetDevice(0);
                  });
}

TEST(SeededMisuse, EventRecordedOnAStreamOfAnotherDevice) {
  expect_reported("stream of another device: cudaEventRecord", [](world& w, bool right) {
    cudaSetDevice(right ? 0 : 1);
    cudaEvent_t const event = make_event();
    cudaSetDevice(0);
    cudaEventRecord(event, w.compute);
    cudaEventDestroy(event);
  });
}

TEST(SeededMisuse, DeviceSynchronise) {
  expect_reported("device synchronisation: cudaDeviceSynchronize", [](world& w, bool right) {
    w.produce(w.compute, w.device[0]);
    right ? cudaStreamSynchronize(w.compute) : cudaDeviceSynchronize();
  });
}

TEST(SeededMisuse, ElapsedTimeOfEventsWithoutTiming) {
  expect_reported("event without timing", [](world& w, bool right) {
    cudaEvent_t const events[2] = {make_event(right ? cudaEventDefault : cudaEventDisableTiming),
                                   make_event(cudaEventDefault)};
    for (auto* each : events) cudaEventRecord(each, w.compute);
    cudaStreamSynchronize(w.compute);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, events[0], events[1]);
  });
}

TEST(SeededMisuse, ApiCallInAHostFunction) {
  expect_reported("API call in a host function: cudaGetDevice", [](world& w, bool right) {
    int device = 0;
    auto const ask = [](void* argument) { cudaGetDevice(static_cast<int*>(argument)); };
    auto const add = [](void* argument) { ++*static_cast<int*>(argument); };
    cudaLaunchHostFunc(w.compute, right ? static_cast<cudaHostFn_t>(add) : ask, &device);
    cudaStreamSynchronize(w.compute);
  });
}

// Capture.

TEST(SeededMisuse, AllocationWhileAStreamCaptures) {
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

TEST(SeededMisuse, QueryOfACapturedEvent) {
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

TEST(SeededMisuse, ProductWithoutAWorkspace) {
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
