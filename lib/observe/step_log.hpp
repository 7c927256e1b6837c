// The step log: what became of every item in every step, when and why. FERRY_TRACE and FERRY_STATS are written from it.
//
// With neither, it is off: every hook costs a comparison, and the session has its totals only. Otherwise each step has
// a book, whose records are reused once it is written: after a step whose work on the device is over, in `flush`, which
// the session calls between steps. So what is held is bounded by the steps under way, and nothing here waits for the
// device.
//
// Two clocks meet: copies and calls are timed by `device.now()`, the compute stream by timed events. A base event that
// is known to have passed at a known time ties one to the other; on a virtual clock exactly. Threads: the session's
// only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ferry/plan.hpp"
#include "observe/step_record.hpp"
#include "observe/trace_writer.hpp"
#include "store/tiered_store.hpp"
#include "support/log.hpp"
#include "support/run_file.hpp"

namespace ferry::observe {

class step_log final : private store::budget_watcher {
 public:
  /// Throws: `setting_error` that names FERRY_TRACE or FERRY_STATS if its file cannot be written.
  step_log(device& on, config const& settings, support::logger const& log, store::tiered_store& store);
  step_log(step_log const&) = delete;
  step_log& operator=(step_log const&) = delete;
  ~step_log();

  [[nodiscard]] bool on() const noexcept { return now_ != nullptr; }

  void begin_step(std::uint64_t number, plan const* followed);
  /// With the estimates of both directions of the link.
  void end_step(double out_gbps, double in_gbps);

  // Hooks along the path. Each may be called at any time; those without a step under way add to the last one.
  /// The stream is about to be given work: with the first such call a step begins on the device.
  void allocated(stream_ref stream);
  void entered(pass which, item_key const& key, stream_ref stream);
  void saved(store::entry& e);
  void needed(store::entry const& e);
  void decided(store::entry const& e, reason why, outlook const& seen = {}) noexcept;
  void transferred(store::transfer const& ended);
  /// The host has waited, until now, for bytes of `blamed` (or of nobody in particular).
  void waited_for_bytes(store::entry const* blamed, double us);
  /// The host has been held back by FERRY_RUN_AHEAD until now.
  void held_back(double us);

  /// Where a measurement that begins now belongs, for `measured`.
  struct place {
    std::uint64_t step = 0;
    std::uint32_t item = no_line;
    std::uint32_t decision = no_line;  ///< the next one: a way back is counted when it has been enqueued
  };
  [[nodiscard]] place place_of(store::entry const* e) const noexcept;
  void measured(compute_line::kind what, place const& at, store::event_handle const& from, double took_us);

  /// All work of the steps that are not written yet is over.
  [[nodiscard]] bool marks_passed() const;
  /// Writes the steps before `first_open`, as far as their work is over.
  void flush(std::uint64_t first_open);
  /// Writes all there is, the totals last. Nothing is written afterwards.
  void finish(session_stats const& totals) noexcept;

 private:
  void changed(store::budget const& what) noexcept override;
  [[nodiscard]] double now_us() const noexcept;
  [[nodiscard]] double us_of(std::chrono::nanoseconds time) const noexcept;
  [[nodiscard]] step_record* book_of(std::uint64_t step) noexcept;
  [[nodiscard]] item_line* line_of(store::entry const& e) noexcept;
  [[nodiscard]] std::uint32_t index_of(store::entry const& e) const noexcept;
  [[nodiscard]] static std::uint32_t lane_of(step_record& book, stream_ref stream);
  void open_book(std::uint64_t number);
  void tie_clocks();
  void end_stretch(stream_ref next);
  [[nodiscard]] bool marks_passed(step_record const& book) const;
  void time_stretches(step_record& book) const;
  void write(step_record& book);

  device& device_;
  std::chrono::nanoseconds origin_;
  store::tiered_store& store_;
  std::array<store::budget const*, tier_count> budgets_;
  support::run_file stats_file_;
  std::optional<trace_writer> trace_;
  std::optional<stream> clock_;  // idle, so that what is recorded on it passes at once
  store::event_handle base_;
  double base_us_ = 0;

  std::vector<std::unique_ptr<step_record>> open_;  // in the order of their steps; the last one is `now_`
  std::vector<std::unique_ptr<step_record>> spare_;
  step_record* now_ = nullptr;  // null: off
  stream_ref last_stream_;
  store::event_handle first_mark_;  // where the step began, until its first stretch has it
};

}  // namespace ferry::observe
