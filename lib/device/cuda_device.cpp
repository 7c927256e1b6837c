// The CUDA device: memory (cuda_memory.hpp), streams and events (cuda_stream.hpp) of one GPU.
//
// Ownership: the device owns everything it hands out; refs carry plain pointers into it. Streams and events stay until
// the device dies, because tickets point at them.
// Threads: any. Memory and the lists of streams and events each have a lock of their own; none of them is taken when
// work is enqueued or an event is recorded, waited for or queried.
#include "ferry/cuda_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "device/cuda_calibration.hpp"
#include "device/cuda_error.hpp"
#include "device/cuda_memory.hpp"
#include "device/cuda_presence.hpp"
#include "device/cuda_stream.hpp"
#include "device/memory_names.hpp"
#include "device/native.hpp"
#include "support/log.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace ferry {

namespace {

using cuda::gpu_event;
using cuda::gpu_stream;

class cuda_device_implementation final : public cuda_device {
 public:
  cuda_device_implementation(cuda_device_options const& options, cuda_description const& gpu);
  ~cuda_device_implementation() override;

  [[nodiscard]] device_capabilities const& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] int ordinal() const noexcept override { return ordinal_; }
  [[nodiscard]] int architecture() const noexcept override { return architecture_; }
  [[nodiscard]] std::string lost() const override { return state_.why(); }

  [[nodiscard]] void* allocate(memory_space space, std::size_t bytes) override;
  void deallocate(memory_space space, void* address) noexcept override;

  [[nodiscard]] stream_ref create_stream(stream_kind kind, label const& name) override;
  void destroy_stream(stream_ref stream) noexcept override;
  [[nodiscard]] stream_ref adopt_stream(void* handle) override;
  [[nodiscard]] void* native_handle(stream_ref stream) override { return own(stream).native(); }
  [[nodiscard]] event_ref create_event(event_timing timing) override;
  void destroy_event(event_ref event) noexcept override;

  void launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
              unique_function<void()> work) override;
  void copy(stream_ref stream, label const& name, copy_direction direction, void* to, void const* from,
            std::size_t bytes) override;
  void record(event_ref event, stream_ref stream) override { own(stream).record(own(event)); }
  void wait(stream_ref stream, event_ref event) override { own(stream).wait(own(event)); }
  [[nodiscard]] event_status query(event_ref event) override;
  void synchronize(event_ref event) override;
  void synchronize(stream_ref stream) override { own(stream).synchronize(); }
  void drain(stream_ref stream) noexcept override {
    if (stream && stream.owner() == this) own(stream).drain();
  }
  [[nodiscard]] double elapsed_us(event_ref from, event_ref to) override;

  [[nodiscard]] order_hooks* order() noexcept override { return order_; }

  void set_speed(cuda::measured_speed const& speed) noexcept {
    capabilities_.device_to_host_gbps = speed.device_to_host;
    capabilities_.host_to_device_gbps = speed.host_to_device;
    capabilities_.beside.out_beside_back = speed.out_beside_back;
    capabilities_.beside.back_beside_out = speed.back_beside_out;
  }

 private:
  [[nodiscard]] gpu_stream& own(stream_ref stream) const { return native_of<gpu_stream>(*this, stream, "stream"); }
  [[nodiscard]] gpu_event& own(event_ref event) const { return native_of<gpu_event>(*this, event, "event"); }
  void require_measurable(gpu_event const& event);
  void wait_for_what_runs() noexcept;
  [[nodiscard]] cuda::stream_surroundings surroundings() { return {ordinal_, state_, work_->books}; }

  int const ordinal_;
  int const architecture_;
  device_capabilities capabilities_;
  order_hooks* const order_;
  support::logger log_{log_level::warning};

  /// What host functions look at, which CUDA may run late.
  struct working_state {
    cuda::health health;
    std::mutex books;
    std::deque<gpu_stream> streams;
  };
  std::unique_ptr<working_state> work_ = std::make_unique<working_state>();
  cuda::health& state_ = work_->health;
  cuda::bounded_memory device_memory_;
  cuda::bounded_memory pinned_memory_;

  std::mutex events_mutex_;
  std::deque<gpu_event> events_;
  std::vector<gpu_event*> spare_events_[2];  // by timing
  std::mutex streams_mutex_;
};

/// Elsewhere in the process a trainer may be capturing a graph, in a mode in which CUDA forbids every thread to ask how
/// far work is. Events of Ferry's are in no capture, so asking for them harms none.
cudaError_t query_beside_captures(cudaEvent_t event) {
  auto mode = cudaStreamCaptureModeRelaxed;
  bool const changed = cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess;
  auto const status = cudaEventQuery(event);
  if (changed) static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
  return status;
}

