// The session's inside: the five verbs of the path, each in the file of its name, and `progress`. What it asks and whom
// it tells stands around it: decisions in lib/decide, the plan in force in lib/follow, what happened in lib/observe.
//
// Everything here belongs to the session's thread. The only other thread is the transfer engine's, reached
// through its queues: `progress` takes in what it has ended, and calls of the trainer make progress.
// Blocks and leases hold the core, so that one that outlives its session still gives back its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decide/forecast.hpp"
#include "decide/need_order.hpp"
#include "decide/policy.hpp"
#include "decide/profile_recorder.hpp"
#include "decide/step_clock.hpp"
#include "ferry/error.hpp"
#include "ferry/plan.hpp"
#include "ferry/session.hpp"
#include "follow/adaptation.hpp"
#include "follow/plan_follower.hpp"
#include "observe/ledger.hpp"
#include "observe/step_tape.hpp"
#include "path/recipe_checks.hpp"
#include "path/room.hpp"
#include "path/scratch.hpp"
#include "path/transfers.hpp"
#include "store/happenings.hpp"
#include "store/tiered_store.hpp"
#include "support/log.hpp"
#include "support/pause.hpp"
#include "support/process.hpp"

namespace ferry::path {

using decide::decision;
using decide::forecast;
using decide::need_order;
using decide::policy;
using decide::profile_recorder;
using decide::step_clock;
using observe::asked;
using observe::measurement;
using store::device_region;
using store::entry;
using store::event_handle;
using store::item_event;

class session_core final : private room_path {
 public:
  session_core(device& on, config settings);
  session_core(session_core const&) = delete;
  session_core& operator=(session_core const&) = delete;

  /// In a forked child nothing of it can be used, or must be touched: it is the parent's.
  [[nodiscard]] support::process_mark const& made_in() const noexcept { return holders_.made_in; }

  /// The session is gone; the core follows when the last block and lease have ended.
  void close() noexcept;

  void begin_step(step_kind kind);
  void end_step();
  void abandon_step() noexcept;
  void synchronize();

  void enter_segment(pass which, item_key const& place, stream_ref stream);
  void leave_segment() noexcept;

  [[nodiscard]] block allocate(std::size_t bytes, stream_ref stream, label const& purpose);
  [[nodiscard]] block allocate_at(std::span<device_view const> pieces, stream_ref stream, label const& purpose);
  void free(block& freed) noexcept;

  lease save(item_key const& key, block&& memory, stream_ref stream, recipe&& how);
  lease save(item_key const& key, device_view memory, stream_ref stream, release_callback on_release, recipe&& how);
  [[nodiscard]] lease restore(item_key const& key, stream_ref stream);
  void end(lease& ended) noexcept;
  void release(item_key const& key);

  [[nodiscard]] std::optional<item_state> state(item_key const& key) const;
  void set_placement(placement_function choose);
  void follow(plan planned);
  [[nodiscard]] plan const* followed() const noexcept { return follower_.followed(); }
  void set_budget(byte_amount budget);
  void idle_hint(double us);
  [[nodiscard]] outlook foresee(item_key const& key);
  void record_profile(bool on) noexcept { recorder_.record_always(on); }
  [[nodiscard]] std::optional<profile> recorded_profile();
  [[nodiscard]] session_stats stats() const;
  [[nodiscard]] std::string explain() const;
  [[nodiscard]] config const& settings() const noexcept { return settings_; }
  /// For want of room: with the budget that is enough, where that can be found out.
  [[nodiscard]] std::optional<out_of_device_memory> advised(out_of_device_memory const& problem) noexcept;

 private:
  ~session_core();
  void drop_holder() noexcept {
    if (--holders_.count == 0) delete this;
  }

  // In this order each file calls only those above it; but bringing back and recomputing, which need each other, and
  // room_, which calls back.

  // session_core.cpp
  [[nodiscard]] bool evaluating() const noexcept { return step_ == step_kind::evaluate; }
  void require_step(char const* call) const;
  void require_own(stream_ref stream) const;
  [[nodiscard]] entry& require(item_key const& key);
  [[nodiscard]] lease lend(entry& e, stream_ref stream) noexcept;
  void release_if_unused(entry& e) noexcept;
  void give_up_device_bytes(entry& e) noexcept override;

  // offload.cpp
  void offload(entry& e) override;
  void offload_deferred();
  void offload_ended(transfer& ended, entry& e);
  void next_choice(entry& e, reason dropped, reason kept);

