// A stream of the CUDA device, its events, and what failed on it.
//
// An event is a CUDA event and a ticket: the stream it was recorded on, and how many operations that stream had been
// given by then. CUDA knows whether the marked work is over; the ticket tells whether it failed. Only host functions
// can fail without the whole device being lost, by throwing: what is ordered behind one that did is skipped if it is a
// host function too, and its marks have failed. So streams keep books only once a host function was launched on them,
// or on one that they wait for; a trainer who launches kernels himself never pays for that.
//
// Ownership: the device owns streams and events and keeps both until it dies, so that a ticket never dangles.
// Threads: any. Locks are taken in the order stream, event, books.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>
#include <tbb/spin_mutex.h>

#include "device/cuda_error.hpp"
#include "device/failure_log.hpp"
#include "ferry/device.hpp"

namespace ferry::cuda {

class gpu_stream;

struct ticket {
  gpu_stream* stream = nullptr;  ///< null: never recorded
  std::uint64_t sequence = 0;    ///< the last operation before the mark, counted from 1
};

/// `mark` and what `native` was recorded for are guarded by `mutex`.
struct gpu_event {
  mutable tbb::spin_mutex mutex;
  cudaEvent_t native = nullptr;
  event_timing timing = event_timing::off;
  ticket mark;
};

/// What all streams of one device share; lives with them.
struct stream_surroundings {
  int ordinal = 0;
  health& state;
  std::mutex& books;  ///< guards who waits for whom, of all streams of the device
};

class gpu_stream {
 public:
  /// A stream of the device's own.
  gpu_stream(stream_kind kind, label const& name, stream_surroundings const& around);
  /// One of the trainer's, which stays his.
  gpu_stream(cudaStream_t borrowed, label const& name, stream_surroundings const& around);
  gpu_stream(gpu_stream const&) = delete;
  gpu_stream& operator=(gpu_stream const&) = delete;
  ~gpu_stream() { close(); }

  /// Waits for its work and destroys it, unless it is borrowed.
  void close() noexcept;

  [[nodiscard]] cudaStream_t native() const noexcept { return native_; }
  [[nodiscard]] bool is_open() const noexcept { return open_.load(); }
  [[nodiscard]] label const& name() const noexcept { return name_; }
  void reopen() noexcept { open_.store(true); }
  /// CUDA has host functions of this stream that have not run. Once closed: CUDA could not say that they have.
  [[nodiscard]] bool has_calls() const noexcept { return calls_under_way_.load() > 0; }
  /// Host functions that come up from now on do nothing.
  void abandon() noexcept { abandoned_.store(true); }

  // Throw: `invalid_argument` once closed, `cuda_error`.
  void launch(label const& name, unique_function<void()> work);
  void copy(copy_direction direction, void* to, void const* from, std::size_t bytes);
  void record(gpu_event& event);
  void wait(gpu_event& event);

  /// Waits for all work enqueued so far. Throws: `stream_error` for a failure not reported yet.
  void synchronize();
  /// The same, whatever becomes of it. If CUDA cannot say, the device is lost.
  void drain() noexcept;
  /// Throws what failed up to the mark. Requires: the marked work is over.
  void report(std::uint64_t sequence);
  /// Requires: the work up to there is over.
  [[nodiscard]] bool failed_at(std::uint64_t sequence);

 private:
  /// A host function on its way; the stream's own, used again once it has run.
  struct host_call {
    gpu_stream* stream = nullptr;
    std::uint64_t sequence = 0;
    label name;
    unique_function<void()> work;
  };
  struct awaited {
    std::uint64_t sequence = 0;  ///< of the wait
    ticket mark;
  };

  static void run(void* call) noexcept;
  void run(host_call& call) noexcept;
  void require_open() const;
  [[nodiscard]] host_call& take_call();
  void give_back(host_call& call) noexcept;
  void take_in_waits(std::uint64_t up_to);
  void report(failure_log::entry const& seen);

  label const name_;
  stream_surroundings const around_;
  bool const owned_;
  cudaStream_t native_ = nullptr;
  std::atomic<bool> open_{true};
  std::atomic<bool> abandoned_{false};
  std::atomic<std::size_t> calls_under_way_{0};

  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<bool> keeps_books_{false};
  failure_log failures_;
  std::deque<awaited> waits_;  // whose outcome is not known yet, in order; guarded by the device's books

  tbb::spin_mutex producers_;  // host functions are numbered in the order CUDA gets them
  tbb::spin_mutex calls_mutex_;
  std::deque<host_call> calls_;
  std::vector<host_call*> spare_calls_;
};

}  // namespace ferry::cuda
