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
    c10::SetCPUAllocator(&only(), 255);
    return only();
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
  static constexpr std::size_t header_bytes = 64;  // as aligned as LibTorch wants its memory

  /// LibTorch also frees by the address alone, so the size stands before it.
  c10::DataPtr count(std::size_t bytes) {
    c10::Device const here(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, here};
    auto* const whole = static_cast<std::byte*>(before_->raw_allocate(header_bytes + bytes));
    std::memcpy(whole, &bytes, sizeof bytes);
    std::size_t const now = now_ += bytes;
    std::size_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    return {whole + header_bytes, whole + header_bytes, &end, here};
  }
  static void end(void* address) {
    if (address == nullptr) return;
    auto& by = only();
    auto* const whole = static_cast<std::byte*>(address) - header_bytes;
    std::size_t bytes = 0;
    std::memcpy(&bytes, whole, sizeof bytes);
    by.now_ -= bytes;
    by.before_->raw_deallocate(whole);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &end; }
  static counting_allocator& only() {
    static auto* const made = new counting_allocator;  // tensors may outlive every destructor
    return *made;
  }

  c10::Allocator* before_ = c10::GetCPUAllocator();
  std::atomic<std::size_t> now_{0};
  std::atomic<std::size_t> peak_{0};
};
