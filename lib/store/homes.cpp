#include "store/homes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "ferry/error.hpp"
#include "support/pause.hpp"

namespace ferry::store {

namespace {

bool same(std::span<device_view const> a, std::span<device_view const> b) {
  return std::ranges::equal(a, b, [](device_view const& one, device_view const& other) {
    return one.address == other.address && one.bytes == other.bytes;
  });
}

bool overlap(std::span<device_view const> a, std::span<device_view const> b) {
  auto const begin = [](device_view const& of) { return reinterpret_cast<std::uintptr_t>(of.address); };
  return std::ranges::any_of(a, [&](device_view const& one) {
    return std::ranges::any_of(b, [&](device_view const& other) {
      return begin(one) < begin(other) + other.bytes && begin(other) < begin(one) + one.bytes;
    });
  });
}

}  // namespace

home& homes::at(std::span<device_view const> pieces) {
  if (pieces.empty()) throw invalid_argument("memory to be used in place: no pieces");
  std::size_t bytes = 0;
  for (auto const& piece : pieces) {
    if (piece.address == nullptr || piece.bytes == 0) {
      throw invalid_argument(fmt::format("memory to be used in place: a piece is {}",
                                         piece.address == nullptr ? "a null pointer" : "of zero bytes"));
    }
    bytes += piece.bytes;
  }
  auto& known = all_[pieces.front().address];
  if (known == nullptr) {
    known = std::make_unique<home>();
    empty_.reserve(all_.size());  // leaving one must never allocate
  }
  if (same(known->pieces, pieces)) return *known;
  if (known->taken || known->items > 0) {
    throw invalid_argument(
        "memory to be used in place: an item has memory that begins at the same address; release it first");
  }
  forget_pages(*known);
  known->pieces.assign(pieces.begin(), pieces.end());
  known->bytes = bytes;
  make_place_for(*known);
  return *known;
}

home* homes::holder_of(std::span<device_view const> pieces) {
  auto const held = [](home const& one) { return one.taken || one.items > 0; };
  auto const known = pieces.empty() ? all_.end() : all_.find(pieces.front().address);
  if (known != all_.end() && same(known->second->pieces, pieces)) {
    return held(*known->second) ? known->second.get() : nullptr;
  }
  auto const found = std::ranges::find_if(
      all_, [&](auto const& one) { return held(*one.second) && overlap(one.second->pieces, pieces); });
  return found != all_.end() ? found->second.get() : nullptr;
}

/// Of others that overlap the home nothing may be discarded any more, and what still touches them touches this one.
void homes::make_place_for(home& wanted) {
  std::erase_if(all_, [&](auto const& known) {
    home& other = *known.second;
    if (&other == &wanted || !overlap(other.pieces, wanted.pieces)) return false;
    if (other.taken || other.items > 0) {
      wanted.pieces.clear();  // another try is judged anew
      throw invalid_argument("memory to be used in place: an item has part of it; release that first");
    }
    wanted.uses.insert(wanted.uses.end(), other.uses.begin(), other.uses.end());
    forget_pages(other);
    return true;
  });
}

void homes::forget_unused() noexcept {
  wait_for_uses();
  std::erase_if(all_, [&](auto const& known) {
    if (known.second->taken || known.second->items > 0) return false;
    forget_pages(*known.second);
    return true;
  });
}

/// What is in them does not count any more, and is not given back.
void homes::forget_pages(home& empty) noexcept {
  if (!empty.resident || empty.taken) return;
  std::erase(empty_, &empty);
  empty.resident = false;
  empty_bytes_ -= empty.bytes;
}

std::optional<reservation> homes::take(home& wanted) {
  if (wanted.taken) return std::nullopt;
  // Its own pages, if it has them still, need no room.
  if (wanted.resident) {
    std::erase(empty_, &wanted);
    empty_bytes_ -= wanted.bytes;
  }
  auto held = make_way(wanted.bytes) ? budget_.reserve(wanted.bytes) : std::nullopt;
  if (held) {
    wanted.taken = wanted.resident = true;
  } else if (wanted.resident) {
    empty_.insert(empty_.begin(), &wanted);
    empty_bytes_ += wanted.bytes;
  }
  return held;
}

void homes::leave(home& left, std::span<event_handle const> by) {
  left.taken = false;
  static_cast<void>(unused(left));  // forgets what is over
  for (auto const& use : by) {
    if (use && device_.query(use.ref()) == event_status::pending) left.uses.push_back(use);
  }
  empty_.push_back(&left);
  empty_bytes_ += left.bytes;
}

bool homes::make_way(std::size_t bytes) {
  if (empty_.empty()) return true;
  std::size_t const held = budget_.used_bytes() + bytes;
  std::size_t const enough = std::max(std::min(budget_.peak_bytes(), budget_.limit_bytes()), held);
  for (auto one = empty_.begin(); one != empty_.end() && held + empty_bytes_ > enough;) {
    if (!unused(**one)) {
      ++one;
      continue;
    }
    discard(**one);
    one = empty_.erase(one);
  }
  return held + empty_bytes_ <= budget_.limit_bytes() || held > budget_.limit_bytes();
}

bool homes::unused(home& empty) {
  std::erase_if(empty.uses,
                [this](event_handle const& use) { return device_.query(use.ref()) != event_status::pending; });
  return empty.uses.empty();
}

void homes::discard(home& empty) noexcept {
  for (auto const& piece : empty.pieces) device_.discard(piece.address, piece.bytes);
  empty.resident = false;
  empty_bytes_ -= empty.bytes;
}

bool homes::any_leaving() {
  return std::ranges::any_of(empty_, [this](home* one) { return !unused(*one); });
}

void homes::wait_for_uses() noexcept {
  for (auto* const one : empty_) {
    for (auto const& use : one->uses) wait_until_over(device_, use.ref());
    one->uses.clear();
  }
}

}  // namespace ferry::store
