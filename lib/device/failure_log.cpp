#include "device/failure_log.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ferry {

void failure_log::fail(std::uint64_t sequence, stream_failure why) {
  std::lock_guard const lock(mutex_);
  ranges_.push_back({sequence, std::numeric_limits<std::uint64_t>::max(), {std::move(why), false}});
  any_.store(true);
}

void failure_log::close(std::uint64_t sequence) {
  std::lock_guard const lock(mutex_);
  range& last = ranges_.back();  // nothing runs, so nothing fails, until the last one is reported
  if (last.what.reported) return;
  last.to = sequence;
  last.what.reported = true;
}

std::optional<failure_log::entry> failure_log::failure_at(std::uint64_t sequence) const {
  return find([&](range const& each) { return each.covers(sequence); });
}

std::optional<failure_log::entry> failure_log::unreported(std::uint64_t sequence) const {
  return find([&](range const& each) { return !each.what.reported && each.from <= sequence; });
}

template <typename Wanted>
std::optional<failure_log::entry> failure_log::find(Wanted wanted) const {
  if (!any_.load()) return std::nullopt;
  std::lock_guard const lock(mutex_);
  auto const found = std::ranges::find_if(ranges_, wanted);
  return found != ranges_.end() ? std::optional(found->what) : std::nullopt;
}

}  // namespace ferry
