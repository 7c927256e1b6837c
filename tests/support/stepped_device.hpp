// The CUDA device over the emulated runtime in stepped mode, with the emulation's clock for its own: whoever waits for
// it lets virtual time pass, as on the sim device, and everything above it runs without a thread.
//
// Owns the device that it passes calls on to, and is the owner of all refs that it hands out. Threads: any; the same
// calls of one thread give the same run.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cudasim/cudasim.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/sim_device.hpp"

namespace ferry::testing {

/// What work takes on the clock.
struct stepped_costs {
  std::function<std::chrono::nanoseconds(label const& name)> launch;
  std::function<std::chrono::nanoseconds(std::string_view kind, std::size_t bytes)> copy;
};

class stepped_device final : public cuda_device {
 public:
  /// Requires: the emulation was reset to stepped mode, and is not reset while this lives.
  stepped_device(cuda_device_options const& options, stepped_costs costs)
      : inner_(make_cuda_device(options)), costs_(std::move(costs)) {
    cudasim::set_operation_cost([this](std::string_view kind, std::size_t bytes) {
      return kind == "host function" ? launch_cost_.load() : costs_.copy(kind, bytes);
    });
  }
  ~stepped_device() override {
    inner_.reset();
    cudasim::set_operation_cost({});
  }

  [[nodiscard]] device_capabilities const& capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] int ordinal() const noexcept override { return inner_->ordinal(); }
  [[nodiscard]] int architecture() const noexcept override { return inner_->architecture(); }
  [[nodiscard]] std::string lost() const override { return inner_->lost(); }

  [[nodiscard]] void* allocate(memory_space space, std::size_t bytes) override {
    return inner_->allocate(space, bytes);
  }
  void deallocate(memory_space space, void* address) noexcept override { inner_->deallocate(space, address); }

  [[nodiscard]] stream_ref create_stream(stream_kind kind, label const& name) override {
    return own(inner_->create_stream(kind, name));
  }
  void destroy_stream(stream_ref stream) noexcept override { inner_->destroy_stream(inner(stream)); }
  [[nodiscard]] stream_ref adopt_stream(void* handle) override { return own(inner_->adopt_stream(handle)); }
  [[nodiscard]] void* native_handle(stream_ref stream) override { return inner_->native_handle(inner(stream)); }
  [[nodiscard]] event_ref create_event(event_timing timing) override { return own(inner_->create_event(timing)); }
  void destroy_event(event_ref event) noexcept override { inner_->destroy_event(inner(event)); }

  void launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
              unique_function<void()> work) override {
    launch_cost_ = costs_.launch(name);
    inner_->launch(inner(stream), name, accesses, std::move(work));
  }
  void copy(stream_ref stream, label const& name, copy_direction direction, void* to, void const* from,
            std::size_t bytes) override {
    inner_->copy(inner(stream), name, direction, to, from, bytes);
  }
  void record(event_ref event, stream_ref stream) override { inner_->record(inner(event), inner(stream)); }
  void wait(stream_ref stream, event_ref event) override { inner_->wait(inner(stream), inner(event)); }
  [[nodiscard]] event_status query(event_ref event) override { return inner_->query(inner(event)); }
  void synchronize(event_ref event) override { inner_->synchronize(inner(event)); }
  void synchronize(stream_ref stream) override { inner_->synchronize(inner(stream)); }
  void drain(stream_ref stream) noexcept override { inner_->drain(inner(stream)); }
  [[nodiscard]] double elapsed_us(event_ref from, event_ref to) override {
    return inner_->elapsed_us(inner(from), inner(to));
  }

  [[nodiscard]] order_hooks* order() noexcept override { return inner_->order(); }
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return clock_.now(); }
  [[nodiscard]] virtual_time* time() noexcept override { return &clock_; }

 private:
  // Refs of others stay what they are, for the device to refuse.
  template <typename Ref>
  [[nodiscard]] Ref own(Ref of_inner) noexcept {
    return {*this, of_inner.native()};
  }
  template <typename Ref>
  [[nodiscard]] Ref inner(Ref lent) const noexcept {
    return lent.owner() == this ? Ref(*inner_, lent.native()) : lent;
  }

  sim_device& clock_ = cudasim::clock();
  std::unique_ptr<cuda_device> inner_;
  stepped_costs const costs_;
  std::atomic<std::chrono::nanoseconds> launch_cost_{std::chrono::nanoseconds(0)};
};

}  // namespace ferry::testing
