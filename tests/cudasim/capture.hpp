// Stream capture and graphs: the work of one stream, noted instead of done, and enqueued as a whole later.
// Threads: any; one lock in each table.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "streams.hpp"

namespace cudasim {

using work_list = std::vector<operation>;

class capture_table {
 public:
  [[nodiscard]] cudaError_t begin(stream_state& on, cudaStreamCaptureMode mode);
  /// Ends the capture; its work if nothing has invalidated it.
  [[nodiscard]] cudaError_t end(stream_state& on, work_list& work);
  /// True if the stream captures, and then the work is part of the graph.
  [[nodiscard]] bool add(stream_state& on, operation const& work);
  [[nodiscard]] cudaStreamCaptureStatus status(stream_state const& of);
  /// The number of the stream's capture; 0: none.
  [[nodiscard]] std::uint64_t number_of(stream_state const& of);
  [[nodiscard]] bool is_running(std::uint64_t number);
  void invalidate(stream_state const& of);

  /// Whether calls that might wait are forbidden to this thread; if so, what forbids them is invalidated.
  [[nodiscard]] bool forbids_unsafe_call(cudaStreamCaptureMode of_thread);

 private:
  struct capture {
    std::uint64_t number;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    bool invalidated;
    work_list work;
  };

  std::mutex mutex_;
  std::unordered_map<stream_state const*, capture> running_;
  std::uint64_t made_ = 0;
};

class graph_table {
 public:
  [[nodiscard]] std::uintptr_t add(work_list work);
  /// Null if there is none of that number.
  [[nodiscard]] std::shared_ptr<work_list const> find(std::uintptr_t number);
  bool remove(std::uintptr_t number);
  [[nodiscard]] std::size_t count();

 private:
  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<work_list const>> graphs_;
  std::uintptr_t made_ = 0;
};

}  // namespace cudasim
