#include "ferry/nn/staging.hpp"

#include <algorithm>
#include <cstring>

namespace ferry::nn {

void staging::upload(void* to, void const* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    std::size_t const part = std::min(bytes - done, buffer_.bytes());
    if (auto* const order = device_.order()) order->host_access(writes(buffer_.data(), part), "stage");
    std::memcpy(buffer_.data(), static_cast<std::byte const*>(from) + done, part);
    device_.copy(stream_, "upload", copy_direction::host_to_device, static_cast<std::byte*>(to) + done, buffer_.data(),
                 part);
    device_.synchronize(stream_);
    done += part;
  }
}

void staging::download(void* to, void const* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    std::size_t const part = std::min(bytes - done, buffer_.bytes());
    device_.copy(stream_, "download", copy_direction::device_to_host, buffer_.data(),
                 static_cast<std::byte const*>(from) + done, part);
    device_.synchronize(stream_);
    if (auto* const order = device_.order()) order->host_access(reads(buffer_.data(), part), "unstage");
    std::memcpy(static_cast<std::byte*>(to) + done, buffer_.data(), part);
    done += part;
  }
}

}  // namespace ferry::nn