/// Never freed, and a leak checker is told that this is meant.
template <typename Object>
void leave_behind(std::unique_ptr<Object> object) noexcept {
  [[maybe_unused]] Object* const left = object.release();
#if defined(__SANITIZE_ADDRESS__)
  __lsan_ignore_object(left);
#endif
}

std::size_t half_of_machine_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) / 2 * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t pinned_limit(cuda_device_options const& options) {
  if (!options.pinned.empty()) return options.pinned.size();
  return options.pinned_bytes != 0 ? options.pinned_bytes : half_of_machine_bytes();
}

std::size_t device_limit(cuda_device_options const& options, cuda_description const& gpu) {
  return options.device_bytes != 0 ? options.device_bytes : gpu.free_bytes;
}

cuda_device_implementation::cuda_device_implementation(cuda_device_options const& options, cuda_description const& gpu)
    : ordinal_(options.ordinal),
      architecture_(gpu.architecture),
      capabilities_{.name = fmt::format("cuda:{}", options.ordinal),
                    .device_bytes = device_limit(options, gpu),
                    .pinned_bytes = pinned_limit(options),
                    .recalls_copies = false,
                    .device_to_host_gbps = gpu.device_to_host_gbps,
                    .host_to_device_gbps = gpu.host_to_device_gbps,
                    .beside = gpu.beside},
      order_(options.order),
      device_memory_(memory_space::device, capabilities_.device_bytes, capabilities_.name,
                     make_device_source(options, state_)),
      pinned_memory_(memory_space::pinned, capabilities_.pinned_bytes, capabilities_.name,
                     make_pinned_source(options, gpu.numa_node, state_)) {}

cuda_device_implementation::~cuda_device_implementation() {
  // All of them before an event or a byte goes: they may be waiting for each other.
  for (auto& stream : work_->streams) stream.close();
  for (auto& event : events_) state_.succeeded(cudaEventDestroy(event.native));
  if (std::ranges::none_of(work_->streams, &gpu_stream::has_calls)) return;
  // CUDA has failed to say when it is done. It may call yet, and must find what it was given.
  for (auto& stream : work_->streams) stream.abandon();
  leave_behind(std::move(work_));
}

void* cuda_device_implementation::allocate(memory_space space, std::size_t bytes) {
  state_.check();
  return space == memory_space::device ? device_memory_.allocate(bytes) : pinned_memory_.allocate(bytes);
}

void cuda_device_implementation::deallocate(memory_space space, void* address) noexcept {
  if (address == nullptr) return;
  if (state_.is_lost()) wait_for_what_runs();
  bool const known =
      space == memory_space::device ? device_memory_.deallocate(address) : pinned_memory_.deallocate(address);
  if (!known) {
    log_.warning("{} is no {} of this device: freed twice, or in the wrong space; ignored", address,
                 names_of(space).words);
  }
}

/// A lost device may still be at work, and whoever frees memory of it could not find out. CUDA may not tell either.
void cuda_device_implementation::wait_for_what_runs() noexcept {
  std::lock_guard const lock(streams_mutex_);
  for (auto& stream : work_->streams) {
    if (stream.is_open()) state_.succeeded(cudaStreamSynchronize(stream.native()));
  }
}

stream_ref cuda_device_implementation::create_stream(stream_kind kind, label const& name) {
  state_.check();
  std::lock_guard const lock(streams_mutex_);
  return {*this, &work_->streams.emplace_back(kind, name, surroundings())};
}

void cuda_device_implementation::destroy_stream(stream_ref stream) noexcept {
  if (stream && stream.owner() == this) own(stream).close();
}

stream_ref cuda_device_implementation::adopt_stream(void* handle) {
  auto const native = static_cast<cudaStream_t>(handle);
  if (native == nullptr || native == cudaStreamLegacy || native == cudaStreamPerThread) {
    throw invalid_argument(
        "a default stream was handed in, which waits for all others or belongs to a thread; make one with "
        "cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)");
  }
  std::lock_guard const lock(streams_mutex_);
  auto const known = std::ranges::find_if(work_->streams, [&](gpu_stream& each) { return each.native() == native; });
  if (known == work_->streams.end()) return {*this, &work_->streams.emplace_back(native, "borrowed", surroundings())};
  known->reopen();
  return {*this, &*known};
}

