#include "bench/breakeven.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

namespace ferry::command {

namespace {

constexpr double bytes_per_us = 1e3;  // at 1 GB/s
constexpr double mib = 1024.0 * 1024.0;

double transfer_us(link_speed const& link, std::size_t bytes, std::size_t count) {
  if (link.gbps <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(bytes) / (link.gbps * bytes_per_us) + link.latency_us * static_cast<double>(count);
}

/// In the order in which they are dear: time to rebuild a byte; what cannot be rebuilt comes first.
double dearness(item_cost const& one) {
  if (!one.rebuild_us) return std::numeric_limits<double>::infinity();
  return *one.rebuild_us / std::max(1.0, static_cast<double>(one.bytes));
}

/// Where nothing can be kept: the link carries the dearest as far as it is hidden; then what is quicker.
void advise(break_even_table& table) {
  double left = table.hidden_bytes;
  for (auto& one : table.items) {
    auto const bytes = static_cast<double>(one.bytes);
    double const carried = std::min(left, bytes);
    left -= carried;
    bool const must = !one.rebuild_us;
    bool const sooner = one.rebuild_us && one.in_us < *one.rebuild_us;  // even where it is waited for
    one.ferried_share = must || sooner ? 1 : bytes > 0 ? carried / bytes : 0;
    one.advice = one.ferried_share >= 0.5 ? placement::offload : placement::recompute;
  }
}

}  // namespace

std::optional<double> item_cost::even_gbps() const {
  if (!rebuild_us || *rebuild_us <= 0) return std::nullopt;
  return static_cast<double>(bytes) / (*rebuild_us * bytes_per_us);
}

double item_cost::us_per_mib() const {
  double const cost = std::min(rebuild_us.value_or(std::numeric_limits<double>::infinity()), in_us);
  return cost / std::max(static_cast<double>(bytes) / mib, 1e-9);
}

namespace {

/// The first segment's input may come from nothing, as an embedding does, and not as those of the same name after it:
/// it would change their sums by as much as the step is short.
std::string row_of(profile const& step, std::size_t segment, profile_item const& item) {
  bool const from_nothing = segment == 0 && item.recipe_us && item.inputs.empty();
  auto const follows = [&](profile_segment const& other) {
    return std::ranges::any_of(other.items,
                               [&](auto const& one) { return one.name == item.name && !one.inputs.empty(); });
  };
  return from_nothing && std::ranges::any_of(step.segments, follows) ? "first " + item.name : item.name;
}

}  // namespace

break_even_table weigh(profile const& step, hardware const& on) {
  break_even_table table;
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < step.segments.size(); ++i) {
    auto const& segment = step.segments[i];
    table.forward_us += segment.forward_us;
    table.backward_us += segment.backward_us;
    for (auto const& item : segment.items) {
      auto const row = row_of(step, i, item);
      auto const [found, is_new] = known.emplace(row, table.items.size());
      if (is_new) {
        auto& added = table.items.emplace_back();
        added.name = row;
        added.rebuild_us = 0;
      }
      auto& sum = table.items[found->second];
      ++sum.count;
      sum.bytes += item.bytes;
      if (sum.rebuild_us && item.recipe_us) {
        *sum.rebuild_us += *item.recipe_us;
      } else {
        sum.rebuild_us.reset();
      }
    }
  }
  for (auto& one : table.items) {
    one.out_us = transfer_us(on.device_to_host, one.bytes, one.count);
    one.in_us = transfer_us(on.host_to_device, one.bytes, one.count);
  }
  table.hidden_bytes =
      std::min(table.forward_us * on.device_to_host.gbps, table.backward_us * on.host_to_device.gbps) * bytes_per_us;
  std::ranges::stable_sort(table.items, std::greater{}, dearness);
  advise(table);
  return table;
}

break_even_sweep sweep_axis(std::string axis, std::vector<int> const& values,
                            std::function<std::optional<profile>(int)> const& step_of) {
  break_even_sweep made;
  made.axis = std::move(axis);
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const step = step_of(values[i]);
    if (!step) break;
    made.values.push_back(values[i]);
    for (auto const& one : weigh(*step, {}).items) {
      auto const found = std::ranges::find(made.items, one.name);
      auto const row = static_cast<std::size_t>(found - made.items.begin());
      if (found == made.items.end()) {
        made.items.push_back(one.name);
        made.gbps.emplace_back(values.size(), 0.0);
      }
      made.gbps[row][i] = one.even_gbps().value_or(0);
    }
  }
  for (auto& row : made.gbps) row.resize(made.values.size());
  return made;
}

std::vector<link_choice> sweep_link(profile const& step, hardware const& on, std::size_t budget_bytes,
                                    double time_limit_ms) {
  constexpr std::array factors{0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0};
  plan_options how;
  how.budget_bytes = budget_bytes;
  how.time_limit_ms = time_limit_ms;
  auto const plans = make_plans(step, on, how, factors);
  std::vector<link_choice> choices;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    link_choice one{.out_gbps = on.device_to_host.gbps * factors[i], .in_gbps = on.host_to_device.gbps * factors[i]};
    if (plans[i]) {
      one.fits = true;
      one.overhead = std::max(0.0, plans[i]->overhead());
      one.ferried_bytes = plans[i]->offloaded_bytes;
      one.rebuilt_us = plans[i]->recompute_us;
    }
    choices.push_back(one);
  }
  return choices;
}

}  // namespace ferry::command
