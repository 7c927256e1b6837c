#include "common/paired_ratio.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ferry::command {

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool paired_ratio::clearly_above(double than) const noexcept {
  constexpr double errors = 2;
  constexpr double least = 0.01;
  // Whatever else the machine does may last for several turns, which a median's error takes for chance.
  return error && middle > than * (1 + least) && middle - errors * *error > than && mostly > than;
}

bool paired_ratio::scatters() const noexcept {
  constexpr double quiet = 0.1;
  return error && *error > quiet * middle;
}

paired_ratio ratio_of(std::span<double const> seconds, std::span<double const> reference) {
  // Of a normal distribution: the standard deviation over the distance of the quartiles, and a median's standard error
  // over a mean's. A step that something else has interrupted says nothing about either.
  constexpr double deviation = 1 / 1.349;
  constexpr double of_a_median = 1.2533;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(seconds.size(), reference.size()); ++i)
    ratios.push_back(seconds[i] / reference[i]);
  paired_ratio found{.middle = median(ratios), .error = std::nullopt};
  std::ranges::sort(ratios);
  found.mostly = ratios[ratios.size() / 6];
  if (ratios.size() < turns_for_an_error) return found;
  std::size_t const quarter = ratios.size() / 4;
  double const apart = ratios[ratios.size() - 1 - quarter] - ratios[quarter];
  found.error = of_a_median * deviation * apart / std::sqrt(static_cast<double>(ratios.size()));
  return found;
}

}  // namespace ferry::command
