// The session: what a trainer calls between forward and backward.
//
//   auto h = session.allocate(bytes, stream);             // device bytes, inside the budget
//   ... enqueue the kernel that writes h.data() ...
//   auto kept = session.save(key, std::move(h), stream, recipe);
//   ... enqueue the kernels that read kept.data(), then let `kept` go ...
//   auto back = session.restore(key, stream);             // in backward
//   ... enqueue the kernels that read back.data(), then let `back` go ...
//   session.release(key);                                 // no further use in this step
//
// Threads: one thread at a time; copies and their progress run on threads of Ferry's own.
// Streams: the caller's stream is always an argument. A pointer from `allocate`, `save` or `restore` is
// valid for work enqueued on that stream until the block or lease ends; the bytes are not reused before
// that work is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ferry/config.hpp"
#include "ferry/device.hpp"
#include "ferry/export.h"
#include "ferry/item.hpp"
#include "ferry/stats.hpp"

namespace ferry {

struct plan;     // ferry/plan.hpp
struct profile;  // ferry/plan.hpp

namespace path {
class session_core;
}
namespace store {
struct entry;
}

/// Device bytes of one session for the work of one stream: what a block and a lease have in common.
class held_bytes {
 public:
  [[nodiscard]] void* data() const noexcept { return address_; }
  template <typename T>
  [[nodiscard]] T* as() const noexcept {
    return static_cast<T*>(address_);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return address_ != nullptr; }

 protected:
  held_bytes() noexcept = default;
  held_bytes(held_bytes&& other) noexcept { *this = std::move(other); }
  held_bytes& operator=(held_bytes&& other) noexcept {
    core_ = std::exchange(other.core_, nullptr);
    address_ = std::exchange(other.address_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    stream_ = other.stream_;
    return *this;
  }
  ~held_bytes() = default;

  path::session_core* core_ = nullptr;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  stream_ref stream_;
};

/// Bytes that are not saved yet: an activation being written, or scratch memory.
class FERRY_API block : public held_bytes {
 public:
  block() noexcept = default;
  block(block&&) noexcept = default;
  block& operator=(block&& other) noexcept {
    if (this == &other) return *this;
    free();
    held_bytes::operator=(std::move(other));
    slot_ = other.slot_;
    return *this;
  }
  /// Frees the bytes in the order of the stream they were allocated for.
  ~block() { free(); }

 private:
  friend class path::session_core;
  void free() noexcept;

  std::uint32_t slot_ = 0;
};

/// An item held on the device. The lease's end is that stream's last use of the item.
class FERRY_API lease : public held_bytes {
 public:
  lease() noexcept = default;
  lease(lease&&) noexcept = default;
  lease& operator=(lease&& other) noexcept {
    if (this == &other) return *this;
    end();
    held_bytes::operator=(std::move(other));
    entry_ = other.entry_;
    return *this;
  }
  ~lease() { end(); }

  void end() noexcept;

 private:
  friend class path::session_core;

