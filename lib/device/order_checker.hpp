// The stream-order checker: reports mistakes in ordering whatever the timing of the run.
//
// Every stream and every host thread carries a vector clock that advances at enqueue time; events carry the
// clock of the moment they were recorded; every range of memory remembers its last writer and its readers
// since. An access that is not ordered after a conflicting one is a violation even if it happened to run
// later. Memory in no slab (the trainer's own) is not watched. Threads: any; one lock inside.
//
// A host thread starts out knowing nothing: what its creator did is ordered before it only by a hand-over.
// An operating system that reuses a finished thread's id makes two threads look like one, which can hide a
// mistake but never invents one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferry/device.hpp"

namespace ferry {

class order_checker final : public order_hooks {
 public:
  using stream_id = std::uint32_t;

  order_checker();
  ~order_checker();

  /// Hosts that take turns on one thread, as fibers do: from now on this thread speaks for `host`; null: for itself.
  /// Of all checkers.
  static void speak_as(void const* host) noexcept;

  [[nodiscard]] stream_id add_stream(label const& name);
  /// An operation is enqueued. Call in the same order as the stream's queue sees it.
  void operation(stream_id stream, label const& name, std::span<memory_access const> accesses);
  void record(void const* event, stream_id stream);
  void wait(stream_id stream, void const* event);
  /// The event is destroyed; another one may get its address.
  void forget_event(void const* event);
  /// The calling host thread has seen the event complete, or waited for the whole stream.
  void host_saw(void const* event);
  void host_saw_stream(stream_id stream);

  /// A slab from the system. Sub-allocators narrow it down with `allocated` and `freed`.
  void slab_added(void const* address, std::size_t bytes, label const& name);
  /// Unlike `freed`, whose bytes may be reused in stream order, a slab may go only when the host knows
  /// that all work on it is done.
  void slab_removed(void const* address);

  /// Waiting for an event that was never recorded is allowed and does nothing, but is often a mistake.
  /// Off unless set.
  void report_unrecorded_waits(bool on);

  /// The range belongs to `name` from now on. It keeps its history: reuse must be ordered after the last owner.
  void allocated(void const* address, std::size_t bytes, label const& name) override;
  /// Operations enqueued from now on may not touch the range; those already enqueued may still run.
  void freed(void const* address, std::size_t bytes) override;
  void host_access(memory_access access, label const& name) override;
  /// Nothing: `operation` is told itself.
  void announce(label const&, std::span<memory_access const>) override {}
  void hand_over(void const* channel) override;
  void take_over(void const* channel) override;

  /// What was found so far, each text once; texts name both operations, where they ran, and the block.
  [[nodiscard]] std::vector<std::string> violations() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace ferry
