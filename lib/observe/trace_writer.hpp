// FERRY_TRACE: steps as trace events that chrome://tracing and Perfetto read. One array of events, one to a line, that
// grows step by step; `finish` closes it. Viewers accept one that a killed run left open. Threads: the session's only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ferry/config.hpp"
#include "observe/step_record.hpp"
#include "store/reservation.hpp"
#include "support/run_file.hpp"

namespace ferry::observe {

class trace_writer {
 public:
  /// Throws: `setting_error` that names FERRY_TRACE.
  trace_writer(std::string const& path, support::logger const& log, std::string_view device, double tolerance_us);

  /// Once, before the steps: what holds, and the budgets in bytes.
  void settings(config const& in_force, std::array<store::budget const*, tier_count> const& budgets);
  /// Requires: the book's stretches have their times.
  void write(step_record const& book);
  void finish() noexcept;

 private:
  void begin_event(std::string_view name, std::string_view category, char phase, double at_us, int lane);
  void end_event();
  void argument(std::string_view name, std::string_view text);
  void argument(std::string_view name, double value);
  void argument(std::string_view name, std::uint64_t value);
  void item_arguments(item_line const& item);
  void slice(std::string_view name, std::string_view category, double from_us, double to_us, int lane);
  void name_lane(int lane, std::string_view name);

  void compute(step_record const& book);
  void copies(step_record const& book);
  void host(step_record const& book);
  void tiers(step_record const& book);
  void flows(step_record const& book);
  void flow(char phase, std::uint64_t id, item_line const& item, double at_us, int lane);
  void flush() noexcept;

  support::run_file file_;
  double tolerance_us_;
  std::string text_;
  bool first_ = true;
  bool has_arguments_ = false;
  std::uint64_t flows_ = 0;
  std::uint32_t lanes_ = 0;  // of compute streams, named so far
};

}  // namespace ferry::observe
