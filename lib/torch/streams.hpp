// The seam between LibTorch's streams and Ferry's: which stream the session is called with, and how both are ordered.
//
// On the CPU an operation is over when it returns, so there is one stream on which nothing ever runs but waits for
// transfers. On a GPU it is the current stream of the tensor's device, or, where that is CUDA's default stream, a
// stream of Ferry's own that is ordered with it by events.
// Threads: whoever holds the state's lock.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <memory>

#include "ferry/device.hpp"

namespace ferry::torch::detail {

class stream_bridge {
 public:
  stream_bridge() = default;
  stream_bridge(stream_bridge const&) = delete;
  stream_bridge& operator=(stream_bridge const&) = delete;
  virtual ~stream_bridge() = default;

  /// The LibTorch device whose tensors the session takes.
  [[nodiscard]] virtual c10::Device torch_device() const noexcept = 0;
  /// A stream of the session's device; what is enqueued there comes after LibTorch's work so far.
  [[nodiscard]] virtual stream_ref enter() = 0;
  /// LibTorch's work from now on comes after what has been enqueued on the stream.
  virtual void leave(stream_ref stream) = 0;
  /// The session is done with adopted memory once the event is: what LibTorch puts there next comes after it.
  virtual void order_reuse(event_ref done, c10::Storage const& memory) = 0;
  /// LibTorch's work runs on the stream until what this gives is destroyed: for a recipe.
  [[nodiscard]] virtual std::shared_ptr<void> run_on(stream_ref stream) = 0;
};

/// Throws: `invalid_argument` for a device whose memory no LibTorch tensor can be in.
[[nodiscard]] std::unique_ptr<stream_bridge> make_stream_bridge(device& on);

/// Null unless the device is a GPU; only there where LibTorch has CUDA.
[[nodiscard]] std::unique_ptr<stream_bridge> make_cuda_stream_bridge(device& on);

}  // namespace ferry::torch::detail
