// adjust: what changes between two steps. So far the link's speed, by the schedule of FERRY_LINK_GBPS.
#include <fmt/format.h>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

void require_ascending(std::vector<link_change> const& schedule) {
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    bool const ordered = i == 0 ? schedule[i].step == 0 : schedule[i].step > schedule[i - 1].step;
    if (!ordered) {
      throw invalid_argument(
          fmt::format("the link's schedule has step {} in place {}; begin with step 0 and let the steps ascend",
                      schedule[i].step, i));
    }
  }
}

/// Sets the link to the speed of the step that is about to begin, if that is another than before.
void session_core::follow_link_schedule() {
  auto const& schedule = settings_.link_schedule;
  auto const due = [&] {
    return next_link_change_ < schedule.size() && schedule[next_link_change_].step <= totals_.steps;
  };
  if (!due()) return;
  while (due()) ++next_link_change_;
  auto const& now = schedule[next_link_change_ - 1];
  bool const set = device_.set_link_gbps(copy_direction::device_to_host, now.device_to_host) &&
                   device_.set_link_gbps(copy_direction::host_to_device, now.host_to_device);
  if (set) {
    log_.info("step {}: the link has {} GB/s out and {} GB/s back", totals_.steps, now.device_to_host,
              now.host_to_device);
  } else {
    next_link_change_ = schedule.size();
    log_.warning("FERRY_LINK_GBPS has no effect: the link of device '{}' cannot be set", device_.capabilities().name);
  }
}

}  // namespace ferry::path
