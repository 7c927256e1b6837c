// The session's inside. Its functions stand in the files of the path: save.cpp, offload.cpp, prefetch.cpp,
// restore.cpp, recompute.cpp; session.cpp has the steps, room.cpp the room and books.cpp the books.
//
// Everything here belongs to the session's thread. The only other thread is the transfer engine's, reached
// through its queues: `progress` takes in what it has ended, and every call of the trainer makes progress.
// Blocks and leases hold the core, so that one that outlives its session still gives back its bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ferry/session.hpp"
#include "path/conductor.hpp"
#include "path/effects.hpp"
#include "path/journal.hpp"
#include "path/need_order.hpp"
#include "path/policy.hpp"
#include "path/recorder.hpp"
#include "path/transfer_engine.hpp"
#include "store/tiered_store.hpp"
#include "support/log.hpp"
#include "support/pause.hpp"

namespace ferry::path {

using store::device_region;
using store::entry;
using store::event_handle;

class session_core {
 public:
  session_core(device& on, config settings);
  session_core(session_core const&) = delete;
  session_core& operator=(session_core const&) = delete;

  /// The session is gone; the core follows when the last block and lease have ended.
  void close() noexcept;

  void begin_step();
  void end_step();
  void synchronize();

  [[nodiscard]] block allocate(std::size_t bytes, stream_ref stream, label const& purpose);
  void free(block& freed) noexcept;

  lease save(item_key const& key, block&& memory, stream_ref stream, recipe how);
  lease save(item_key const& key, device_view memory, stream_ref stream, release_callback on_release, recipe how);
  [[nodiscard]] lease restore(item_key const& key, stream_ref stream);
  void end(lease& ended) noexcept;
  void release(item_key const& key);

  [[nodiscard]] std::optional<item_state> state(item_key const& key) const;
  void set_placement(placement_function choose) { policy_.set_function(std::move(choose)); }
  void follow(plan planned);
  [[nodiscard]] plan const* followed() const noexcept { return conductor_ ? &conductor_->followed() : nullptr; }
  void record_profile(bool on) noexcept { record_ = on; }
  [[nodiscard]] std::optional<profile> recorded_profile();
  [[nodiscard]] session_stats stats();
  [[nodiscard]] std::string explain();
  [[nodiscard]] config const& settings() const noexcept { return settings_; }

 private:
  ~session_core();
  void let_go() noexcept {
    if (--holders_ == 0) delete this;
  }

  // session.cpp: checks and the run-ahead bound
  void release_everything() noexcept;
  void require_step(char const* call) const;
  void require_own(stream_ref stream) const;
  [[nodiscard]] entry& require(item_key const& key);
  void bound_run_ahead(stream_ref stream);
  void enter_segment(pass which, item_key const& key, stream_ref stream);
  void progress();
  void wait_while_ahead(patience& waiting);
  void wait_for_all_transfers() noexcept;

  /// Something that was timed on a stream, to be read once it is over.
  struct measurement {
    enum class kind : std::uint8_t { exposed, recipe };
    kind what;
    entry* item;
    event_handle from;
    event_handle to;
    std::int32_t stretch;  ///< of the recorder
    journal::place place;
  };

  // books.cpp: what happened, and why
  void count(reason why) noexcept { ++totals_.reasons[static_cast<std::size_t>(why)]; }
  void count(reason why, entry& e, outlook const& seen = {}) noexcept {
    e.stats.last = why;
    count(why);
    felt_.weighed |= seen.transfer_us > 0 && seen.recipe_us > 0;
    if (journal_.on()) journal_.decided(e, why, seen);
  }
  /// Times the stream from `from` until now, for the item's account.
  void measure(measurement::kind what, entry& e, event_handle from, stream_ref stream);
  void take_measurements(bool wait);
  void account(measurement const& m, double took_us);
  static void sign(transfer& t, entry const& e);
  void account(transfer const& ended);
  void waited_for_bytes(entry* blamed, double us);
  void held_back(double us);
  void note_run_ahead();
  void write_journal();
  void finish_journal() noexcept;

  // room.cpp: device bytes
  [[nodiscard]] device_region make_room(std::size_t bytes, label const& name);
  [[nodiscard]] device_region make_room_adopting(device_view memory);
  template <typename Allocate>
  [[nodiscard]] device_region wait_for_room(std::size_t bytes, label const& name, Allocate allocate);
  bool give_way(bool firmly);
  bool ferry_again();
  [[nodiscard]] entry* oldest_offloading() noexcept;
  [[nodiscard]] bool bytes_are_coming() const noexcept;
  [[noreturn]] void throw_no_room(std::size_t bytes, label const& name);
  void note_forced_bytes() noexcept;

