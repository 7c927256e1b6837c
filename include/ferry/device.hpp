// The narrow seam under Ferry: memory, streams, events and copies of one device.
//
// A device gives every stream CUDA's asynchronous semantics: operations on one stream run in the order
// they were enqueued, operations on different streams are unordered unless an event orders them, and
// the caller never waits unless it says `synchronize`. Implementations pass tests/contract.
//
// Threads: every function may be called from any thread. Owners (`stream`, `event`, `memory`) are
// move-only and must not outlive the device; refs are lent by value and own nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ferry/export.h"
#include "ferry/function.hpp"
#include "ferry/label.hpp"
#include "ferry/link.hpp"

namespace ferry {

class device;

enum class memory_space : std::uint8_t { device, pinned };
enum class copy_direction : std::uint8_t { device_to_host, host_to_device };
enum class stream_kind : std::uint8_t { compute, copy };
enum class event_timing : std::uint8_t { off, on };
enum class event_status : std::uint8_t { complete, pending, failed };

/// A stream lent by value.
class stream_ref {
 public:
  stream_ref() noexcept = default;
  stream_ref(device& owner, void* native) noexcept : device_(&owner), native_(native) {}
  /// A stream that the trainer made with the device's own API, a `cudaStream_t` for instance. It stays the trainer's.
  /// Throws: `invalid_argument` where the device has no such API, and for its default streams.
  [[nodiscard]] static stream_ref from_native(device& owner, void* handle);
  [[nodiscard]] device* owner() const noexcept { return device_; }
  /// What the device itself knows the stream by; for its own API's handle see `device::native_handle`.
  [[nodiscard]] void* native() const noexcept { return native_; }
  explicit operator bool() const noexcept { return native_ != nullptr; }
  friend bool operator==(stream_ref, stream_ref) noexcept = default;

 private:
  device* device_ = nullptr;
  void* native_ = nullptr;
};

/// An event lent by value.
class event_ref {
 public:
  event_ref() noexcept = default;
  event_ref(device& owner, void* native) noexcept : device_(&owner), native_(native) {}
  [[nodiscard]] device* owner() const noexcept { return device_; }
  [[nodiscard]] void* native() const noexcept { return native_; }
  explicit operator bool() const noexcept { return native_ != nullptr; }
  friend bool operator==(event_ref, event_ref) noexcept = default;

 private:
  device* device_ = nullptr;
  void* native_ = nullptr;
};

/// A range of memory that an operation reads or writes; what the stream-order checker reasons about.
struct memory_access {
  enum class mode : std::uint8_t { read, write };
  void const* address = nullptr;
  std::size_t bytes = 0;
  mode how = mode::read;
};

inline memory_access reads(void const* address, std::size_t bytes) noexcept {
  return {address, bytes, memory_access::mode::read};
}
inline memory_access writes(void const* address, std::size_t bytes) noexcept {
  return {address, bytes, memory_access::mode::write};
}

/// What a device has, and what may be assumed of it.
struct device_capabilities {
  std::string name;
  std::size_t device_bytes = 0;
  std::size_t pinned_bytes = 0;
  /// The host may dereference device memory.
  bool host_addressable = false;
  /// Memory keeps what is written to it. Where it does not, it is addresses only: nobody may dereference them, and
  /// copies move nothing.
  bool holds_bytes = true;
  /// Every allocation comes with this many times its bytes in addresses, from its first on. All of them may be handed
  /// out, as long as no more than its bytes are in use at once: so gaps between what is in use cost nothing.
  std::size_t addresses_per_byte = 1;
  /// A copy that is enqueued behind failed work moves nothing. Where it cannot be recalled it runs, to nobody's use:
  /// its mark has failed all the same.
  bool recalls_copies = true;
  /// Of the link, in 1e9 bytes a second, where it was measured beforehand; 0: not known until something is copied.
  double device_to_host_gbps = 0;
  double host_to_device_gbps = 0;
  /// What is left of each direction beside the other, where that was measured beforehand too. Nothing is said of the
  /// computation here.
  contention beside{};
};

/// What a stream-order checker wants to be told beyond the device calls themselves. Sub-allocators
/// declare the ranges they hand out and take back; threads that pass work to each other through a queue
/// declare the hand-over, so that what one of them has waited for orders the other too.
class order_hooks {
 public:
  virtual void allocated(void const* address, std::size_t bytes, label const& name) = 0;
  virtual void freed(void const* address, std::size_t bytes) = 0;
  virtual void host_access(memory_access access, label const& name) = 0;
  /// What the operation that this thread enqueues next touches, where the checker listens to an API that does not say.
  virtual void announce(label const& name, std::span<memory_access const> accesses) = 0;
  virtual void hand_over(void const* channel) = 0;
  virtual void take_over(void const* channel) = 0;
  /// Something has happened to an item or a transfer that is in this state, of whose bytes so much is known. For tests
  /// that count what they have met.
  virtual void met(std::string_view /*what*/, std::string_view /*state*/, std::string_view /*event*/,
                   std::string_view /*evidence*/) {}

