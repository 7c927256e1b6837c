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

/// Its three lanes over time.
[[nodiscard]] std::string timeline(std::vector<traced_span> const& spans, double step_us);

/// Trace events as chrome://tracing and Perfetto read them: a thread per lane, times in microseconds.
[[nodiscard]] std::string trace_events(std::vector<traced_span> const& spans, std::string const& title);

}  // namespace ferry::command