  // save.cpp
  lease settle_in(entry& e, device_region&& region, stream_ref stream, release_callback on_release, recipe how);
  [[nodiscard]] lease lend(entry& e, stream_ref stream) noexcept;
  void let_be(entry& e) noexcept;

  // offload.cpp
  void offload(entry& e);
  void offload_deferred();
  void offload_ended(transfer& ended, entry& e);
  void next_choice(entry& e, reason dropped, reason kept);
  [[nodiscard]] transfer& new_transfer(entry& e, copy_direction direction);
  void transfer_ended(transfer& ended);

  // prefetch.cpp
  void prefetch(entry& e, device_region&& region, event_handle position = {});
  void prefetch_ahead();
  void prefetch_ended(transfer& ended, entry& e);

  // restore.cpp
  void bring_back(entry& e, stream_ref stream);
  [[nodiscard]] bool writer_failed(entry const& e) const;
  [[nodiscard]] bool forget_device_copy(entry& e);
  void order_after_writer(entry& e, stream_ref stream);
  void wait_for_transfer(entry const& e);
  void await_arrival(entry& e, stream_ref stream);
  [[nodiscard]] bool stop_prefetch(entry& e, stream_ref stream);
  [[nodiscard]] bool recompute_instead(entry& e, stream_ref stream, outlook const& seen);
  [[nodiscard]] double arrival_us(entry const& e) const;
  [[nodiscard]] double rebuild_us(entry const& e, double limit) const;
  [[nodiscard]] bool recipe_is_sooner(entry const& e, outlook& seen) const;

  // conduct.cpp: following a plan, and making one
  [[nodiscard]] decision decide(entry const& e);
  void conduct(pass which, item_key const& key, stream_ref stream);
  void fetch_planned();
  void plan_if_ready();
  [[nodiscard]] hardware measured_hardware() const;
  void forget_plan(std::string const& why);

  // recompute.cpp
  void recompute(entry& e, stream_ref stream, reason why, outlook const& seen = {});
  void run_recipe(entry& e, stream_ref stream, std::span<entry* const> inputs);
  [[noreturn]] void throw_cycle(entry const& e) const;

  /// A fetch whose position the trainer has reached.
  struct due_fetch {
    entry* item;
    event_handle position;
  };
  using deferred_list =
      boost::intrusive::list<entry, boost::intrusive::member_hook<entry, store::list_hook, &entry::awaiting_offload>,
                             boost::intrusive::constant_time_size<false>>;

  device& device_;
  config settings_;
  support::logger log_;
  std::uint32_t holders_ = 1;
  bool in_step_ = false;

  store::tiered_store store_;
  policy policy_;
  need_order order_;
  recorder recorder_;
  journal journal_;
  effects felt_;
  std::optional<conductor> conductor_;
  std::vector<due_fetch> due_fetches_;  // in the plan's order
  std::size_t next_fetch_ = 0;
  bool record_ = false;
  std::optional<profile> measured_;  // what the plan in force was made from
  bool plan_is_ours_ = false;        // made by policy auto, so it may be forgotten
  bool planning_given_up_ = false;
  std::uint32_t warm_steps_ = 0;
  deferred_list deferred_;
  std::vector<std::unique_ptr<transfer>> transfers_;
  std::vector<transfer*> idle_transfers_;
  std::size_t transfers_under_way_ = 0;
  std::uint64_t transfer_order_ = 0;
  bool prefetch_due_ = false;
  bool making_room_ = false;

  std::vector<event_handle> segment_marks_;
  item_key last_segment_;
  pass last_pass_ = pass::forward;
  bool segment_entered_ = false;

  std::vector<device_region> blocks_;  // of blocks not saved, by their slot
  std::vector<std::uint32_t> idle_slots_;
  std::vector<entry*> rebuilding_;  // recipes that wait for their inputs, outermost first
  std::vector<measurement> measurements_;
  std::uint64_t transfers_before_step_ = 0;
  std::size_t forced_peak_bytes_ = 0;
  std::uint32_t last_slot_ = 0;         // of the newest block
  std::size_t scratch_bytes_ = 0;       // blocks not saved
  std::size_t scratch_peak_bytes_ = 0;  // in this step
  std::size_t scratch_reserve_bytes_ = 0;
  session_stats totals_;

  transfer_engine engine_;  // last: its thread ends before what it works on
};

}  // namespace ferry::path
