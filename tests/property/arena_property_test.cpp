// Random programs of allocate and free, against a plain map of the live intervals as the model.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <ostream>
#include <utility>
#include <vector>

#include "device/arena.hpp"

namespace {

using ferry::arena;

/// The live intervals of a slab, offset to bytes; slow and obviously right.
class interval_model {
 public:
  explicit interval_model(std::size_t capacity) : capacity_(capacity) {}

  [[nodiscard]] bool is_free(std::size_t offset, std::size_t bytes) const {
    if (offset + bytes > capacity_) return false;
    auto const above = live_.lower_bound(offset);
    if (above != live_.end() && above->first < offset + bytes) return false;
    return above == live_.begin() || std::prev(above)->first + std::prev(above)->second <= offset;
  }

  void insert(std::size_t offset, std::size_t bytes) { live_.emplace(offset, bytes); }
  void erase(std::size_t offset) { live_.erase(offset); }

  [[nodiscard]] std::size_t used() const {
    std::size_t sum = 0;
    for (auto const& [offset, bytes] : live_) sum += bytes;
    return sum;
  }

  [[nodiscard]] std::size_t largest_gap() const {
    std::size_t largest = 0;
    std::size_t end = 0;
    for (auto const& [offset, bytes] : live_) {
      largest = std::max(largest, offset - end);
      end = offset + bytes;
    }
    return std::max(largest, capacity_ - end);
  }

 private:
  std::size_t capacity_;
  std::map<std::size_t, std::size_t> live_;
};

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + arena::alignment - 1) / arena::alignment * arena::alignment;
}

/// One arena and its model, advanced together; every step compares all that can be observed.
class checked_arena {
 public:
  checked_arena(std::size_t capacity, std::size_t expected_blocks)
      : tested_(capacity, expected_blocks), model_(capacity / arena::alignment * arena::alignment) {}

  [[nodiscard]] std::size_t live_count() const { return live_.size(); }

  void allocate(std::size_t bytes) {
    bool const fits = bytes > 0 && bytes <= model_.largest_gap();
    auto const got = tested_.allocate(bytes);
    RC_ASSERT(got.has_value() == fits);
    if (got) {
      RC_ASSERT(got->offset % arena::alignment == 0U);
      RC_ASSERT(got->bytes == rounded_up(bytes));
      RC_ASSERT(model_.is_free(got->offset, got->bytes));
      model_.insert(got->offset, got->bytes);
      live_.push_back(*got);
    }
    compare();
  }

  void free(std::size_t which) {
    std::swap(live_[which], live_.back());
    arena::block const freed = live_.back();
    live_.pop_back();
    tested_.free(freed);
    model_.erase(freed.offset);
    compare();
  }

 private:
  void compare() const {
    std::size_t const used = model_.used();
    std::size_t const largest = model_.largest_gap();
    RC_ASSERT(tested_.used_bytes() == used);
    RC_ASSERT(tested_.free_bytes() == tested_.capacity_bytes() - used);
    RC_ASSERT(tested_.largest_free_bytes() == largest);
    if (used == 0) {
      RC_ASSERT(largest == tested_.capacity_bytes());
      RC_ASSERT(tested_.fragmentation() == 0.0);
    }
  }

  arena tested_;
  interval_model model_;
  std::vector<arena::block> live_;
};

/// Sizes that meet the exact bins, the wide bins, their borders, and everything too large.
rc::Gen<std::size_t> sizes(std::size_t capacity) {
  auto const near_power_of_two =
      rc::gen::map(rc::gen::pair(rc::gen::inRange<unsigned>(0, 24), rc::gen::inRange<std::size_t>(0, 1024)),
                   [](auto const& drawn) { return (std::size_t{1} << drawn.first) + drawn.second; });
  return rc::gen::weightedOneOf<std::size_t>({{8, rc::gen::inRange<std::size_t>(0, capacity / 8 + 2)},
                                              {4, rc::gen::inRange<std::size_t>(1, 64 * arena::alignment)},
                                              {4, near_power_of_two},
                                              {1, rc::gen::inRange<std::size_t>(0, capacity + 1024)},
                                              {1, rc::gen::arbitrary<std::size_t>()}});
}

struct step {
  bool allocates;
  std::size_t bytes;
  std::size_t which;  // of the live blocks, modulo their number
};

void showValue(step const& shown, std::ostream& out) {
  if (shown.allocates) {
    out << "allocate(" << shown.bytes << ")";
  } else {
    out << "free(#" << shown.which << ")";
  }
}

rc::Gen<step> steps(rc::Gen<std::size_t> const& bytes_asked, unsigned allocations_of_ten) {
  return rc::gen::apply(
      [allocations_of_ten](unsigned die, std::size_t bytes, std::size_t which) {
        return step{die < allocations_of_ten, bytes, which};
      },
      rc::gen::inRange(0U, 10U), bytes_asked, rc::gen::inRange<std::size_t>(0, 1U << 20U));
}

void run(std::vector<step> const& program, checked_arena& checked) {
  for (step const& next : program) {
    if (next.allocates) {
      checked.allocate(next.bytes);
    } else if (checked.live_count() > 0) {
      checked.free(next.which % checked.live_count());
    }
  }
  while (checked.live_count() > 0) checked.free(checked.live_count() / 2);
}

RC_GTEST_PROP(ArenaProperty, BehavesLikeAnIntervalMap, ()) {
  auto const capacity =
      *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 64 * 1024), rc::gen::inRange<std::size_t>(0, 64 * 1024 * 1024));
  // From mostly freeing to mostly allocating: an empty, a busy and a full slab all occur.
  auto const allocations_of_ten = *rc::gen::inRange(4U, 9U);
  auto const length = *rc::gen::inRange<std::size_t>(0, 300);
  checked_arena checked(capacity, 8);
  run(*rc::gen::container<std::vector<step>>(length, steps(sizes(capacity), allocations_of_ten)), checked);
}

// A full slab whose free blocks crowd one bin, kept apart by fences: the one that fits may be any of them.
RC_GTEST_PROP(ArenaProperty, FindsTheOneGapThatFitsInACrowdedBin, ()) {
  constexpr std::size_t smallest = 4096 * arena::alignment;
  auto const one_bin = rc::gen::resize(100, rc::gen::inRange<std::size_t>(smallest, smallest + 63 * arena::alignment));
  auto const asked = *rc::gen::container<std::vector<std::size_t>>(60, one_bin);
  std::size_t capacity = asked.size() * arena::alignment;
  for (std::size_t const bytes : asked) capacity += rounded_up(bytes);

  checked_arena checked(capacity, 8);
  for (std::size_t const bytes : asked) {
    checked.allocate(bytes);
    checked.allocate(arena::alignment);
  }
  for (std::size_t i = asked.size(); i-- > 0;) checked.free(2 * i);
  run(*rc::gen::container<std::vector<step>>(100, steps(one_bin, 8)), checked);
}

}  // namespace
