// The host device: hands out two bounded slabs of real memory, streams (host_stream.hpp) and events, and
// joins them with one link per direction (link.hpp).
//
// Ownership: the device owns everything it hands out; refs carry plain pointers into it. Streams and events
// stay allocated until the device dies, because tickets and queued stamps point at them.
// Threads: any. Memory and the lists of streams and events each have a lock of their own; none of them is
// taken when work is enqueued or an event is recorded, waited for or queried.
// Stream order: as device.hpp says; the checker is told of each call while the stream's producers are held back.
#include "ferry/host_device.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/arena.hpp"
#include "device/host_stream.hpp"
#include "device/link.hpp"
#include "device/memory_names.hpp"
#include "device/native.hpp"
#include "device/order_checker.hpp"
#include "device/pages.hpp"
#include "ferry/config.hpp"
#include "support/log.hpp"
#include "support/process.hpp"

namespace ferry {

namespace {

/// One bounded slab of memory, mapped once. Pages are there from when they are first touched until their bytes are
/// given back.
template <typename Exhausted>
class host_memory {
 public:
  host_memory(std::size_t bytes, space_names names, order_checker* checker)
      : names_(names), checker_(checker), arena_(checked(bytes, names)) {
    void* const mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      throw Exhausted(fmt::format("this machine cannot map {} of {} ({}); lower {}", format_bytes(bytes), names.words,
                                  std::generic_category().message(errno), names.variable),
                      bytes, 0);
    }
    base_ = static_cast<std::byte*>(mapped);
    mapped_bytes_ = bytes;
    madvise(base_, bytes, MADV_HUGEPAGE);  // only faster; no harm if the kernel declines
  }
  host_memory(host_memory const&) = delete;
  host_memory& operator=(host_memory const&) = delete;
  ~host_memory() { munmap(base_, mapped_bytes_); }

  void* allocate(std::size_t bytes) {
    if (bytes == 0)
      throw invalid_argument(fmt::format("zero bytes of {} asked for; ask for at least one", names_.words));
    std::lock_guard const lock(mutex_);
    // Compared first, because rounding an absurd size up to the alignment would overflow.
    auto const found = bytes <= arena_.capacity_bytes() ? arena_.allocate(bytes) : std::nullopt;
    if (!found) throw exhausted(bytes);
    auto* const address = base_ + found->offset;
    live_.emplace(address, *found);
    if (checker_ != nullptr) checker_->slab_added(address, bytes, names_.words);
    return address;
  }

  /// False if `address` was not handed out.
  bool deallocate(void const* address) {
    std::lock_guard const lock(mutex_);
    auto const found = live_.find(address);
    if (found == live_.end()) return false;
    if (checker_ != nullptr) checker_->slab_removed(address);
    discard_pages(base_ + found->second.offset, found->second.bytes);
    arena_.free(found->second);
    live_.erase(found);
    return true;
  }

 private:
  static std::size_t checked(std::size_t bytes, space_names names) {
    if (bytes < arena::alignment) {
      throw invalid_argument(fmt::format("a host device with {} bytes of {} holds nothing; raise {} to {} or more",
                                         bytes, names.words, names.variable, arena::alignment));
    }
    return bytes;
  }

  Exhausted exhausted(std::size_t bytes) const {
    return Exhausted(
        fmt::format("out of {}: {} needed, {} free of {} (largest free block {}); raise {} or hold less", names_.words,
                    format_bytes(bytes), format_bytes(arena_.free_bytes()), format_bytes(arena_.capacity_bytes()),
                    format_bytes(arena_.largest_free_bytes()), names_.variable),
        bytes, arena_.capacity_bytes());
  }

  space_names names_;
  order_checker* checker_;
  std::mutex mutex_;
  arena arena_;
  std::unordered_map<void const*, arena::block> live_;
  std::byte* base_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

class host_device_implementation final : public host_device {
 public:
  explicit host_device_implementation(host_device_options options);
  ~host_device_implementation() override;

  [[nodiscard]] device_capabilities const& capabilities() const noexcept override { return capabilities_; }

  [[nodiscard]] void* allocate(memory_space space, std::size_t bytes) override;
  void deallocate(memory_space space, void* address) noexcept override;
  void discard(void* address, std::size_t bytes) noexcept override { discard_pages(address, bytes); }

