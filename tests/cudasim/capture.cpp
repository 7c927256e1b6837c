// Stream capture and graphs; see capture.hpp.
#include "capture.hpp"

#include <algorithm>
#include <utility>

#include "emulation.hpp"

namespace cudasim {

cudaError_t capture_table::begin(stream_state& on, cudaStreamCaptureMode mode) {
  std::lock_guard const lock(mutex_);
  if (running_.contains(&on)) return cudaErrorIllegalState;
  running_[&on] = {++made_, mode, std::this_thread::get_id(), false, {}};
  return cudaSuccess;
}

cudaError_t capture_table::end(stream_state& on, work_list& work) {
  std::lock_guard const lock(mutex_);
  auto const found = running_.find(&on);
  if (found == running_.end()) return cudaErrorIllegalState;
  bool const any_thread = found->second.mode == cudaStreamCaptureModeRelaxed;
  if (!any_thread && found->second.thread != std::this_thread::get_id()) return cudaErrorStreamCaptureWrongThread;
  capture const ended = std::move(found->second);
  running_.erase(found);
  if (ended.invalidated) return cudaErrorStreamCaptureInvalidated;
  work = ended.work;
  return cudaSuccess;
}

bool capture_table::add(stream_state& on, operation const& work) {
  std::lock_guard const lock(mutex_);
  auto const found = running_.find(&on);
  if (found == running_.end()) return false;
  found->second.work.push_back(work);
  return true;
}

cudaStreamCaptureStatus capture_table::status(stream_state const& of) {
  std::lock_guard const lock(mutex_);
  auto const found = running_.find(&of);
  if (found == running_.end()) return cudaStreamCaptureStatusNone;
  return found->second.invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

std::uint64_t capture_table::number_of(stream_state const& of) {
  std::lock_guard const lock(mutex_);
  auto const found = running_.find(&of);
  return found != running_.end() ? found->second.number : 0;
}

bool capture_table::is_running(std::uint64_t number) {
  std::lock_guard const lock(mutex_);
  return std::ranges::any_of(running_, [&](auto const& each) { return each.second.number == number; });
}

void capture_table::invalidate(stream_state const& of) {
  std::lock_guard const lock(mutex_);
  auto const found = running_.find(&of);
  if (found != running_.end()) found->second.invalidated = true;
}

bool capture_table::forbids_unsafe_call(cudaStreamCaptureMode of_thread) {
  if (of_thread == cudaStreamCaptureModeRelaxed) return false;
  std::lock_guard const lock(mutex_);
  bool forbidden = false;
  for (auto& [stream, each] : running_) {
    bool const own = each.thread == std::this_thread::get_id() && each.mode != cudaStreamCaptureModeRelaxed;
    bool const foreign = of_thread == cudaStreamCaptureModeGlobal && each.mode == cudaStreamCaptureModeGlobal;
    if (!own && !foreign) continue;
    each.invalidated = true;
    forbidden = true;
  }
  return forbidden;
}

std::uintptr_t graph_table::add(work_list work) {
  std::lock_guard const lock(mutex_);
  graphs_[++made_] = std::make_shared<work_list const>(std::move(work));
  return made_;
}

std::shared_ptr<work_list const> graph_table::find(std::uintptr_t number) {
  std::lock_guard const lock(mutex_);
  auto const found = graphs_.find(number);
  return found != graphs_.end() ? found->second : nullptr;
}

bool graph_table::remove(std::uintptr_t number) {
  std::lock_guard const lock(mutex_);
  return graphs_.erase(number) > 0;
}

std::size_t graph_table::count() {
  std::lock_guard const lock(mutex_);
  return graphs_.size();
}

}  // namespace cudasim