  // prefetch.cpp
  void prefetch(entry& e, device_region&& region, event_handle position = {});
  void prefetch_ahead();
  void fetch_planned();
  void fetch_unplanned();
  [[nodiscard]] std::optional<outlook> will_be_late(entry const& e);
  void prefetch_ended(transfer& ended, entry& e);

  // progress.cpp
  void progress() override;
  void transfer_ended(transfer& ended);
  void see_to_others(char const* call);
  void wait_for_all_transfers() noexcept;
  void bound_run_ahead();
  void note_run_ahead();
  void wait_while_ahead(patience& waiting);

  // bring_back.cpp
  void bring_back(entry& e, stream_ref stream);
  [[nodiscard]] bool forget_device_copy(entry& e);
  void order_after_writer(entry& e, stream_ref stream);
  void wait_for_transfer(entry const& e);
  enum class wait_result : std::uint8_t { arrived, still_hosted, recipe_is_sooner };
  [[nodiscard]] wait_result await_arrival(entry& e, stream_ref stream, bool may_recompute, outlook& seen);
  [[nodiscard]] std::optional<std::size_t> stop_prefetch(entry& e, stream_ref stream);
  [[nodiscard]] bool recompute_instead(entry& e, stream_ref stream, outlook const& seen, std::size_t rows_there = 0);

  // recompute.cpp
  void recompute(entry& e, stream_ref stream, reason why, outlook const& seen = {}, std::size_t rows_there = 0);
  void run_recipe(entry& e, stream_ref stream, std::span<entry* const> inputs, void* working, std::size_t rows_there,
                  bool ahead);
  void recompute_ahead(stream_ref stream, double idle_us);
  [[nodiscard]] entry& require_input(entry const& e, item_key const& key);
  bool rebuild_ahead(entry& e, stream_ref stream, reason why, outlook const& seen = {});
  [[noreturn]] void throw_cycle(entry const& e) const;

  // follow_plan.cpp
  [[nodiscard]] decision decide(entry& e);
  void carry_out_plan(pass which, item_key const& key, stream_ref stream);
  void place_anew();

  // segment.cpp
  void infer_segment(pass which, item_key const& key, stream_ref stream);
  void begin_segment(pass which, item_key const& place, stream_ref stream);
  void learn();

  // restore.cpp
  void check_recipe(entry& e, stream_ref stream);

  // save.cpp
  void check_recipe(recipe_checks::subject const& item, stream_ref stream, recipe& how);
  lease settle_in(entry& e, device_region&& region, event_handle ready, stream_ref stream, release_callback on_release,
                  recipe&& how);
  lease hold_for_now(entry& e, device_region&& region, event_handle ready, stream_ref stream,
                     release_callback on_release);

  // change_budget.cpp
  void change_budget();
  [[nodiscard]] std::string holder_of_memory();
  void wait_for_quiet_memory();
  void resize_device_memory(std::size_t bytes);
  void budget_changed(std::size_t before);

  // session.cpp
  void require_free(store::home const& place, label const& purpose);
  [[nodiscard]] block hand_out(device_region&& region, stream_ref stream);
  void release_everything() noexcept;
  void learn_before_step();
  void forget_step() noexcept;
  void leave_step(bool whole);
  [[nodiscard]] std::size_t held_bytes() noexcept;
  void name_shortcomings() noexcept;
  void name_idle_settings() noexcept;
  void write_profile() noexcept;
  void finish_log() noexcept;

  /// The session, its blocks and its leases: the last of them takes the core along.
  struct {
    support::process_mark made_in;
    std::uint32_t count = 1;
  } holders_;
  device& device_;
  config settings_;
  support::logger log_;
  std::optional<step_kind> step_;  // the one under way

  store::tiered_store store_;
  policy policy_;
  need_order order_;
  step_clock clock_;
  profile_recorder recorder_;
  observe::ledger ledger_;
  observe::step_tape tape_;
  /// A budget that is not in force yet.
  struct pending_budget {
    byte_amount wanted;
    bool wait_told = false;
  };
  std::optional<pending_budget> pending_budget_;

  scratch scratch_;
  recipe_checks checks_;

  transfers transfers_;  // its thread ends before what it works on
  forecast forecast_;
  follow::plan_follower follower_;
  follow::adaptation adaptation_;
  room room_;
};

}  // namespace ferry::path