  [[nodiscard]] stream_ref create_stream(stream_kind kind, label const& name) override;
  void destroy_stream(stream_ref stream) noexcept override;
  [[nodiscard]] event_ref create_event(event_timing timing) override;
  void destroy_event(event_ref event) noexcept override;

  void launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
              unique_function<void()> work) override;
  void copy(stream_ref stream, label const& name, copy_direction direction, void* to, void const* from,
            std::size_t bytes) override;
  void record(event_ref event, stream_ref stream) override { own(stream).record(own(event)); }
  void wait(stream_ref stream, event_ref event) override { own(stream).wait(own(event)); }
  [[nodiscard]] event_status query(event_ref event) override;
  void synchronize(event_ref event) override;
  void synchronize(stream_ref stream) override { own(stream).synchronize(); }
  void drain(stream_ref stream) noexcept override {
    if (stream && stream.owner() == this && made_in_.is_this_process()) own(stream).drain();
  }
  [[nodiscard]] double elapsed_us(event_ref from, event_ref to) override;

  [[nodiscard]] order_hooks* order() noexcept override { return checker_.get(); }
  [[nodiscard]] std::vector<std::string> order_violations() const override;
  void set_link(copy_direction direction, link_speed speed) override { link_of(direction).set_speed(speed); }
  bool set_link_gbps(copy_direction direction, double gbps) override {
    link_of(direction).set_gbps(gbps);
    return true;
  }
  [[nodiscard]] link_speed link(copy_direction direction) const override { return link_of(direction).speed(); }

 private:
  [[nodiscard]] host_stream& own(stream_ref stream) const;
  [[nodiscard]] host_event& own(event_ref event) const;
  [[nodiscard]] link_clock::time_point stamp_of(event_ref event) const;
  [[nodiscard]] paced_link& link_of(copy_direction direction) {
    return direction == copy_direction::device_to_host ? device_to_host_ : host_to_device_;
  }
  [[nodiscard]] paced_link const& link_of(copy_direction direction) const {
    return direction == copy_direction::device_to_host ? device_to_host_ : host_to_device_;
  }

  support::process_mark made_in_;
  device_capabilities capabilities_;
  std::function<void(label const&)> before_operation_;
  unsigned compute_threads_;
  support::logger log_{log_level::warning};
  std::unique_ptr<order_checker> checker_;
  host_memory<out_of_device_memory> device_memory_;
  host_memory<out_of_pinned_memory> pinned_memory_;
  paced_link device_to_host_;
  paced_link host_to_device_;

  std::mutex events_mutex_;
  std::deque<host_event> events_;
  std::vector<host_event*> spare_events_;
  std::mutex streams_mutex_;
  std::deque<host_stream> streams_;
};

host_device_implementation::host_device_implementation(host_device_options options)
    : capabilities_{.name = "host",
                    .device_bytes = options.device_bytes,
                    .pinned_bytes = options.pinned_bytes,
                    .host_addressable = true},
      before_operation_(std::move(options.before_operation)),
      compute_threads_(options.compute_threads),
      checker_(options.check_order ? std::make_unique<order_checker>() : nullptr),
      device_memory_(options.device_bytes, device_names, checker_.get()),
      pinned_memory_(options.pinned_bytes, pinned_names, checker_.get()),
      device_to_host_(options.device_to_host),
      host_to_device_(options.host_to_device) {
  auto const beside = checked_contention(options.beside);
  device_to_host_.disturbed_by(host_to_device_, beside.out_beside_back);
  host_to_device_.disturbed_by(device_to_host_, beside.back_beside_out);
}

host_device_implementation::~host_device_implementation() {
  // All of them before the first is freed: they may be waiting for each other.
  for (auto& stream : streams_) stream.close();
}

void* host_device_implementation::allocate(memory_space space, std::size_t bytes) {
  return space == memory_space::device ? device_memory_.allocate(bytes) : pinned_memory_.allocate(bytes);
}

void host_device_implementation::deallocate(memory_space space, void* address) noexcept {
  if (address == nullptr) return;
  bool const known =
      space == memory_space::device ? device_memory_.deallocate(address) : pinned_memory_.deallocate(address);
  if (!known) {
    log_.warning("{} is no {} of this device: freed twice, or in the wrong space; ignored", address,
                 names_of(space).words);
  }
}

stream_ref host_device_implementation::create_stream(stream_kind kind, label const& name) {
  made_in_.require("the host device");
  std::lock_guard const lock(streams_mutex_);
  stream_environment const environment{device_to_host_, host_to_device_, before_operation_, compute_threads_,
                                       checker_.get()};
  return {*this, &streams_.emplace_back(kind, name, environment)};
}

void host_device_implementation::destroy_stream(stream_ref stream) noexcept {
  if (stream && stream.owner() == this && made_in_.is_this_process()) own(stream).close();
}

event_ref host_device_implementation::create_event(event_timing timing) {
  std::lock_guard const lock(events_mutex_);
  if (spare_events_.empty()) {
    spare_events_.reserve(events_.size() + 1);  // so that destroying an event never allocates
    spare_events_.push_back(&events_.emplace_back());
  }
  auto* const event = spare_events_.back();
  spare_events_.pop_back();
  event->timing = timing;
  return {*this, event};
}

void host_device_implementation::destroy_event(event_ref event) noexcept {
  if (!event || event.owner() != this) return;
  auto& gone = own(event);
  {
    std::lock_guard const lock(gone.mutex);
    if (checker_ != nullptr) checker_->forget_event(&gone);
    gone.mark = {};  // a stamp still queued finds another mark and leaves the event alone
    gone.stamp.reset();
  }
  std::lock_guard const lock(events_mutex_);
  spare_events_.push_back(&gone);
}

void host_device_implementation::launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
                                        unique_function<void()> work) {
  if (!work) throw invalid_argument(fmt::format("the launch '{}' has no function; pass one", name.view()));
  own(stream).launch(name, accesses, std::move(work));
}

