// Bytes that LibTorch holds on the CPU, now and at most: an allocator that counts and leaves the rest to the one
// before.
#pragma once

#include <c10/core/CPUAllocator.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

class counting_allocator final : public c10::Allocator {
 public:
  /// In force from now on, for the rest of the program.
  static counting_allocator& install() {
    static counting_allocator only;
    c10::SetCPUAllocator(&only, 255);
    return only;
  }

  void start() noexcept { peak_ = now_.load(); }
  [[nodiscard]] std::size_t peak_bytes() const noexcept { return peak_; }

#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(std::size_t bytes) override { return count(bytes); }
  void copy_data(void* to, void const* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
#else
  c10::DataPtr allocate(std::size_t bytes) const override {
    return const_cast<counting_allocator*>(this)->count(bytes);
  }
#endif

 private:
  struct piece {
    counting_allocator* by;
    std::size_t bytes;
    c10::DataPtr memory;
  };

  c10::DataPtr count(std::size_t bytes) {
    auto held = std::make_unique<piece>(piece{this, bytes, before_->allocate(bytes)});
    std::size_t const now = now_ += bytes;
    std::size_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    void* const address = held->memory.get();
    return {address, held.release(), &end, c10::Device(c10::kCPU)};
  }
  static void end(void* context) {
    std::unique_ptr<piece> const gone(static_cast<piece*>(context));
    gone->by->now_ -= gone->bytes;
  }

  c10::Allocator* before_ = c10::GetCPUAllocator();
  std::atomic<std::size_t> now_{0};
  std::atomic<std::size_t> peak_{0};
};