  store::entry* entry_ = nullptr;
};

/// A step that does not outlive its scope: left without `end`, by an exception for instance, it is abandoned.
template <typename Session>
class [[nodiscard]] basic_step_scope {
 public:
  explicit basic_step_scope(Session& of) : session_(&of) { of.begin_step(); }
  basic_step_scope(Session& of, step_kind kind) : session_(&of) { of.begin_step(kind); }
  basic_step_scope(basic_step_scope&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  basic_step_scope& operator=(basic_step_scope&&) = delete;
  ~basic_step_scope() {
    if (session_ != nullptr) session_->abandon_step();
  }
  /// Throws: as `end_step`; the step is then abandoned with the scope.
  void end() {
    session_->end_step();
    session_ = nullptr;
  }

 private:
  Session* session_;
};

/// Manages the activations of a trainer's steps under a byte budget.
class FERRY_API session {
 public:
  /// Takes one slab of device memory of the budget's size and one of pinned memory.
  /// Throws: `out_of_memory` if device or machine has less; `invalid_argument` for a budget of nothing, and settings that
  /// name another device than `on`.
  session(device& on, config settings);
  session(session&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  /// What this one had is given back first. One that was moved from throws `error` from every call.
  session& operator=(session&& other) noexcept {
    if (this == &other) return *this;
    session const before(std::move(*this));
    core_ = std::exchange(other.core_, nullptr);
    return *this;
  }
  ~session();

  /// In an evaluation, what is saved goes with its last lease: nothing of it is ferried, dropped or learnt, and nothing
  /// can be restored. Whatever was measured and planned for training stays as it was.
  void begin_step(step_kind kind = step_kind::train);
  /// Items never restored are dropped and counted. Everything saved in the step is released. A step that has restored
  /// nothing was an evaluation that nobody announced: nothing is learnt from it.
  /// Throws: `recipe_error` if a recipe names an input that the step has not saved, in the first step in which the
  /// item is saved with these inputs; the step is still under way then, and is left by `abandon_step`, or with its
  /// scope.
  void end_step();
  /// The step cannot be gone on with: everything saved in it is released, nothing is learnt from it, and the session
  /// can begin another one. Does nothing if no step is under way.
  void abandon_step() noexcept;

  using step_scope = basic_step_scope<session>;

  /// The trainer is in one pass of one segment, and says so: whatever it saves, restores and allocates until the scope
  /// is left belongs there. Without one that is inferred from the keys: a save is in its key's segment's forward, a
  /// restore in its key's segment's backward; which is wrong where backward reads an item of another segment.
  class [[nodiscard]] segment_scope {
   public:
    /// Throws: `error` without a step or inside another scope; as `restore` for work that failed. Ends before the step.
    segment_scope(session& of, pass which, std::uint32_t segment, stream_ref stream, std::uint32_t micro_batch = 0)
        : session_(of) {
      of.enter_segment(which, segment, stream, micro_batch);
    }
    segment_scope(segment_scope const&) = delete;
    segment_scope& operator=(segment_scope const&) = delete;
    ~segment_scope() { session_.leave_segment(); }

   private:
    session& session_;
  };
  /// The same for a trainer that has no scope to put it in. A step's end leaves the segment too.
  void enter_segment(pass which, std::uint32_t segment, stream_ref stream, std::uint32_t micro_batch = 0);
  void leave_segment() noexcept;

  /// Waits for bytes that are on their way out if it must.
  /// Throws: `out_of_device_memory` when nothing that Ferry may move or drop would make room.
  [[nodiscard]] block allocate(std::size_t bytes, stream_ref stream, label const& purpose = "block");

  /// The same at the trainer's own memory, in one piece or several, which keeps its address: the item that the block
  /// becomes comes back to it, wherever it went meanwhile. The bytes count against the budget from here until the item
  /// has left or is released; whole pages of host memory go back to the system when there is need. What the memory held
  /// is lost. It must stay as long as the session, or until the session's step in which it was used last has ended and
  /// `synchronize` has returned.
  /// Throws: `invalid_argument` for no memory, and for memory that an item or a block has already.
  [[nodiscard]] block allocate_at(std::span<device_view const> pieces, stream_ref stream,
                                  label const& purpose = "block");

  /// Saves a block as an item; work enqueued on `stream` so far has written it.
  /// Throws: `duplicate_key`; with FERRY_VERIFY=recipes, `recipe_error` for a recipe that gives other bits.
  lease save(item_key const& key, block&& memory, stream_ref stream, recipe how = {});

  /// Saves memory that stays the trainer's; it counts against the budget until `on_release`.
  lease save(item_key const& key, device_view memory, stream_ref stream, release_callback on_release, recipe how = {});

  /// Brings an item back for work on `stream`, from wherever it is.
  /// Throws: `unknown_key`; `recipe_error`; `stream_error` or `transfer_error` for what failed on the way;
  /// `out_of_device_memory`.
  [[nodiscard]] lease restore(item_key const& key, stream_ref stream);

  /// The trainer will not restore this item again in this step. Leases still out stay valid.
  void release(item_key const& key);

  /// The stream on which the segment at hand was entered is about to stand still for so many microseconds, for a
  /// collective for instance: recipes whose results backward needs next run meanwhile, as far as bytes allow.
  void idle_hint(double us);

  /// What restoring the item now would come to: waiting for its transfer, or its recipe; 0 where there is nothing to
  /// do, infinite where that way is closed or not known yet. Throws: `unknown_key`.
  [[nodiscard]] outlook foresee(item_key const& key) const;

  [[nodiscard]] std::optional<item_state> state(item_key const& key) const;

  /// Decides by this function instead of by `FERRY_POLICY`, whatever is saved from now on; an empty function undoes it.
  /// A plan waits meanwhile: it is followed again from the first step that begins without a function.
  void set_placement(placement_function choose);

  /// Carries out a plan from the next step on, instead of a policy. In that step, an item that the plan does not know
  /// or knows with other bytes makes `save` throw `plan_mismatch`. Throws: `error` inside a step.
  void follow(plan planned);
  /// The plan in force: one that was given, or the one that policy `auto` has made; or null.
  [[nodiscard]] plan const* followed() const noexcept;

  /// Changes the device bytes for activations, for real: the slab goes back to the device and another one is taken.
  /// Between steps at once, in a step at the next `begin_step`; but never while a block or a lease holds memory: then
  /// at the first `begin_step` that finds none, and the log says what it waits for. Waits for work on the device that
  /// still uses memory given back. A plan that policy `auto` made is made anew; one that was given is followed as it
  /// is. Throws: `invalid_argument` and `out_of_device_memory` as the constructor. If the device cannot give the slab,
  /// `out_of_device_memory` from here or from that `begin_step`, and the session goes on with the slab it has.
  void set_budget(byte_amount budget);

  /// Measures every step, from the next one on, for `recorded_profile`. Costs a pair of events per segment.
  void record_profile(bool on);
  /// What the last step looked like, once its work is done: call it after the compute stream has been synchronised.
  /// Nothing without a recorded step, or if its micro-batches were interleaved. Throws: `error` inside a step.
  [[nodiscard]] std::optional<profile> recorded_profile();

  /// Waits until no transfer is under way. Throws: as `restore`, for what failed.
  void synchronize();

  /// Changes nothing. Work on streams counts as soon as it is over, what a transfer changes once another call has taken
  /// it in, as saving and restoring do; after `synchronize` everything does.
  [[nodiscard]] session_stats stats() const;
  /// Where time was lost, dearest cause first, and which setting would change it; then the settings that had no effect.
  [[nodiscard]] std::string explain() const;
  [[nodiscard]] config const& settings() const;

 private:
  path::session_core* core_;
};

}  // namespace ferry
