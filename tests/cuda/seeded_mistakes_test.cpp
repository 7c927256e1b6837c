// Wrong programs, written against CUDA's API as a trainer would: each is reported with a text that names its mistake,
// whatever the timing, and is silent once it is put right. Here: order between streams, and lifetimes.
#include <cublas_v2.h>
#include <gtest/gtest.h>

#include <vector>

#include "seeded.hpp"

namespace cuda_test {
namespace {

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

}  // namespace
}  // namespace cuda_test
