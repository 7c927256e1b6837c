#include "path/link_schedule.hpp"

#include <fmt/format.h>

#include "ferry/error.hpp"

namespace ferry::path {

link_schedule::link_schedule(std::vector<link_change> const& changes) : changes_(changes) {
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    bool const ordered = i == 0 ? changes_[i].step == 0 : changes_[i].step > changes_[i - 1].step;
    if (!ordered) {
      throw invalid_argument(
          fmt::format("the link's schedule has step {} in place {}; begin with step 0 and let the steps ascend",
                      changes_[i].step, i));
    }
  }
}

void link_schedule::begin_step(std::uint64_t step, device& on, support::logger const& log) {
  auto const due = [&] { return next_ < changes_.size() && changes_[next_].step <= step; };
  if (!due()) return;
  while (due()) ++next_;
  auto const& now = changes_[next_ - 1];
  bool const set = on.set_link_gbps(copy_direction::device_to_host, now.device_to_host) &&
                   on.set_link_gbps(copy_direction::host_to_device, now.host_to_device);
  if (set) {
    log.info("step {}: the link has {} GB/s out and {} GB/s back", step, now.device_to_host, now.host_to_device);
  } else {
    next_ = changes_.size();
    log.warning("FERRY_LINK_GBPS has no effect: the link of device '{}' cannot be set", on.capabilities().name);
  }
}

}  // namespace ferry::path
