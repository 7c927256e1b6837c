// A simulated step as spans with their meaning, for the timeline and for trace viewers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferry/plan.hpp"
#include "ferry/simulate.hpp"

namespace ferry::command {

struct traced_span {
  enum class kind : std::uint8_t { forward, backward, rebuild, offload, fetch };
  kind what{};
  std::string name;
  double start_us = 0;
  double end_us = 0;
  std::size_t bytes = 0;
};

/// The last step's launches and copies.
[[nodiscard]] std::vector<traced_span> spans_of(simulation const& simulated, profile const& step);

/// What the last step did, by its launches and copies.
struct step_sums {
  double busy_us = 0;
  double rebuild_us = 0;
  std::size_t rebuilds = 0;
  std::size_t out_bytes = 0;
  std::size_t in_bytes = 0;
  double waiting_us = 0;
};

[[nodiscard]] step_sums sums_of(std::vector<traced_span> const& spans, double step_us);

/// Its three lanes over time.
[[nodiscard]] std::string timeline(std::vector<traced_span> const& spans, double step_us);

/// Trace events as chrome://tracing and Perfetto read them: a thread per lane, times in microseconds.
[[nodiscard]] std::string trace_events(std::vector<traced_span> const& spans, std::string const& title);

}  // namespace ferry::command
