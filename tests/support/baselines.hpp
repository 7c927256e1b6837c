// The fixed policies that a planner must never be worse than, each as a schedule made by simple code of its own. They
// are for chains of the pure problem with up to about a hundred stages.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/chain.hpp"
#include "plan/schedule.hpp"
#include "support/in_order.hpp"
#include "support/recompute_only.hpp"

namespace ferry::testing {

struct baseline {
  std::string name;
  double makespan_s = std::numeric_limits<double>::infinity();  ///< infinite if the policy does not fit
  std::vector<planning::scheduled> schedule{};
  [[nodiscard]] bool feasible() const noexcept { return !schedule.empty(); }
};

inline baseline run_baseline(std::string name, planning::chain const& c, std::vector<compute_step> steps,
                             std::vector<planning::chain_tensor> const& ferried = {}) {
  baseline result{std::move(name)};
  if (steps.empty() || (!ferried.empty() && !(c.d2h_bytes_per_s > 0 && c.h2d_bytes_per_s > 0))) return result;
  if (auto schedule = in_order_run(c, std::move(steps), ferried).run()) {
    result.schedule = std::move(*schedule);
    for (auto const& row : result.schedule) {
      if (row.op == planning::chain_op::backward && row.stage == 0) result.makespan_s = row.end_s;
    }
  }
  return result;
}

/// The better of the two, under the name of the first.
inline void improve(baseline& best, baseline other) {
  if (other.makespan_s < best.makespan_s) {
    best.makespan_s = other.makespan_s;
    best.schedule = std::move(other.schedule);
  }
}

inline std::vector<compute_step> keep_all_steps(std::size_t stages) {
  std::vector<compute_step> steps;
  for (std::size_t i = 0; i < stages; ++i) steps.push_back({planning::chain_op::forward_saving, i});
  for (std::size_t i = stages; i-- > 0;) steps.push_back({planning::chain_op::backward, i});
  return steps;
}

/// The inputs of every n-th stage are checkpoints; each group runs again before its backward, the last one only once.
inline std::vector<compute_step> every_steps(std::size_t stages, std::size_t n) {
  using planning::chain_op;
  std::vector<compute_step> steps;
  std::size_t const last_group = (stages - 1) / n * n;
  for (std::size_t i = 0; i < stages; ++i) {
    steps.push_back({i < last_group ? chain_op::forward_only : chain_op::forward_saving, i});
  }
  for (std::size_t start = last_group;; start -= n) {
    std::size_t const end = std::min(stages, start + n);
    for (std::size_t i = start; start != last_group && i < end; ++i) steps.push_back({chain_op::forward_saving, i});
    for (std::size_t i = end; i-- > start;) steps.push_back({chain_op::backward, i});
    if (start == 0) return steps;
  }
}

inline baseline every_baseline(planning::chain const& c, std::size_t n) {
  return run_baseline(fmt::format("every={}", n), c, every_steps(c.stages(), n));
}

inline baseline sqrt_baseline(planning::chain const& c) {
  auto const n = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(c.stages()))));
  baseline result = every_baseline(c, n);
  result.name = "sqrt";
  return result;
}

/// Every n-th input is ferried, with n = 1 every one, and every stage but the last group runs again.
inline baseline ferried_inputs_baseline(planning::chain const& c, std::size_t n = 1) {
  std::vector<planning::chain_tensor> ferried;
  for (std::size_t i = 0; i < c.stages(); i += n) {
    ferried.push_back({planning::chain_tensor::kind::boundary, static_cast<std::uint32_t>(i)});
  }
  return run_baseline(fmt::format("ferry every {}th input, recompute", n), c, every_steps(c.stages(), n), ferried);
}

/// Every stage runs once, and is kept or ferried. Which: every set for short chains; for long ones all of the first n,
/// all of them but every m-th.
inline baseline offload_only_baseline(planning::chain const& c) {
  using planning::chain_tensor;
  std::size_t const stages = c.stages();
  auto const steps = keep_all_steps(stages);
  baseline best = run_baseline("offload only", c, steps);
  auto const attempt = [&](auto const& is_ferried, bool first_input) {
    std::vector<chain_tensor> ferried;
    if (first_input) ferried.push_back({chain_tensor::kind::boundary, 0});
    for (std::uint32_t i = 0; i < stages; ++i) {
      if (is_ferried(i)) ferried.push_back({chain_tensor::kind::saved, i});
    }
    improve(best, run_baseline("offload only", c, steps, ferried));
  };
  for (bool const first_input : {false, true}) {
    if (stages <= 8) {
      for (std::uint32_t set = 1; set < 1U << stages; ++set) {
        attempt([&](std::uint32_t i) { return (set >> i & 1U) != 0; }, first_input);
      }
      continue;
    }
    for (std::size_t n = 1; n <= stages; ++n) {
      attempt([&](std::uint32_t i) { return i < n; }, first_input);
    }
    for (std::size_t m = 2; m <= 4; ++m) {
      attempt([&](std::uint32_t i) { return i % m != 0; }, first_input);
      attempt([&](std::uint32_t i) { return i % m == 0; }, first_input);
    }
  }
  return best;
}

