// What the handles of the C interface stand for.
//
// Ownership: an object is owned by its handle, and freed by the call that makes the handle stale. Streams, events and
// sessions keep their device's handle in use, so the device cannot go before them. A session's blocks and leases keep
// its object, and with it the device, when its handle is gone. Threads: a device, stream, event or plan may be used by
// several threads at once; settings and a session, with its blocks and leases, by one at a time, which `exclusive` sees
// to.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capi/handles.hpp"
#include "ferry/plan.hpp"
#include "ferry/segments.hpp"
#include "ferry/session.hpp"

namespace ferry::capi {

/// Taken by the one call that may be under way.
class turn {
 public:
  /// False while another call has it.
  [[nodiscard]] bool take() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  void give_back() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

/// Makes a handle stale; waits for those who look at its object, which takes no time. Nobody may call it for what
/// others can use for long.
template <typename Object>
void retire_soon(in_use<Object>& object) noexcept {
  while (!object.retire()) std::this_thread::yield();
}

/// Throws: `refusal`, because another call has the turn.
[[noreturn]] void refuse_busy(char const* what);

struct settings_object {
  static constexpr auto kind = handle_kind::settings;
  explicit settings_object(config given) : value(std::move(given)) {}

  config value;
  turn one_at_a_time;
  owned_slot slot{};
};

struct device_object {
  static constexpr auto kind = handle_kind::device;
  std::unique_ptr<device> on;
  bool takes_native_streams = false;
  // For messages; what keeps the device is that its handle is in use.
  std::atomic<int> streams{0};
  std::atomic<int> events{0};
  std::atomic<int> sessions{0};
  owned_slot slot{};
};

/// One of a device's streams, events or sessions, counted as long as this lives.
class device_part {
 public:
  device_part(in_use<device_object> of, std::atomic<int> device_object::*counter)
      : of_(std::move(of)), counter_(counter) {
    ++((*of_).*counter_);
  }
  device_part(device_part const&) = delete;
  device_part& operator=(device_part const&) = delete;
  ~device_part() { --((*of_).*counter_); }
  [[nodiscard]] device_object& object() const noexcept { return *of_; }
  [[nodiscard]] device& on() const noexcept { return *of_->on; }

 private:
  in_use<device_object> of_;
  std::atomic<int> device_object::*counter_;
};

struct stream_object {
  static constexpr auto kind = handle_kind::stream;
  explicit stream_object(in_use<device_object> of) : part(std::move(of), &device_object::streams) {}

  device_part part;
  stream_ref ref;
  bool native = false;  // the caller's: nothing to destroy
  owned_slot slot{};
};

struct event_object {
  static constexpr auto kind = handle_kind::event;
  explicit event_object(device_object& of) : owner(of) {}

  device_object& owner;
  event_ref ref;                      // none, and so complete, when there was nothing to wait for
  std::optional<device_part> part{};  // of an event of the caller's own; Ferry's are lent for the time of a callback
  owned_slot slot{};
  [[nodiscard]] device& on() const noexcept { return *owner.on; }
};

struct plan_object {
  static constexpr auto kind = handle_kind::plan;
  explicit plan_object(plan given) : value(std::move(given)) {}

  plan value;
  owned_slot slot{};
};

struct session_object;

/// A block or a lease, with the slot of its handle. Used again and again, so that a warm step allocates nothing.
template <typename Held, handle_kind Kind>
struct holding {
  static constexpr auto kind = Kind;
  explicit holding(session_object& of) : owner(of) {}

  session_object& owner;
  Held held{};
  owned_slot slot{};
};
using block_holding = holding<block, handle_kind::block>;
using lease_holding = holding<lease, handle_kind::lease>;

template <typename Holding>
class holding_pool {
 public:
  /// One without a handle. Throws: `std::bad_alloc`.
  [[nodiscard]] Holding& take(session_object& owner) {
    if (idle_.empty()) {
      idle_.reserve(all_.size() + 1);  // giving one back never allocates
      all_.push_back(std::make_unique<Holding>(owner));
      idle_.push_back(all_.back().get());
    }
    Holding& taken = *idle_.back();
    idle_.pop_back();
    return taken;
  }
  void give_back(Holding& unused) noexcept { idle_.push_back(&unused); }

