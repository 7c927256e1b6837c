// A device on which chance decides who gets on when: the trainer's thread, the transfer engine, the streams. It hands
// every call to another device whose clock is virtual, and before a call lets something happen, or fails it. All of it
// in one thread, from one number: so whatever goes wrong can be had again.
//
// The transfer engine, a thread beside a real device and an agent beside one with a virtual clock, is a fiber here. It
// may be interrupted wherever it calls the device, and need not notice at once that there is something to do.
//
// Ownership: owns the device that it hands calls to, unlike its clock. Threads: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/order_checker.hpp"
#include "explore/chance.hpp"
#include "explore/coverage.hpp"
#include "explore/exploration.hpp"
#include "ferry/error.hpp"
#include "ferry/sim_device.hpp"
#include "support/fiber.hpp"

namespace ferry::testing {

/// A call that the explored device has failed, without doing anything.
class call_failed : public error {
 public:
  using error::error;
};

/// Nothing that catches Ferry's errors should catch it.
class endless : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class explored_device final : public device, public virtual_time {
 public:
  /// `clock` is the virtual clock of `inner`, and may be that device itself. Where that checks stream order itself,
  /// its checker is asked, otherwise one of its own.
  explored_device(std::unique_ptr<device> inner, sim_device& clock, exploration const& how, std::uint64_t seed);
  ~explored_device() override;

  /// Calls fail, and the device is lost, only then.
  void set_stormy(bool stormy) noexcept { stormy_ = stormy; }
  [[nodiscard]] bool is_stormy() const noexcept { return stormy_; }
  [[nodiscard]] bool is_lost() const noexcept { return lost_; }
  /// The nth call of that name from now on fails, whatever the weather: "record", "create_event", "copy", ...
  void fail(std::string call, int nth = 1) { told_.emplace_back(std::move(call), nth); }
  /// What happens from now on counts there.
  void count_in(coverage& total) noexcept { listener_.count_in(&total); }
  /// From now on the device is lost.
  void lose() noexcept { lost_ = true; }
  /// What is drawn from now on is drawn from this.
  void draw_from(std::uint64_t seed) noexcept { chance_ = chance(seed); }
  [[nodiscard]] std::uint64_t failed_calls() const noexcept { return failed_calls_; }
  [[nodiscard]] std::vector<std::string> order_violations() const;

  [[nodiscard]] device_capabilities const& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return clock_.now(); }
  [[nodiscard]] virtual_time* time() noexcept override { return this; }
  [[nodiscard]] order_hooks* order() noexcept override { return &listener_; }

  [[nodiscard]] void* allocate(memory_space space, std::size_t bytes) override;
  void deallocate(memory_space space, void* address) noexcept override;
  [[nodiscard]] stream_ref create_stream(stream_kind kind, label const& name) override;
  void destroy_stream(stream_ref stream) noexcept override;
  [[nodiscard]] event_ref create_event(event_timing timing) override;
  void destroy_event(event_ref event) noexcept override;

  void launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
              unique_function<void()> work) override;
  void copy(stream_ref stream, label const& name, copy_direction direction, void* to, void const* from,
            std::size_t bytes) override;
  void record(event_ref event, stream_ref stream) override;
  void wait(stream_ref stream, event_ref event) override;
  [[nodiscard]] event_status query(event_ref event) override;
  void synchronize(event_ref event) override;
  void synchronize(stream_ref stream) override;
  void drain(stream_ref stream) noexcept override;
  [[nodiscard]] double elapsed_us(event_ref from, event_ref to) override;
  bool set_link_gbps(copy_direction direction, double gbps) override { return inner_->set_link_gbps(direction, gbps); }

  [[nodiscard]] bool is_punctual() const noexcept override { return false; }
  void add(agent& added) override;
  void remove(agent& removed) noexcept override;
  bool settle() override;
  void pass_time() override { pass(std::nullopt); }
  void pass_time(std::chrono::nanoseconds longest) override { pass(longest); }

 private:
  /// An agent as a fiber. It is inside `act` or between two of them.
  struct actor {
    agent* who = nullptr;
    std::unique_ptr<fiber> line;
    bool inside = false;
    bool blocked = false;  ///< inside, and waits for the device
    bool stuck = false;    ///< what it waits for never ends
    bool moved = false;    ///< in its last act
    bool leaving = false;
  };

  static constexpr std::uint64_t most_calls = 1'000'000;
  void take_turns();
  void before_call(char const* what);
  [[nodiscard]] bool was_told_to_fail(char const* what);
  void before_waiting();
  void pass(std::optional<std::chrono::nanoseconds> longest);
  void slip();
  bool let_act(actor& chosen);
  bool let_some_act();
  bool let_all_act();
  void block(event_ref until);
  void block(stream_ref until);
  [[nodiscard]] order_checker::stream_id id_of(stream_ref stream) const { return ids_.at(stream.native()); }
  /// What another device's is stays so: the one inside rejects it.
  template <typename Ref>
  [[nodiscard]] Ref inner_of(Ref ours) const noexcept {
    return ours.owner() == this ? Ref(*inner_, ours.native()) : ours;
  }

  std::unique_ptr<device> inner_;
  sim_device& clock_;
  exploration const how_;
  chance chance_;
  device_capabilities capabilities_;
  std::unique_ptr<order_checker> checker_;  // null where the inner device has one
  listener listener_;
  std::unordered_map<void*, order_checker::stream_id> ids_;
  std::vector<std::unique_ptr<actor>> actors_;
  actor* acting_ = nullptr;  // whose fiber runs; null: the trainer's thread
  bool unseen_ = false;      // something has happened since the trainer's thread last waited
  bool stormy_ = false;
  bool lost_ = false;
  std::vector<std::pair<std::string, int>> told_;  // calls to fail, and how many of that name are left until then
  std::uint64_t calls_ = 0;
  std::uint64_t limit_ = most_calls;
  std::uint64_t failed_calls_ = 0;
};

/// Whether calls to an explored device may fail, as long as this lives.
class exposure {
 public:
  exposure(explored_device* of, bool stormy) : of_(of), before_(of != nullptr && of->is_stormy()) {
    if (of_ != nullptr) of_->set_stormy(stormy);
  }
  exposure(exposure const&) = delete;
  exposure& operator=(exposure const&) = delete;
  ~exposure() {
    if (of_ != nullptr) of_->set_stormy(before_);
  }

 private:
  explored_device* of_;
  bool before_;
};

}  // namespace ferry::testing
