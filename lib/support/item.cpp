// The words of keys, placements and states, as errors, logs and statistics use them.
#include "ferry/item.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ferry {

std::string to_string(item_key const& key) {
  return fmt::format("{} (segment {}, micro-batch {})", key.name.view(), key.segment, key.micro_batch);
}

std::string_view to_string(placement where) noexcept {
  switch (where) {
    case placement::keep:
      return "keep";
    case placement::offload:
      return "offload";
    case placement::recompute:
      return "recompute";
  }
  return "unknown";
}

std::string_view to_string(item_state state) noexcept {
  switch (state) {
    case item_state::resident:
      return "resident";
    case item_state::offloading:
      return "offloading";
    case item_state::hosted:
      return "hosted";
    case item_state::prefetching:
      return "prefetching";
    case item_state::dropped:
      return "dropped";
    case item_state::recomputing:
      return "recomputing";
    case item_state::released:
      return "released";
  }
  return "unknown";
}

item_list::item_list(std::span<item_key const> keys) {
  if (keys.size() > in_place) {
    many_.assign(keys.begin(), keys.end());
    return;
  }
  std::copy(keys.begin(), keys.end(), few_.begin());
  size_ = keys.size();
}

}  // namespace ferry