 protected:
  ~order_hooks() = default;
};

/// Nothing is left that could ever happen, and somebody waits for it to. The message says which streams wait for what.
class FERRY_API deadlock_error : public error {
 public:
  using error::error;
  ~deadlock_error() override;
};

/// The time of a device whose clock stands still unless somebody waits. What would run beside a real device on a thread
/// of its own is an agent here: it acts whenever something has happened, on the thread that waits.
class virtual_time {
 public:
  /// Something that acts when something has happened.
  class agent {
   public:
    /// Does what there is to do now, without waiting. True if that was anything.
    virtual bool act() = 0;

   protected:
    ~agent() = default;
  };

  /// Agents act at the very instant that something happens. Where they do not, as threads do not, things are noticed
  /// late, and whoever counts on others has to allow for that.
  [[nodiscard]] virtual bool is_punctual() const noexcept { return true; }

  /// Agents are called in the order they were added.
  virtual void add(agent& added) = 0;
  virtual void remove(agent& removed) noexcept = 0;

  /// Lets the agents act now; no time passes. True if one of them did anything.
  virtual bool settle() = 0;
  /// Lets the agents act, or if they have nothing to do, lets time pass until the next thing happens and them act on
  /// it. Throws: `deadlock_error` if nothing ever will.
  virtual void pass_time() = 0;
  /// The same for somebody who has something else to do after `longest`, so that nothing need happen.
  virtual void pass_time(std::chrono::nanoseconds longest) = 0;

 protected:
  ~virtual_time() = default;
};

/// A device: memory, streams, events and copies. Whoever implements it passes tests/contract.
class FERRY_API device {
 public:
  device() = default;
  device(device const&) = delete;
  device& operator=(device const&) = delete;
  virtual ~device();

  [[nodiscard]] virtual device_capabilities const& capabilities() const noexcept = 0;

  /// Throws: `out_of_device_memory` or `out_of_pinned_memory`; `invalid_argument` for zero bytes.
  [[nodiscard]] virtual void* allocate(memory_space space, std::size_t bytes) = 0;
  virtual void deallocate(memory_space space, void* address) noexcept = 0;

  /// Nobody needs what these bytes hold until somebody writes them again, whoever's they are: where that is possible,
  /// whole pages of them go back to the system meanwhile.
  virtual void discard(void* /*address*/, std::size_t /*bytes*/) noexcept {}

  [[nodiscard]] virtual stream_ref create_stream(stream_kind kind, label const& name) = 0;
  /// Waits for the stream's work.
  virtual void destroy_stream(stream_ref stream) noexcept = 0;
  /// See `stream_ref::from_native`. The same handle gives the same stream; destroying that destroys nothing.
  [[nodiscard]] virtual stream_ref adopt_stream(void* handle);
  /// The stream as the device's own API knows it, a `cudaStream_t` for instance; null where there is none.
  [[nodiscard]] virtual void* native_handle(stream_ref) { return nullptr; }
  [[nodiscard]] virtual event_ref create_event(event_timing timing) = 0;
  virtual void destroy_event(event_ref event) noexcept = 0;

  /// Enqueues a host function; on a compute stream it may use parallel loops.
  virtual void launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
                      unique_function<void()> work) = 0;
  virtual void copy(stream_ref stream, label const& name, copy_direction direction, void* to, void const* from,
                    std::size_t bytes) = 0;