void host_device_implementation::copy(stream_ref stream, label const& name, copy_direction direction, void* to,
                                      void const* from, std::size_t bytes) {
  auto& target = own(stream);
  if (bytes == 0) return;
  if (to == nullptr || from == nullptr) {
    throw invalid_argument(fmt::format("the copy '{}' has a null pointer; pass memory on both sides", name.view()));
  }
  target.copy(name, direction, to, from, bytes);
}

event_status host_device_implementation::query(event_ref event) {
  auto& asked = own(event);
  std::lock_guard const lock(asked.mutex);
  if (asked.mark.stream == nullptr) return event_status::complete;
  auto const status = asked.mark.stream->status(asked.mark.sequence);
  // Failed work is over too. Under the event's lock: a mark recorded meanwhile has not been seen.
  if (status != event_status::pending && checker_ != nullptr) checker_->host_saw(&asked);
  return status;
}

void host_device_implementation::synchronize(event_ref event) {
  made_in_.require("the host device");
  auto& awaited = own(event);
  auto const mark = awaited.current();
  if (mark.stream == nullptr) return;
  mark.stream->await_completion(mark.sequence);
  if (checker_ != nullptr) checker_->host_saw(&awaited);
  mark.stream->synchronize(mark.sequence);
}

double host_device_implementation::elapsed_us(event_ref from, event_ref to) {
  return std::chrono::duration<double, std::micro>(stamp_of(to) - stamp_of(from)).count();
}

link_clock::time_point host_device_implementation::stamp_of(event_ref event) const {
  auto const& asked = own(event);
  std::lock_guard const lock(asked.mutex);
  if (asked.timing == event_timing::off) {
    throw invalid_argument("elapsed time of an event without timing; create it with event_timing::on");
  }
  if (!asked.stamp || asked.mark.stream->status(asked.mark.sequence) != event_status::complete) {
    throw invalid_argument("elapsed time of an event that is not complete; record and synchronize it first");
  }
  return *asked.stamp;
}

std::vector<std::string> host_device_implementation::order_violations() const {
  return checker_ != nullptr ? checker_->violations() : std::vector<std::string>{};
}

host_stream& host_device_implementation::own(stream_ref stream) const {
  made_in_.require("the host device");
  return native_of<host_stream>(*this, stream, "stream");
}

host_event& host_device_implementation::own(event_ref event) const {
  return native_of<host_event>(*this, event, "event");
}

}  // namespace

std::unique_ptr<host_device> make_host_device(host_device_options options) {
  return std::make_unique<host_device_implementation>(std::move(options));
}

}  // namespace ferry