 private:
  std::vector<std::unique_ptr<Holding>> all_;
  std::vector<Holding*> idle_;
};

/// A stream that has been passed to a session, as the caller knows it.
struct known_stream {
  stream_ref ref;
  void* passed = nullptr;
};

struct session_object {
  static constexpr auto kind = handle_kind::session;
  explicit session_object(in_use<device_object> of)
      : part(std::move(of), &device_object::sessions), release_event(part.object()) {}

  device_part part;
  std::optional<session> running{};  // none once the session's handle is gone
  turn one_at_a_time{};
  holding_pool<block_holding> blocks{};
  holding_pool<lease_holding> leases{};
  std::size_t out = 0;  // blocks and leases
  std::vector<known_stream> streams{};
  event_object release_event;  // lent to release functions
  int wrong_placement = 0;     // what a placement function returned in the save at hand
  bool has_wrong_placement = false;
  owned_slot slot{};

  /// The session. Requires: its handle is valid.
  [[nodiscard]] session& it() noexcept { return *running; }
};

struct segments_object {
  static constexpr auto kind = handle_kind::segments;

  std::optional<device_part> part{};  // with functions that enqueue; the session is then in `running_in`
  std::optional<session> running_in{};
  void* passed_stream = nullptr;
  std::optional<segments> it{};
  std::size_t tensors = 0;  // declared
  turn one_at_a_time{};
  owned_slot slot{};
};

/// Ends a call of a session's: gives the turn back, or frees the object with the last of what its handle left behind.
void end_turn(session_object& of) noexcept;

/// An object in use by the only call that may.
template <typename Object>
class exclusive {
 public:
  /// Throws: `refusal`.
  exclusive(void* handle, char const* argument) : object_(handle, argument) {
    if (!object_->one_at_a_time.take()) refuse_busy(argument);
  }
  exclusive(exclusive const&) = delete;
  exclusive& operator=(exclusive const&) = delete;
  ~exclusive() {
    if (object_) object_->one_at_a_time.give_back();
  }
  [[nodiscard]] Object& operator*() const noexcept { return *object_; }
  [[nodiscard]] Object* operator->() const noexcept { return &*object_; }
  /// Makes the handle stale; the turn and the object are the caller's then.
  [[nodiscard]] Object& take_apart() noexcept {
    Object& taken = *object_;
    retire_soon(object_);
    return taken;
  }

 private:
  in_use<Object> object_;
};

/// Takes an object's handle out of use and hands the object to the caller. Throws: `refusal` while others use it.
template <typename Object>
[[nodiscard]] std::unique_ptr<Object> take_apart(in_use<Object>& object, char const* argument) {
  Object* const taken = &*object;
  if (!object.retire()) {
    throw refusal(FERRY_ERROR_IN_USE, std::string("'") + argument + "' is in use by another thread; end that first");
  }
  return std::unique_ptr<Object>(taken);
}

/// A handle for a new object, which owns it from now on.
template <typename Handle, typename Object>
[[nodiscard]] Handle* publish(std::unique_ptr<Object> made) noexcept {
  handles::slot_index const slot = made->slot.index();
  return static_cast<Handle*>(handles::publish(slot, Object::kind, made.release()));
}

/// A stream as it was passed to a call, in use for as long as the call takes.
struct lent_stream {
  in_use<stream_object> handle;  // none for a native one
  stream_ref ref;
};
/// Throws: `refusal` for what is no stream; `invalid_argument` for a default stream of CUDA's.
[[nodiscard]] lent_stream lend_stream(device_object& on, void* stream);

}  // namespace ferry::capi
