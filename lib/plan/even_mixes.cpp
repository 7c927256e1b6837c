#include "plan/even_mixes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "plan/stage_ways.hpp"

namespace ferry::planning {

namespace {

struct part {
  std::int8_t saving = replayed;
  double stages = 0;
};

/// Stages like the one in the middle, in their order; none if they are not most of the chain.
std::vector<std::size_t> most_stages(chain const& c) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < c.stages(); ++i) {
    if (alike(c, i, c.stages() / 2)) found.push_back(i);
  }
  if (2 * found.size() <= c.stages()) found.clear();
  return found;
}

double determinant(std::array<double, 3> const& a, std::array<double, 3> const& b, std::array<double, 3> const& c) {
  return a[0] * (b[1] * c[2] - b[2] * c[1]) - b[0] * (a[1] * c[2] - a[2] * c[1]) + c[0] * (a[1] * b[2] - a[2] * b[1]);
}

/// So many of each of three ways that the sums are those of `goal`; nothing if there is no such mix.
bool solve(std::array<stage_way const*, 3> const& ways, stage_way const& goal, std::array<double, 3>& amounts) {
  auto const column = [](stage_way const& one) { return std::array{one.count, one.kept, one.ferried}; };
  auto const a = column(*ways[0]);
  auto const b = column(*ways[1]);
  auto const c = column(*ways[2]);
  auto const sums = column(goal);
  double const all = determinant(a, b, c);
  if (std::abs(all) < 1e-12) return false;
  amounts = {determinant(sums, b, c) / all, determinant(a, sums, c) / all, determinant(a, b, sums) / all};
  return std::ranges::all_of(amounts, [](double amount) { return amount >= -1e-9; });
}

/// The least time for `goal.count` stages in `goal.kept` and `goal.ferried` bytes: some corner of what is possible has
/// it.
std::vector<part> best_mix(std::vector<stage_way> const& ways, stage_way const& goal) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<part> best;
  std::array<double, 3> amounts{};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    for (std::size_t k = i + 1; k < ways.size(); ++k) {
      for (std::size_t m = k + 1; m < ways.size(); ++m) {
        std::array const three{&ways[i], &ways[k], &ways[m]};
        if (!solve(three, goal, amounts)) continue;
        double seconds = 0;
        for (std::size_t n = 0; n < three.size(); ++n) seconds += amounts[n] * three[n]->seconds;
        if (seconds >= least) continue;
        least = seconds;
        best.clear();
        for (std::size_t n = 0; n < three.size(); ++n) {
          if (three[n]->count > 0 && amounts[n] > 0) best.push_back({three[n]->saving, amounts[n]});
        }
      }
    }
  }
  return best;
}

/// The first `count` of `stages` get the ways in turns, each as often as its part is large; the others are kept.
chain_plan deal_out(chain const& c, std::vector<std::size_t> const& stages, std::size_t count,
                    std::vector<part> const& mix) {
  chain_plan plan(c.stages());
  std::vector<double> due(mix.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < mix.size(); ++k) due[k] += mix[k].stages / static_cast<double>(count);
    auto const next = static_cast<std::size_t>(std::ranges::max_element(due) - due.begin());
    due[next] -= 1;
    plan[stages[i]].saving = mix[next].saving;
  }
  settle(c, plan);
  return plan;
}

class mixer {
 public:
  mixer(chain const& c, std::vector<std::size_t> stages) : c_(c), stages_(std::move(stages)) {
    ways_ = useful_ways(c, stages_.front());
    // In shares of the device, so that no number is far from the others.
    for (auto& one : ways_) {
      one.kept /= c.device_bytes;
      one.ferried /= c.device_bytes;
    }
    ways_.push_back({replayed, 0, 1, 0, 0});
    ways_.push_back({replayed, 0, 0, 1, 0});
    double others = c.boundary_bytes[0];
    for (std::size_t i = 0; i < c.stages(); ++i) {
      if (!std::ranges::binary_search(stages_, i)) others += c.saved_bytes[i];
    }
    room_ = c.device_bytes - others;
    double const out = std::reduce(c.forward_s.begin(), c.forward_s.end()) * c.d2h_bytes_per_s;
    double const back = std::reduce(c.backward_s.begin(), c.backward_s.end()) * c.h2d_bytes_per_s;
    hidden_ = c.has_link() ? std::min({out, back, c.host_bytes}) : 0;
  }

  /// The last `whole` of the stages stay, which are needed first, `spare` times a stage's bytes are left free, and the
  /// link gets this share of what it can hide. Nothing if that leaves no room.
  [[nodiscard]] std::optional<chain_plan> mix(std::size_t whole, double spare, double link_share) const {
    if (whole >= stages_.size()) return std::nullopt;
    double const stage_bytes = c_.saved_bytes[stages_.front()];
    double const bytes = room_ - (static_cast<double>(whole) + spare) * stage_bytes;
    if (bytes <= 0) return std::nullopt;
    std::size_t const mixed = stages_.size() - whole;
    stage_way const goal{replayed, static_cast<double>(mixed), bytes / c_.device_bytes,
                         link_share * hidden_ / c_.device_bytes, 0};
    auto const parts = best_mix(ways_, goal);
    if (parts.empty()) return std::nullopt;
    return deal_out(c_, stages_, mixed, parts);
  }

 private:
  chain const& c_;
  std::vector<std::size_t> stages_;
  std::vector<stage_way> ways_;
  double room_ = 0;
  double hidden_ = 0;
};

}  // namespace

std::vector<chain_plan> even_mixes(chain const& c, chain_simulator& simulator, std::size_t count) {
  auto stages = most_stages(c);
  if (stages.empty()) return {};
  mixer const from(c, std::move(stages));
  std::vector<std::pair<double, chain_plan>> scored;
  auto const shares = c.has_link() ? std::vector{0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25} : std::vector{0.0};
  for (std::size_t whole = 0; whole < 5; ++whole) {
    for (double const spare : {0.0, 0.5, 1.0, 1.5, 2.0}) {
      for (double const share : shares) {
        auto plan = from.mix(whole, spare, share);
        if (!plan) continue;
        double const seconds = simulator.run(*plan);
        if (std::isfinite(seconds)) scored.emplace_back(seconds, std::move(*plan));
      }
    }
  }
  std::ranges::stable_sort(scored, {}, [](auto const& one) { return one.first; });
  std::vector<chain_plan> plans;
  for (auto& [seconds, plan] : scored) {
    if (plans.size() == count) break;
    if (plans.empty() || plans.back() != plan) plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace ferry::planning
