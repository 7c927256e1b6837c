#include "decide/traffic.hpp"

#include <algorithm>

#include "ferry/device.hpp"

namespace ferry::decide {

using std::chrono::nanoseconds;

namespace {

double us(nanoseconds span) { return std::chrono::duration<double, std::micro>(span).count(); }

}  // namespace

void traffic::moved(copy_direction direction, nanoseconds since, nanoseconds until) {
  auto& all = moved_[static_cast<std::size_t>(direction)];
  any_ = true;
  if (!all.empty()) {
    since = std::max(since, all.back().until);  // chunks of two transfers may have taken turns
    if (since == all.back().until) {
      all.back().until = std::max(all.back().until, until);
      return;
    }
  }
  if (until > since) all.push_back({since, until});
}

nanoseconds traffic::within(spans const& of, nanoseconds from, nanoseconds until) {
  nanoseconds sum{0};
  for (auto one = std::ranges::upper_bound(of, from, {}, &span::until); one != of.end() && one->since < until; ++one) {
    sum += std::min(one->until, until) - std::max(one->since, from);
  }
  return sum;
}

link_use traffic::between(nanoseconds from, nanoseconds until) const {
  auto const& outs = moved_[static_cast<std::size_t>(copy_direction::device_to_host)];
  auto const& backs = moved_[static_cast<std::size_t>(copy_direction::host_to_device)];
  nanoseconds both{0};
  for (auto one = std::ranges::upper_bound(outs, from, {}, &span::until); one != outs.end() && one->since < until;
       ++one) {
    both += within(backs, std::max(one->since, from), std::min(one->until, until));
  }
  return {us(within(outs, from, until) - both), us(within(backs, from, until) - both), us(both)};
}

void traffic::forget_before(nanoseconds when) {
  for (auto& all : moved_) all.erase(all.begin(), std::ranges::upper_bound(all, when, {}, &span::until));
}

}  // namespace ferry::decide
