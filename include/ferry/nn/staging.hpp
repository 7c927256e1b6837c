// Numbers between the host's ordinary memory and the device, by way of pinned memory.
#pragma once

#include <cstddef>
#include <span>

#include "ferry/device.hpp"
#include "ferry/export.h"

namespace ferry::nn {

/// A pinned buffer and the stream that copies through it. Calls return when the copy is done.
class staging {
 public:
  static constexpr std::size_t default_bytes = std::size_t{4} << 20;

  staging(device& on, stream_ref stream, std::size_t bytes = default_bytes)
      : device_(on), stream_(stream), buffer_(on, memory_space::pinned, bytes) {}

  FERRY_API void upload(void* to, void const* from, std::size_t bytes);
  FERRY_API void download(void* to, void const* from, std::size_t bytes);

 private:
  device& device_;
  stream_ref stream_;
  memory buffer_;
};

}  // namespace ferry::nn
