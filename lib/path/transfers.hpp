// Transfers of items between the tiers: their records, the engine that carries them out, and the items that wait until
// fewer bytes are on their way out. What a transfer's end means for its item is the path's business.
//
// Threads: the session's only; the engine's own thread works behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "path/link_schedule.hpp"
#include "path/transfer_engine.hpp"
#include "store/entry.hpp"

namespace ferry::path {

class transfers {
 public:
  /// Throws: `invalid_argument` unless the steps of the link's schedule ascend from 0.
  transfers(device& on, engine_options options, std::vector<link_change> const& schedule = {})
      : device_(on), schedule_(schedule), engine_(on, options) {}
  transfers(transfers const&) = delete;
  transfers& operator=(transfers const&) = delete;

  /// Makes a record if there is none to be had. What can fail is done before bytes and states change hands.
  void reserve();
  /// A transfer of the item, to be filled in and submitted. Requires: a record is reserved.
  [[nodiscard]] transfer& begin(store::entry& e, copy_direction direction);
  void submit(transfer& t) { engine_.submit(t); }

  /// One that has ended, and holds no budget and no gates any more; or null. It is put back when its end is taken in.
  [[nodiscard]] transfer* next_ended();
  /// On a virtual clock a submission may end in the call that submits it.
  [[nodiscard]] bool has_ended_at_once() const noexcept { return engine_.has_ended_at_once(); }
  void put_back(transfer& ended) { idle_.push_back(&ended); }

  /// Submitted, and not ended.
  [[nodiscard]] std::size_t under_way() const noexcept { return under_way_; }
  /// All records, those that are not under way too.
  [[nodiscard]] std::span<std::unique_ptr<transfer> const> records() const noexcept { return records_; }
  /// The first step that one under way belongs to; the largest number if none does.
  [[nodiscard]] std::uint64_t first_open_step() const noexcept;
  /// All that the link still has to bring back.
  [[nodiscard]] std::size_t coming_bytes() const noexcept;

  /// The item is to go out as soon as so many bytes may be in flight.
  void defer(store::entry& e) { deferred_.push_back(e); }
  /// The item that has waited longest, if it has no more bytes than that: it waits no longer. Or null.
  [[nodiscard]] store::entry* next_deferred(std::size_t free_bytes) noexcept;
  [[nodiscard]] bool any_deferred() const noexcept { return !deferred_.empty(); }
  void forget_deferred() noexcept { deferred_.clear(); }

  /// Bytes have come free, or what is needed next is known better: more might come back ahead of its need.
  void look_for_fetches() noexcept { fetch_due_ = true; }
  [[nodiscard]] bool should_look_for_fetches() const noexcept { return fetch_due_; }
  void looked_for_fetches() noexcept { fetch_due_ = false; }

  /// Before a step: the link gets the speed that its schedule has for it.
  void set_link_for(std::uint64_t step, support::logger const& log) { schedule_.begin_step(step, device_, log); }
  /// Where nothing moved in the step before, nothing is likely to: the engine may sleep, and be woken if that is wrong.
  void begin_step();
  void end_step() { engine_.set_alert(false); }
  [[nodiscard]] decide::link_view const& link() const noexcept { return engine_.link(); }

 private:
  using deferred_list = boost::intrusive::list<
      store::entry, boost::intrusive::member_hook<store::entry, store::list_hook, &store::entry::awaiting_offload>,
      boost::intrusive::constant_time_size<false>>;

  device& device_;
  link_schedule schedule_;
  std::vector<std::unique_ptr<transfer>> records_;
  std::vector<transfer*> idle_;
  std::size_t under_way_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t total_before_step_ = 0;
  deferred_list deferred_;
  bool fetch_due_ = false;
  transfer_engine engine_;  // last: its thread ends before what it works on
};

}  // namespace ferry::path