event_ref cuda_device_implementation::create_event(event_timing timing) {
  state_.check();
  std::lock_guard const lock(events_mutex_);
  auto& spare = spare_events_[static_cast<std::size_t>(timing)];
  if (spare.empty()) {
    spare.reserve(events_.size() + 1);  // so that destroying an event never allocates
    cuda::current_device const current(ordinal_);
    cudaEvent_t made = nullptr;
    unsigned const flags = timing == event_timing::on ? cudaEventDefault : cudaEventDisableTiming;
    state_.require(cudaEventCreateWithFlags(&made, flags), "cudaEventCreateWithFlags");
    auto& event = events_.emplace_back();
    event.native = made;
    event.timing = timing;
    spare.push_back(&event);
  }
  auto* const taken = spare.back();
  spare.pop_back();
  return {*this, taken};
}

void cuda_device_implementation::destroy_event(event_ref event) noexcept {
  if (!event || event.owner() != this) return;
  auto& gone = own(event);
  {
    std::lock_guard const lock(gone.mutex);
    gone.mark = {};
  }
  std::lock_guard const lock(events_mutex_);
  spare_events_[static_cast<std::size_t>(gone.timing)].push_back(&gone);
}

void cuda_device_implementation::launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
                                        unique_function<void()> work) {
  if (!work) throw invalid_argument(fmt::format("the launch '{}' has no function; pass one", name.view()));
  auto& target = own(stream);
  if (order_ != nullptr) order_->announce(name, accesses);
  target.launch(name, std::move(work));
}

void cuda_device_implementation::copy(stream_ref stream, label const& name, copy_direction direction, void* to,
                                      void const* from, std::size_t bytes) {
  auto& target = own(stream);
  if (bytes == 0) return;
  if (to == nullptr || from == nullptr) {
    throw invalid_argument(fmt::format("the copy '{}' has a null pointer; pass memory on both sides", name.view()));
  }
  if (order_ != nullptr) order_->announce(name, {});
  target.copy(direction, to, from, bytes);
}

event_status cuda_device_implementation::query(event_ref event) {
  auto& asked = own(event);
  std::lock_guard const lock(asked.mutex);
  if (asked.mark.stream == nullptr) return event_status::complete;
  if (state_.is_lost()) return event_status::failed;
  auto const status = query_beside_captures(asked.native);
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // CUDA remembers it as an error, and a trainer may ask for the last one
    return event_status::pending;
  }
  try {
    state_.require_known(status, "cudaEventQuery");
  } catch (cuda_error const&) {
    return event_status::failed;  // whoever enqueues or synchronises next is told why
  }
  return asked.mark.stream->failed_at(asked.mark.sequence) ? event_status::failed : event_status::complete;
}

void cuda_device_implementation::synchronize(event_ref event) {
  auto& awaited = own(event);
  cuda::ticket mark;
  {
    std::lock_guard const lock(awaited.mutex);
    mark = awaited.mark;
  }
  state_.check();
  if (mark.stream == nullptr) return;
  state_.require_known(cudaEventSynchronize(awaited.native), "cudaEventSynchronize");
  mark.stream->report(mark.sequence);
}

double cuda_device_implementation::elapsed_us(event_ref from, event_ref to) {
  auto const& first = own(from);
  auto const& last = own(to);
  require_measurable(first);
  require_measurable(last);
  float milliseconds = 0;
  state_.require(cudaEventElapsedTime(&milliseconds, first.native, last.native), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e3;
}

void cuda_device_implementation::require_measurable(gpu_event const& event) {
  if (event.timing == event_timing::off) {
    throw invalid_argument("elapsed time of an event without timing; create it with event_timing::on");
  }
  bool const recorded = [&] {
    std::lock_guard const lock(event.mutex);
    return event.mark.stream != nullptr;
  }();
  auto& asked = const_cast<gpu_event&>(event);
  if (!recorded || query({*this, &asked}) != event_status::complete) {
    throw invalid_argument("elapsed time of an event that is not complete; record and synchronize it first");
  }
}

/// Measures the link if nobody has: later sessions begin with its speed.
void calibrate(cuda_device_implementation& made, cuda_description const& gpu) {
  if (gpu.device_to_host_gbps > 0) return;
  auto const speed = cuda::measure_speed(made);
  made.set_speed(speed);
  cuda::remember_speed(gpu, speed);
}

}  // namespace

std::unique_ptr<cuda_device> make_cuda_device(cuda_device_options options) {
  int const count = cuda::require_gpus();
  if (options.ordinal < 0 || options.ordinal >= count) {
    throw no_cuda(fmt::format("cuda:{}: this machine has {} GPU{}, counted from cuda:0", options.ordinal, count,
                              count == 1 ? "" : "s"));
  }
  auto const gpu = cuda::describe(options.ordinal);
  auto made = std::make_unique<cuda_device_implementation>(options, gpu);
  if (options.calibrate) calibrate(*made, gpu);
  return made;
}

}  // namespace ferry
