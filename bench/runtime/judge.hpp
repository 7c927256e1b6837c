// Runs a chain with each fault and each variant of the runtime, and compares with the best possible in hindsight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/config.hpp"
#include "runtime/chains.hpp"
#include "runtime/faults.hpp"

namespace ferry::bench {

/// A way to run the session. The first of the table is the one that is judged, the second what it must not lose to.
struct variant {
  std::string_view name;
  bool plans_itself =
      true;  ///< policy auto; otherwise it follows the plan that the first variant had made by the fault
  std::vector<std::pair<std::string_view, std::string_view>> settings;  ///< environment variables
};

[[nodiscard]] std::span<variant const> all_variants();
/// Settings that this build does not have are left out.
void apply(config& to, variant const& how);

/// Steps before the fault: `auto` measures two, plans, and follows its plan.
constexpr std::uint32_t settling_steps = 5;
constexpr std::uint32_t faulty_steps = 8;

struct variant_outcome {
  std::vector<double> faulty_us;  ///< each faulty step
  std::uint32_t plans = 0;        ///< made in or after the first faulty step
};

struct outcome {
  std::string chain;
  fault what;
  std::vector<double> hindsight_us;  ///< the best possible in each faulty step
  std::vector<variant_outcome> by_variant;
};

/// The ratio to hindsight of one variant: in the first faulty step, in the third, and the median from the third on.
struct ratios {
  double first = 0;
  double third = 0;
  double steady = 0;
};
[[nodiscard]] ratios ratios_of(outcome const& seen, std::size_t which);

/// All faults. Throws: `error` if the session cannot run the chain or makes no plan for it.
[[nodiscard]] std::vector<outcome> judge(judged_chain const& chain);

[[nodiscard]] double median(std::vector<double> values);

}  // namespace ferry::bench
