// The ledger: what the session did and why, added up, and every microsecond of waiting charged to an item.
//
// What is timed on a stream is read once it is over; until then it stands here as a measurement. Where FERRY_TRACE or
// FERRY_STATS want every step written down, the step log gets it too. Threads: the session's only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decide/link_view.hpp"
#include "decide/step_clock.hpp"
#include "ferry/config.hpp"
#include "ferry/plan.hpp"
#include "ferry/stats.hpp"
#include "observe/setting_effects.hpp"
#include "observe/step_log.hpp"
#include "store/happenings.hpp"
#include "store/tiered_store.hpp"
#include "support/run_file.hpp"

namespace ferry::observe {

/// Something that was timed on a stream, to be read once it is over.
struct measurement {
  enum class kind : std::uint8_t {
    exposed,         // compute stood still until the item was there
    exposed_so_far,  // until it was decided not to wait any longer
    starved,         // while the host waited for bytes
    recipe,
    recipe_ahead,
    part_of_recipe,
  };
  kind what;
  store::entry* item;
  store::event_handle from;
  store::event_handle to;
  decide::step_clock::stretch_id in;
  step_log::place place;
};

class ledger {
 public:
  /// Throws: as the step log's constructor.
  ledger(device& on, config const& settings, support::logger const& log, store::tiered_store& store,
         decide::step_clock& clock);

  /// Tells whoever listens, in tests.
  void met(store::item_event what, store::entry const& e) const {
    if (listener_ != nullptr) tell_listener(what, e);
  }
  void count(reason why) noexcept { ++totals_.reasons[static_cast<std::size_t>(why)]; }
  void count(reason why, store::entry& e, outlook const& seen = {}) noexcept {
    e.record.stats.last = why;
    count(why);
    effects_.weighed |= seen.transfer_us > 0 && seen.recipe_us > 0;
    if (steps_.on()) steps_.decided(e, why, seen);
  }

  /// Times the stream from `from` until now, for the item's account. Where no mark can be recorded nothing is measured:
  /// what was done stays done.
  void measure(measurement::kind what, store::entry* e, store::event_handle from, stream_ref stream) noexcept;
  /// Reads what is over; with `wait`, all there is.
  void take_measurements(bool wait);
  /// There are many to be read: somebody should.
  [[nodiscard]] bool measured_much() const noexcept { return measurements_.size() >= 64; }
  [[nodiscard]] bool measured_all() const noexcept { return measurements_.empty(); }

  void transferred(store::transfer const& ended);
  /// The host has waited for device bytes, until now. What of that held up compute is measured.
  void waited_for_bytes(store::entry const* blamed, double us);
  /// The host has been held back by FERRY_RUN_AHEAD until now.
  void held_back(double us);

  /// Somebody wants to have the session's step as a file.
  [[nodiscard]] bool wants_profile() const noexcept { return profile_file_.is_open(); }
  void write(profile const& step) { profile_file_.append(to_json(step)); }

  /// A step begins; those before it are written, as far as their work is over. `first_open`: the first step that
  /// transfers under way belong to.
  void begin_step(plan const* followed, std::uint64_t first_open);

  [[nodiscard]] session_stats& totals() noexcept { return totals_; }
  [[nodiscard]] session_stats const& totals() const noexcept { return totals_; }
  [[nodiscard]] setting_effects& effects() noexcept { return effects_; }
  [[nodiscard]] step_log& steps() noexcept { return steps_; }
  /// What of the statistics others know.
  struct known_elsewhere {
    std::uint64_t plans = 0;
    std::uint64_t plan_changes = 0;
    bool planned = false;
    bool placed_by_function = false;
    bool weighed = false;
  };
  /// All there is to tell now; what is over counts, taken in or not.
  [[nodiscard]] session_stats stats(decide::link_view const& link, config const& settings,
                                    known_elsewhere const& others) const;

 private:
  void tell_listener(store::item_event what, store::entry const& e) const;
  [[nodiscard]] std::optional<double> lasted_us(measurement const& m, event_status end) const;
  static void add(measurement::kind what, double took_us, session_stats& all, item_counts* item);
  void charge(measurement const& m, double took_us);
  void add_what_is_over(session_stats& now) const;

  device& device_;
  order_hooks* const listener_;  // null unless order is checked
  store::tiered_store& store_;
  decide::step_clock& clock_;
  step_log steps_;
  support::run_file profile_file_;
  setting_effects effects_;
  std::vector<measurement> measurements_;
  session_stats totals_;
};

}  // namespace ferry::observe
