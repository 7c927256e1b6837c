#include "report/byte_curves.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ferry::command {

namespace {

constexpr double most_parts = 2048;

void halve(std::vector<double>& values, double const& (*choose)(double const&, double const&)) {
  std::size_t const half = (values.size() + 1) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    double const a = values[2 * i];
    double const b = 2 * i + 1 < values.size() ? values[2 * i + 1] : unknown;
    values[i] = !is_known(a) ? b : !is_known(b) ? a : choose(a, b);
  }
  values.resize(half);
}

}  // namespace

void add_to_curve(byte_curve& curve, double at_us, double bytes) {
  while (at_us / curve.part_us >= most_parts) {
    curve.part_us *= 2;
    halve(curve.least, &std::min<double>);
    halve(curve.most, &std::max<double>);
  }
  auto const part = static_cast<std::size_t>(at_us / curve.part_us);
  if (part >= curve.most.size()) {
    curve.least.resize(part + 1, unknown);
    curve.most.resize(part + 1, unknown);
  }
  double& least = curve.least[part];
  double& most = curve.most[part];
  least = is_known(least) ? std::min(least, bytes) : bytes;
  most = is_known(most) ? std::max(most, bytes) : bytes;
}

}  // namespace ferry::command
