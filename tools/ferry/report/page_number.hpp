// Numbers as the page's data holds them: short.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "report/run_data.hpp"

namespace ferry::command {

/// To six digits or the nearest whole number, whichever is finer; null if it is not known.
inline nlohmann::ordered_json short_number(double value) {
  constexpr double most_exact = 9e15;
  constexpr double six_digits = 1e5;
  if (!std::isfinite(value)) return nullptr;
  double const size = std::abs(value);
  if (size >= most_exact) return value;
  if (size < six_digits && value != std::round(value)) {
    double const unit = std::pow(10, std::floor(std::log10(size)) - 5);
    return unit > 1e-12 ? std::round(value / unit) * unit : 0.0;
  }
  return static_cast<std::int64_t>(std::round(value));
}

/// A time in a step, to a tenth of a microsecond.
inline nlohmann::ordered_json short_time(double us) {
  double const tenths = std::round(us * 10);
  if (std::abs(tenths) >= 9e15) return us;
  auto const whole = static_cast<std::int64_t>(tenths);
  if (whole % 10 == 0) return whole / 10;
  return tenths / 10;
}

}  // namespace ferry::command