  /// Marks the stream's current end; recording again moves the mark.
  virtual void record(event_ref event, stream_ref stream) = 0;
  /// Later work on `stream` runs after the event's latest mark; nothing to wait for if it was never recorded.
  virtual void wait(stream_ref stream, event_ref event) = 0;
  /// An event that was never recorded is complete. A failed one is over too: nothing ordered before it runs
  /// any more, though not all of it has run.
  [[nodiscard]] virtual event_status query(event_ref event) = 0;
  /// Throws: `stream_error` if the work marked failed. The stream is usable again afterwards.
  virtual void synchronize(event_ref event) = 0;
  virtual void synchronize(stream_ref stream) = 0;
  /// Waits for the stream's work, whatever becomes of it. No failure is reported: it stays for whoever is to be told.
  /// Nothing to wait for if the stream was destroyed.
  virtual void drain(stream_ref stream) noexcept = 0;
  /// Requires: both complete, created with timing.
  [[nodiscard]] virtual double elapsed_us(event_ref from, event_ref to) = 0;

  /// The stream-order checker that is listening, or null.
  [[nodiscard]] virtual order_hooks* order() noexcept { return nullptr; }

  /// Changes the bandwidth of one link direction from the next copy on, in 1e9 bytes a second; 0 is unpaced. Its
  /// latency stays. Any thread may call it at any time. False where the link is what it is. Throws: `invalid_argument`
  /// for one that is negative or no number.
  virtual bool set_link_gbps(copy_direction, double /*gbps*/) { return false; }

  /// The device's clock, from a beginning of its own.
  [[nodiscard]] virtual std::chrono::nanoseconds now() const noexcept {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  /// How to wait for the device without blocking on it; null where time passes by itself.
  [[nodiscard]] virtual virtual_time* time() noexcept { return nullptr; }
};

inline stream_ref stream_ref::from_native(device& owner, void* handle) { return owner.adopt_stream(handle); }

/// Owns a stream; lends `stream_ref`.
class stream {
 public:
  stream(device& owner, stream_kind kind, label const& name) : ref_(owner.create_stream(kind, name)) {}
  stream(stream&& other) noexcept : ref_(std::exchange(other.ref_, {})) {}
  stream& operator=(stream&& other) noexcept {
    std::swap(ref_, other.ref_);
    return *this;
  }
  ~stream() {
    if (ref_) ref_.owner()->destroy_stream(ref_);
  }
  operator stream_ref() const noexcept { return ref_; }
  [[nodiscard]] stream_ref ref() const noexcept { return ref_; }
  void synchronize() const { ref_.owner()->synchronize(ref_); }

 private:
  stream_ref ref_;
};

/// Owns an event; lends `event_ref`.
class event {
 public:
  explicit event(device& owner, event_timing timing = event_timing::off) : ref_(owner.create_event(timing)) {}
  event(event&& other) noexcept : ref_(std::exchange(other.ref_, {})) {}
  event& operator=(event&& other) noexcept {
    std::swap(ref_, other.ref_);
    return *this;
  }
  ~event() {
    if (ref_) ref_.owner()->destroy_event(ref_);
  }
  operator event_ref() const noexcept { return ref_; }
  [[nodiscard]] event_ref ref() const noexcept { return ref_; }
  void record(stream_ref stream) const { ref_.owner()->record(ref_, stream); }
  [[nodiscard]] bool complete() const { return ref_.owner()->query(ref_) == event_status::complete; }
  void synchronize() const { ref_.owner()->synchronize(ref_); }

 private:
  event_ref ref_;
};

/// Owns device or pinned memory.
class memory {
 public:
  memory() noexcept = default;
  memory(device& owner, memory_space space, std::size_t bytes)
      : device_(&owner), space_(space), address_(owner.allocate(space, bytes)), bytes_(bytes) {}
  memory(memory&& other) noexcept
      : device_(other.device_),
        space_(other.space_),
        address_(std::exchange(other.address_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  memory& operator=(memory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(space_, other.space_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~memory() {
    if (address_ != nullptr) device_->deallocate(space_, address_);
  }
  [[nodiscard]] void* data() const noexcept { return address_; }
  template <typename T>
  [[nodiscard]] T* as() const noexcept {
    return static_cast<T*>(address_);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  device* device_ = nullptr;
  memory_space space_ = memory_space::device;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ferry
