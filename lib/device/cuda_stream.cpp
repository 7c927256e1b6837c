#include "device/cuda_stream.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

namespace ferry::cuda {

gpu_stream::gpu_stream(stream_kind kind, label const& name, stream_surroundings const& around)
    : name_(name), around_(around), owned_(true) {
  current_device const current(around.ordinal);
  // Copies go before kernels where the two compete: a chunk is short, and what waits for it is not.
  int least = 0;
  int greatest = 0;
  around.state.require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  int const priority = kind == stream_kind::copy ? greatest : least;
  around.state.require(cudaStreamCreateWithPriority(&native_, cudaStreamNonBlocking, priority),
                       "cudaStreamCreateWithPriority");
}

gpu_stream::gpu_stream(cudaStream_t borrowed, label const& name, stream_surroundings const& around)
    : name_(name), around_(around), owned_(false), native_(borrowed) {}

void gpu_stream::close() noexcept {
  if (!open_.exchange(false)) return;
  around_.state.succeeded(cudaStreamSynchronize(native_));
  if (owned_) around_.state.succeeded(cudaStreamDestroy(native_));
}

void gpu_stream::require_open() const {
  around_.state.check();
  if (!is_open()) throw invalid_argument(fmt::format("the stream '{}' was destroyed; use a live one", name_.view()));
}

// Enqueueing.

void gpu_stream::launch(label const& name, unique_function<void()> work) {
  require_open();
  keeps_books_.store(true);
  host_call& call = take_call();
  call.name = name;
  call.work = std::move(work);
  std::lock_guard const lock(producers_);
  call.sequence = submitted_.fetch_add(1) + 1;
  auto const status = cudaLaunchHostFunc(native_, &gpu_stream::run, &call);
  if (status != cudaSuccess) give_back(call);
  around_.state.require(status, "cudaLaunchHostFunc");
}

void gpu_stream::copy(copy_direction direction, void* to, void const* from, std::size_t bytes) {
  require_open();
  auto const kind = direction == copy_direction::device_to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
  around_.state.require(cudaMemcpyAsync(to, from, bytes, kind, native_), "cudaMemcpyAsync");
  submitted_.fetch_add(1);
}

void gpu_stream::record(gpu_event& event) {
  require_open();
  std::lock_guard const lock(event.mutex);
  around_.state.require(cudaEventRecord(event.native, native_), "cudaEventRecord");
  event.mark = {this, submitted_.load()};
}

void gpu_stream::wait(gpu_event& event) {
  require_open();
  std::lock_guard const lock(event.mutex);
  if (event.mark.stream == nullptr) return;
  around_.state.require(cudaStreamWaitEvent(native_, event.native, 0), "cudaStreamWaitEvent");
  if (!event.mark.stream->keeps_books_.load()) return;
  keeps_books_.store(true);
  std::lock_guard const held(around_.books);
  waits_.push_back({submitted_.fetch_add(1) + 1, event.mark});
}

// Host functions, on a thread of CUDA's, which must not call CUDA.

gpu_stream::host_call& gpu_stream::take_call() {
  std::lock_guard const lock(calls_mutex_);
  if (spare_calls_.empty()) {
    spare_calls_.reserve(calls_.size() + 1);  // so that giving one back never allocates
    spare_calls_.push_back(&calls_.emplace_back());
    spare_calls_.back()->stream = this;
  }
  host_call* const taken = spare_calls_.back();
  spare_calls_.pop_back();
  ++calls_under_way_;
  return *taken;
}

void gpu_stream::give_back(host_call& call) noexcept {
  call.work.reset();
  std::lock_guard const lock(calls_mutex_);
  spare_calls_.push_back(&call);
  --calls_under_way_;
}

void gpu_stream::run(void* call) noexcept {
  auto& next = *static_cast<host_call*>(call);
  next.stream->run(next);
}

void gpu_stream::run(host_call& call) noexcept {
  auto const failed = [&](char const* cause) {
    failures_.fail(call.sequence, {call.name.str(), fmt::format("the operation '{}' failed on the stream '{}': {}",
                                                                call.name.view(), name_.view(), cause)});
  };
  try {
    if (!abandoned_.load() && !failed_at(call.sequence)) call.work();
  } catch (std::exception const& cause) {
    failed(cause.what());
  } catch (...) {
    failed("an exception that is no std::exception");
  }
  give_back(call);  // captures are gone before anybody can see that the operation is done
}

// Failures.

/// What others' failures mean for this stream: everything from the wait on has failed too. Requires: the work up to
/// there is over; the device's books held.
void gpu_stream::take_in_waits(std::uint64_t up_to) {
  while (!waits_.empty() && waits_.front().sequence <= up_to) {
    // Taken out first: the stream that was waited for may have waited for this one before.
    awaited const next = waits_.front();
    waits_.pop_front();
    if (next.mark.stream == this) continue;
    next.mark.stream->take_in_waits(next.mark.sequence);
    auto failed = next.mark.stream->failures_.failure_at(next.mark.sequence);
    if (!failed || failures_.failed_at(next.sequence)) continue;
    failed->why.message += fmt::format("; the stream '{}' waited for it", name_.view());
    failures_.fail(next.sequence, std::move(failed->why));
  }
}

bool gpu_stream::failed_at(std::uint64_t sequence) {
  if (!keeps_books_.load()) return false;
  std::lock_guard const held(around_.books);
  take_in_waits(sequence);
  return failures_.failed_at(sequence);
}

void gpu_stream::synchronize() {
  require_open();
  auto const sequence = submitted_.load();
  around_.state.require_known(cudaStreamSynchronize(native_), "cudaStreamSynchronize");
  if (!failed_at(sequence)) return;
  if (auto const seen = failures_.unreported(sequence)) report(*seen);
}

void gpu_stream::drain() noexcept {
  if (!is_open() || around_.state.is_lost()) return;
  try {
    around_.state.require_known(cudaStreamSynchronize(native_), "cudaStreamSynchronize");
  } catch (cuda_error const&) {
    // Whoever calls next is told.
  }
}

void gpu_stream::report(std::uint64_t sequence) {
  if (!failed_at(sequence)) return;
  if (auto const seen = failures_.failure_at(sequence)) report(*seen);
}

/// Throws what failed, and makes the stream usable again: host functions enqueued so far stay skipped.
void gpu_stream::report(failure_log::entry const& seen) {
  if (!seen.reported && is_open()) {
    // Nothing of what was skipped is left in the queue when the caller goes on: failed work is over. A number of its
    // own ends the failure, so that an event recorded next lies outside of it.
    around_.state.require_known(cudaStreamSynchronize(native_), "cudaStreamSynchronize");
    failures_.close(submitted_.fetch_add(1) + 1);
  }
  throw stream_error(seen.why.operation, seen.why.message);
}

}  // namespace ferry::cuda
