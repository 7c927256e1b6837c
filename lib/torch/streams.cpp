#include "torch/streams.hpp"

#include "ferry/cuda_device.hpp"
#include "ferry/error.hpp"

namespace ferry::torch::detail {

namespace {

class cpu_stream_bridge final : public stream_bridge {
 public:
  explicit cpu_stream_bridge(device& on) : device_(on), stream_(on, stream_kind::compute, "libtorch") {}

  c10::Device torch_device() const noexcept override { return c10::Device(c10::kCPU); }
  stream_ref enter() override { return stream_; }
  void leave(stream_ref stream) override { device_.synchronize(stream); }
  // The engine has seen every copy of the memory complete, and operations on it ended when they returned.
  void order_reuse(event_ref, c10::Storage const&) override {}
  // Operations run at once, on this thread: what they read and write must be there, and out of use.
  std::shared_ptr<void> run_on(stream_ref stream) override {
    device_.synchronize(stream);
    return nullptr;
  }

 private:
  device& device_;
  stream stream_;
};

}  // namespace

#if !defined(FERRY_TORCH_CUDA)
std::unique_ptr<stream_bridge> make_cuda_stream_bridge(device& on) {
  if (dynamic_cast<cuda_device*>(&on) == nullptr) return nullptr;
  throw invalid_argument(
      "the session is on a GPU, but this LibTorch has no CUDA; set FERRY_DEVICE=host for CPU tensors");
}
#endif

std::unique_ptr<stream_bridge> make_stream_bridge(device& on) {
  if (auto on_gpu = make_cuda_stream_bridge(on)) return on_gpu;
  auto const& has = on.capabilities();
  if (!has.host_addressable || !has.holds_bytes) {
    throw invalid_argument("the memory of device '" + has.name +
                           "' cannot hold tensors; set FERRY_DEVICE=host, or cuda where there is a GPU");
  }
  return std::make_unique<cpu_stream_bridge>(on);
}

}  // namespace ferry::torch::detail
