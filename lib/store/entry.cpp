#include "store/entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ferry/error.hpp"

namespace ferry::store {

namespace {

using enum item_state;

struct arrow {
  item_state from;
  item_state to;
};

constexpr std::array arrows{
    arrow{released, resident},        // save
    arrow{resident, offloading},      // offload
    arrow{resident, hosted},          // its host copy is still good
    arrow{resident, dropped},         // its recipe will rebuild it
    arrow{offloading, hosted},        // copied
    arrow{offloading, resident},      // cancelled, failed, or in use when the copy ended
    arrow{hosted, prefetching},       // prefetch
    arrow{hosted, recomputing},       // its recipe is sooner than the link
    arrow{prefetching, resident},     // arrived
    arrow{prefetching, hosted},       // cancelled or failed
    arrow{prefetching, recomputing},  // its recipe is sooner than the rest of the copy
    arrow{dropped, recomputing},      // recompute
    arrow{recomputing, resident},     // the recipe is enqueued
    arrow{recomputing, dropped},      // the recipe threw
    arrow{recomputing, hosted},       // the recipe threw, the host copy is still there
    arrow{resident, released},       arrow{offloading, released}, arrow{hosted, released},
    arrow{prefetching, released},    arrow{dropped, released},
};

constexpr auto table = [] {
  std::array<std::uint16_t, 7> allowed{};
  for (auto const& a : arrows) {
    allowed[static_cast<std::size_t>(a.from)] |= static_cast<std::uint16_t>(1U << static_cast<unsigned>(a.to));
  }
  return allowed;
}();

}  // namespace

bool legal(item_state from, item_state to) noexcept {
  return ((table[static_cast<std::size_t>(from)] >> static_cast<unsigned>(to)) & 1U) != 0;
}

void entry::advance(item_state to) {
  if (!legal(state_, to)) {
    throw internal_error(fmt::format("{} cannot go from {} to {}", to_string(key), to_string(state_), to_string(to)));
  }
  state_ = to;
}

bool entry::reaches_beyond_segment() const {
  return std::ranges::any_of(rebuild.how->inputs.keys(),
                             [&](item_key const& input) { return input.segment != key.segment; });
}

void entry::add_use(stream_ref stream) {
  if (std::ranges::find(users, stream) == users.end()) users.push_back(stream);
}

}  // namespace ferry::store
