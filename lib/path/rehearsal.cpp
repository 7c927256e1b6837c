#include "ferry/rehearsal.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "ferry/error.hpp"

namespace ferry {

namespace {

std::size_t rounded_up(std::size_t bytes, std::size_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

rehearsal_options checked(rehearsal_options how) {
  if (how.most_bytes == 0) throw invalid_argument("rehearsal: a budget of at most zero bytes");
  if (how.unit_bytes == 0)
    how.unit_bytes = std::clamp<std::size_t>(std::bit_floor(how.most_bytes / 1024), 1 << 10, 64 << 10);
  auto& settings = how.settings;
  std::size_t const pinned_bytes =
      settings.pinned_bytes != 0 ? settings.pinned_bytes : host_device_options{}.pinned_bytes;
  if (how.pinned_bytes == 0) how.pinned_bytes = pinned_bytes;
  settings.host_budget = byte_amount::exactly(settings.host_budget.of(how.pinned_bytes));
  settings.device = "auto";
  settings.verify = verify_mode::off;
  settings.trace_file.clear();
  settings.stats_file.clear();
  settings.profile_file.clear();
  settings.link_schedule.clear();
  settings.log = log_level::off;
  settings.advise = false;
  return how;
}

std::unique_ptr<sim_device> make_stage(rehearsal_options const& how) {
  constexpr std::size_t whatever_is_beside = std::size_t{1} << 40;
  sim_device_options options;
  options.device_bytes = rounded_up(how.most_bytes, how.unit_bytes) + whatever_is_beside;
  options.pinned_bytes = how.pinned_bytes + whatever_is_beside;
  options.gaps_cost = true;
  options.quiet = true;
  return make_sim_device(std::move(options));
}

}  // namespace

rehearsal::rehearsal(rehearsal_options how) : how_(checked(std::move(how))), on_(make_stage(how_)) {}
rehearsal::~rehearsal() = default;

bool rehearsal::goes_through(std::size_t budget, std::function<void(session&)> const& steps) {
  auto settings = how_.settings;
  settings.budget = byte_amount::exactly(budget);
  try {
    session trial(*on_, settings);
    // What `auto` does before it has a plan; where no plan fits, it goes on like that.
    bool const plans = settings.policy.kind == policy_kind::automatic || settings.policy.kind == policy_kind::plan;
    if (plans) {
      trial.set_placement(
          [](item_info const& item) { return item.boundary ? placement::offload : placement::recompute; });
    }
    steps(trial);
    return true;
  } catch (out_of_memory const&) {
    return false;
  }
}

/// With copies that are over at once, and with such as end only when somebody waits for them.
bool rehearsal::is_enough(std::size_t budget, std::function<void(session&)> const& steps) {
  constexpr std::array<double, 2> speeds_gbps{0, 1};
  return std::ranges::all_of(speeds_gbps, [&](double gbps) {
    for (auto const direction : {copy_direction::device_to_host, copy_direction::host_to_device}) {
      on_->set_link(direction, {.gbps = gbps});
    }
    return goes_through(budget, steps);
  });
}

std::size_t rehearsal::smallest_budget(std::function<void(session&)> const& steps) {
  std::size_t const unit = how_.unit_bytes;
  std::size_t const most = rounded_up(how_.most_bytes, unit) / unit;
  std::size_t low = 0;  // not enough
  std::size_t high = 1;
  while (!is_enough(high * unit, steps)) {
    if (high == most) return 0;
    low = high;
    high = std::min(2 * high, most);
  }
  while (high - low > 1 + high / 1024) {
    std::size_t const middle = (low + high) / 2;
    (is_enough(middle * unit, steps) ? high : low) = middle;
  }
  // Where blocks lie depends on when copies end and how long recipes take, unless nothing ever gives way.
  std::size_t const margin = rounded_up(how_.margin_bytes, unit);
  std::size_t const enough = high * unit + (how_.settings.policy.kind == policy_kind::keep ? 0 : margin);
  return enough > how_.too_small_bytes ? enough : rounded_up(how_.too_small_bytes + 1, unit) + margin;
}

}  // namespace ferry
