// A step as text: lanes of letters over time, and amounts of time and work in words.
#pragma once

#include <string>
#include <vector>

namespace ferry::command {

struct lane_span {
  double start_us = 0;
  double end_us = 0;
  char letter = ' ';
};

/// What one engine does; its spans do not overlap.
struct lane {
  std::string name;
  std::vector<lane_span> spans;
};

/// Compute, out and in, in this order; empty.
[[nodiscard]] std::vector<lane> three_lanes();

/// Lines that end with a line end. Where a column holds several things, each gets columns in proportion to its time.
[[nodiscard]] std::string draw(std::vector<lane> const& lanes, double end_us);

/// "1.66 s", "12.3 ms", "45 us"
[[nodiscard]] std::string words_of_time(double us);
/// "12.3 TFLOP"
[[nodiscard]] std::string words_of_flops(double flops);

}  // namespace ferry::command
