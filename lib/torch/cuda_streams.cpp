// LibTorch's CUDA streams and Ferry's: the same stream where that can be, else two that events order.
//
// LibTorch works on CUDA's default stream unless the program says otherwise, and Ferry never enqueues anything there:
// so a stream of Ferry's own stands for it, and every crossing is an event. Memory that the session adopted goes back
// to the caching allocator by the stream that it was saved on, which then waits for the session's last use of it.
// Threads: whoever holds the state's lock. Not yet run on a GPU.
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "ferry/cuda_device.hpp"
#include "torch/streams.hpp"

namespace ferry::torch::detail {

namespace {

class cuda_stream_bridge final : public stream_bridge {
 public:
  explicit cuda_stream_bridge(cuda_device& on)
      : device_(on),
        index_(static_cast<c10::DeviceIndex>(on.ordinal())),
        stand_in_(on, stream_kind::compute, "libtorch") {}

  c10::Device torch_device() const noexcept override { return {c10::kCUDA, index_}; }

  stream_ref enter() override {
    auto const current = c10::cuda::getCurrentCUDAStream(index_);
    if (current.stream() != nullptr) return stream_ref::from_native(device_, current.stream());
    order(current, native(stand_in_));
    return stand_in_;
  }

  void leave(stream_ref stream) override {
    auto const current = c10::cuda::getCurrentCUDAStream(index_);
    auto const from = native(stream);
    if (from != current) order(from, current);
  }

  void order_reuse(event_ref done, c10::Storage const& memory) override {
    if (!done || device_.query(done) != event_status::pending) return;
    device_.wait(stand_in_, done);
    auto const current = c10::cuda::getCurrentCUDAStream(index_);
    order(native(stand_in_), current);
    // The block may have been allocated for another stream than the one that has just been made to wait.
    c10::cuda::CUDACachingAllocator::recordStream(memory.data_ptr(), current);
  }

  std::shared_ptr<void> run_on(stream_ref stream) override {
    return std::make_shared<c10::cuda::CUDAStreamGuard>(native(stream));
  }

 private:
  [[nodiscard]] c10::cuda::CUDAStream native(stream_ref stream) {
    return c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(device_.native_handle(stream)), index_);
  }
  static void order(c10::cuda::CUDAStream const& before, c10::cuda::CUDAStream const& after) {
    at::cuda::CUDAEvent mark;
    mark.record(before);
    mark.block(after);
  }

  cuda_device& device_;
  c10::DeviceIndex index_;
  stream stand_in_;
};

}  // namespace

std::unique_ptr<stream_bridge> make_cuda_stream_bridge(device& on) {
  auto* const gpu = dynamic_cast<cuda_device*>(&on);
  return gpu != nullptr ? std::make_unique<cuda_stream_bridge>(*gpu) : nullptr;
}

}  // namespace ferry::torch::detail
