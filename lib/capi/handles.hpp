// Handles: what a C caller holds instead of a pointer. A handle is a number in a pointer's clothes, (generation, kind,
// slot), and is looked up in a table of slots before anything is touched; so one that is null, stale, of another kind
// or made up is recognised, whatever was freed meanwhile.
//
// Ownership: the table owns slots and never gives their memory back; what they point to belongs to the C interface's
// functions. The table is one for the process, because a handle says nothing of where it came from.
// Threads: any. A look-up takes no lock and allocates nothing. As long as a handle is in use its object stays.
#pragma once

#include <cstdint>
#include <utility>

#include "capi/status.hpp"

namespace ferry::capi {

enum class handle_kind : std::uint8_t { none, settings, device, stream, event, session, block, lease, plan, segments };

namespace handles {

using slot_index = std::uint32_t;

/// A slot of the table's for one object at a time. Throws: `refusal` when there are none left; `std::bad_alloc`.
[[nodiscard]] slot_index reserve();
/// Requires: no handle of the slot is valid.
void give_back(slot_index slot) noexcept;

/// A new handle for `object`, valid until `retire`. Requires: the slot's last handle is retired.
[[nodiscard]] void* publish(slot_index slot, handle_kind kind, void* object) noexcept;

/// The object, which stays until `release`. Throws: `refusal` that names the argument and what is wrong with it.
[[nodiscard]] void* acquire(void* handle, handle_kind kind, char const* argument);
void release(void* handle) noexcept;

/// Makes a handle stale if nobody but `own_uses` of the caller's uses it; those need no `release` then.
[[nodiscard]] bool retire(void* handle, std::uint32_t own_uses) noexcept;

/// As long as this lives, the thread runs work of a stream, which cannot wait for itself: it may use settings and
/// plans, and is refused everything else.
class at_work {
 public:
  at_work() noexcept;
  at_work(at_work const&) = delete;
  at_work& operator=(at_work const&) = delete;
  ~at_work();
};

/// Has a handle's form; a pointer into memory has not.
[[nodiscard]] bool looks_like_one(void const* value) noexcept;

}  // namespace handles

/// A slot held as long as this lives.
class owned_slot {
 public:
  owned_slot() : index_(handles::reserve()) {}
  owned_slot(owned_slot const&) = delete;
  owned_slot& operator=(owned_slot const&) = delete;
  ~owned_slot() { handles::give_back(index_); }
  [[nodiscard]] handles::slot_index index() const noexcept { return index_; }

 private:
  handles::slot_index index_;
};

/// An object in use by its handle. `Object::kind` says what it is.
template <typename Object>
class in_use {
 public:
  in_use() noexcept = default;
  /// Throws: `refusal`.
  in_use(void* handle, char const* argument)
      : object_(static_cast<Object*>(handles::acquire(handle, Object::kind, argument))), handle_(handle) {}
  in_use(in_use&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), handle_(std::exchange(other.handle_, nullptr)) {}
  in_use& operator=(in_use&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~in_use() {
    if (object_ != nullptr) handles::release(handle_);
  }

  [[nodiscard]] Object& operator*() const noexcept { return *object_; }
  [[nodiscard]] Object* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

  /// Makes the handle stale, if this is its only use: the object is the caller's then. Else false.
  [[nodiscard]] bool retire() noexcept {
    if (!handles::retire(handle_, 1)) return false;
    object_ = nullptr;
    return true;
  }

 private:
  Object* object_ = nullptr;
  void* handle_ = nullptr;
};

}  // namespace ferry::capi
