// The emulation's streams and events: lines of work (runner.hpp) behind CUDA's handles.
//
// Handles are numbers that are never used twice, so a stale one is recognised. What they stand for stays until the
// emulation is reset, because events point at streams and queued work at events. Threads: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cudasim.hpp"
#include "device/host_stream.hpp"
#include "device/link.hpp"
#include "runner.hpp"
#include "virtual_clock.hpp"

namespace cudasim {

struct stream_state;

/// One direction of a device's link, which may be stalled.
class gated_link {
 public:
  ferry::link_clock::time_point copy(void* to, void const* from, std::size_t bytes,
                                     ferry::link_clock::time_point ready);
  void set_speed(ferry::link_speed speed) { link_.set_speed(speed); }
  void set_stalled(bool stalled);
  [[nodiscard]] ferry::paced_link& link() noexcept { return link_; }

 private:
  ferry::paced_link link_{ferry::link_speed{}};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stalled_ = false;
};

struct device_state {
  explicit device_state(int number) : index(number) {}
  int const index;
  std::atomic<cudaError_t> broken{cudaSuccess};  ///< the first error that nothing recovers from
  gated_link device_to_host;
  gated_link host_to_device;

  [[nodiscard]] gated_link& link(direction which) noexcept {
    return which == direction::device_to_host ? device_to_host : host_to_device;
  }
  /// Only the first error counts.
  void break_with(cudaError_t error) noexcept;
};

/// Work for a stream. Copied by graphs, which enqueue it again and again.
struct operation {
  ferry::label name;
  char const* kind = "";
  std::size_t bytes = 0;  ///< of a copy
  std::vector<ferry::memory_access> accesses{};
  std::function<void(stream_state&)> run{};  ///< when its turn has come
  work_cost cost{};
};

struct stream_state {
  stream_state(cudaStream_t own_handle, device_state& on, ferry::label const& called, work_line& its_work)
      : handle(own_handle), device(on), name(called), line(its_work) {}

  cudaStream_t const handle;
  device_state& device;
  ferry::label const name;
  work_line& line;
  int priority = 0;  ///< as it was made
  std::mutex time_mutex;
  virtual_duration virtual_end{0};  // guarded by `time_mutex`
};

struct event_state {
  ferry::host_event threaded;  ///< the mark, where streams are threads
  ferry::event_ref stepped;    ///< the mark, where they are not
  device_state* device = nullptr;
  bool timed = false;
  std::atomic<bool> recorded{false};
  std::atomic<std::uint64_t> capture{0};  ///< number of the capture that it was recorded in last; 0: none
  std::mutex time_mutex;
  virtual_duration virtual_time{0};  // guarded by `time_mutex`
};

/// Enqueues the work, or adds it to the graph that the stream captures.
cudaError_t submit(stream_state& on, operation work);
/// The same for a stream that captures nothing.
cudaError_t enqueue(stream_state& on, operation work);
/// For lines: does the work, unless the stream's device is broken. What goes wrong breaks it.
void run_on_stream(stream_state& on, operation const& work) noexcept;

class stream_table {
 public:
  [[nodiscard]] cudaStream_t create(device_state& on, runner& by);
  /// Null if there is no such stream.
  [[nodiscard]] stream_state* find(cudaStream_t handle);
  /// The stream finishes its work by itself. False if there is no such stream.
  bool destroy(cudaStream_t handle);
  /// The stream that stands in for the default streams of a device.
  [[nodiscard]] stream_state& default_of(device_state& on, runner& by);
  /// All that were ever made, destroyed ones too.
  [[nodiscard]] std::vector<stream_state*> all();
  [[nodiscard]] std::size_t live_count();

 private:
  std::mutex mutex_;
  std::deque<stream_state> states_;
  std::unordered_map<cudaStream_t, stream_state*> live_;
  std::unordered_map<int, stream_state*> defaults_;
  std::uintptr_t made_ = 0;
};

class event_table {
 public:
  [[nodiscard]] cudaEvent_t create(device_state& on, bool timed, runner& by);
  [[nodiscard]] event_state* find(cudaEvent_t handle);
  bool destroy(cudaEvent_t handle, runner& by);
  [[nodiscard]] std::size_t live_count();

 private:
  std::mutex mutex_;
  std::deque<event_state> states_;
  std::vector<event_state*> spare_;
  std::unordered_map<cudaEvent_t, event_state*> live_;
  std::uintptr_t made_ = 0;
};

}  // namespace cudasim