/// All inputs stay, and the set of saved stages that costs least to do without. What a stage leaves behind, S or its
/// output, lies below all later ones, so a prefix is judged by its bytes and its cost alone.
inline baseline knapsack_baseline(planning::chain const& c) {
  using planning::chain_op;
  struct label {
    double bytes;
    double again_s;
    std::uint32_t before;
    bool saved;
  };
  std::size_t const stages = c.stages();
  double const limit = c.device_bytes * (1 + 1e-12);
  std::vector<std::vector<label>> levels{{{c.boundary_bytes[0], 0, 0, false}}};
  for (std::size_t i = 0; i < stages; ++i) {
    double const forward = c.forward_scratch_bytes[i];
    double const gradients = c.boundary_bytes[i] + c.boundary_bytes[i + 1];
    std::vector<label> next;
    for (std::uint32_t k = 0; k < levels[i].size(); ++k) {
      label const& from = levels[i][k];
      double const with_stage = from.bytes + c.saved_bytes[i];
      if (with_stage + std::max(forward, gradients + c.backward_scratch_bytes[i]) > limit) continue;
      next.push_back({with_stage, from.again_s, k, true});
      // Running again, the gradient of its output is there.
      bool const again_fits = with_stage + forward + c.boundary_bytes[i + 1] <= limit;
      double const with_output = from.bytes + c.boundary_bytes[i + 1];
      if (i + 1 < stages && again_fits && with_output + forward <= limit) {
        next.push_back({with_output, from.again_s + c.forward_s[i], k, false});
      }
    }
    std::sort(next.begin(), next.end(), [](label const& a, label const& b) {
      return std::pair(a.bytes, a.again_s) < std::pair(b.bytes, b.again_s);
    });
    std::vector<label> kept;
    double const grain = next.size() > 20'000 ? c.device_bytes / 20'000 : 0;
    for (label const& l : next) {
      if (kept.empty() || (l.again_s < kept.back().again_s && l.bytes >= kept.back().bytes + grain)) kept.push_back(l);
    }
    levels.push_back(std::move(kept));
  }
  if (levels.back().empty()) return {"knapsack"};
  std::vector<bool> saved(stages);
  std::uint32_t k = static_cast<std::uint32_t>(levels.back().size()) - 1;  // the last costs least
  for (std::size_t i = stages; i > 0; --i) {
    saved[i - 1] = levels[i][k].saved;
    k = levels[i][k].before;
  }
  std::vector<compute_step> steps;
  for (std::size_t i = 0; i < stages; ++i) {
    steps.push_back({saved[i] ? chain_op::forward_saving : chain_op::forward_only, i});
  }
  for (std::size_t i = stages; i-- > 0;) {
    if (!saved[i]) steps.push_back({chain_op::forward_saving, i});
    steps.push_back({chain_op::backward, i});
  }
  return run_baseline("knapsack", c, std::move(steps));
}

/// The optimum among persistent schedules without a link.
inline baseline recompute_only_baseline(planning::chain const& c, std::size_t slots = 1000) {
  return run_baseline("recompute only", c, recompute_only(c, slots).steps());
}

/// All of them.
inline std::vector<baseline> baselines(planning::chain const& c) {
  std::vector<baseline> all;
  all.push_back(run_baseline("keep", c, keep_all_steps(c.stages())));
  all.push_back(recompute_only_baseline(c));
  all.push_back(offload_only_baseline(c));
  all.push_back(knapsack_baseline(c));
  all.push_back(sqrt_baseline(c));
  for (std::size_t n = 1; n <= c.stages(); ++n) {
    all.push_back(every_baseline(c, n));
    all.push_back(ferried_inputs_baseline(c, n));
  }
  return all;
}

}  // namespace ferry::testing
