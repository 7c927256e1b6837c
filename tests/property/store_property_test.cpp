// The store's parts against plain models: the state machine, budgets, and device bytes that are reused in the
// order of streams.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "ferry/error.hpp"
#include "store/device_pool.hpp"
#include "store/entry.hpp"
#include "store/event_pool.hpp"
#include "store/reservation.hpp"
#include "store/slab.hpp"
#include "support/session_world.hpp"

namespace {

using ferry::item_state;
using ferry::stream_ref;
using ferry::store::budget;
using ferry::store::device_pool;
using ferry::store::device_region;
using ferry::store::entry;
using ferry::store::event_handle;
using ferry::store::event_pool;
using ferry::store::reservation;
using ferry::testing::any_of;
using ferry::testing::one_in;
using ferry::testing::session_world;
using enum ferry::item_state;

/// The path as docs/architecture.md draws it.
std::set<std::pair<item_state, item_state>> const arrows{
    {released, resident},                              // save
    {resident, offloading},  {offloading, hosted},     // offload
    {offloading, resident},                            // cancelled, failed, or in use when the copy ended
    {resident, hosted},                                // its host copy is still good
    {hosted, prefetching},   {prefetching, resident},  // prefetch
    {prefetching, hosted},                             // cancelled or failed
    {resident, dropped},                               // its recipe will rebuild it
    {dropped, recomputing},  {recomputing, resident},  // recompute
    {hosted, recomputing},   {prefetching, recomputing}, {recomputing, dropped},
    {recomputing, hosted},  // the recipe threw
    {resident, released},    {offloading, released},     {hosted, released},
    {prefetching, released}, {dropped, released},
};

RC_GTEST_PROP(StoreProperty, EntriesFollowTheArrowsAndNoOthers, ()) {
  entry e({0, 0, "x"});
  item_state model = released;
  auto const any_state = rc::gen::map(any_of(0, 7), [](int n) { return static_cast<item_state>(n); });
  auto const walk = *rc::gen::resize(100, rc::gen::container<std::vector<item_state>>(any_state));
  for (auto const to : walk) {
    bool const drawn = arrows.contains({model, to});
    RC_ASSERT(ferry::store::legal(model, to) == drawn);
    if (drawn) {
      e.advance(to);
      model = to;
    } else {
      RC_ASSERT_THROWS_AS(e.advance(to), ferry::internal_error);
    }
    RC_ASSERT(e.state() == model);
    RC_ASSERT(e.on_device() == (model == resident || model == offloading));
  }
}

TEST(StoreProperty, EveryArrowIsThere) {
  for (int from = 0; from < 7; ++from) {
    for (int to = 0; to < 7; ++to) {
      auto const arrow = std::pair{static_cast<item_state>(from), static_cast<item_state>(to)};
      EXPECT_EQ(ferry::store::legal(arrow.first, arrow.second), arrows.contains(arrow))
          << to_string(arrow.first) << " -> " << to_string(arrow.second);
    }
  }
}

// Reservations wander between holders, and whatever becomes of them the budget's sum is theirs.
RC_GTEST_PROP(StoreProperty, BudgetsAreTheSumOfTheirReservations, ()) {
  auto const limit = *any_of<std::size_t>(0, 1000);
  auto const clock = ferry::make_sim_device();
  budget tested(*clock, limit);
  std::array<reservation, 8> held;
  std::size_t peak = 0;
  auto const length = *any_of<std::size_t>(0, 200);
  for (std::size_t i = 0; i < length; ++i) {
    auto& one = held[*any_of<std::size_t>(0, held.size())];
    auto& other = held[*any_of<std::size_t>(0, held.size())];
    auto const before = tested.used_bytes();
    switch (*any_of(0, 4)) {
      case 0: {
        auto const bytes = *rc::gen::oneOf(any_of<std::size_t>(0, limit / 4 + 2), rc::gen::arbitrary<std::size_t>());
        auto got = tested.reserve(bytes);
        RC_ASSERT(got.has_value() == (bytes <= limit - before));
        if (got) one = std::move(*got);
        break;
      }
      case 1:
        if (&one != &other) one = std::move(other);  // swaps, and nothing is lost
        break;
      case 2:
        one = reservation(std::move(other));
        break;
      default: {
        auto const gone = std::move(one);
      }
        RC_ASSERT(one.bytes() == 0U);
    }
    std::size_t sum = 0;
    for (auto const& each : held) sum += each.bytes();
    RC_ASSERT(tested.used_bytes() == sum);
    RC_ASSERT(tested.free_bytes() == limit - sum);
    RC_ASSERT(sum <= limit);
    peak = std::max(peak, sum);
    RC_ASSERT(tested.peak_bytes() >= peak);
    RC_ASSERT(tested.peak_bytes() <= limit);
  }
  for (auto& each : held) {
    auto const gone = std::move(each);
  }
  RC_ASSERT(tested.used_bytes() == 0U);
}

RC_GTEST_PROP(StoreProperty, SlabPiecesNeverOverlap, ()) {
  auto const capacity = *any_of<std::size_t>(1, 64 * 1024);
  ferry::testing::program p;
  p.budget = p.host_budget = 64 * 1024;
  session_world world(p);
  ferry::store::slab tested(*world.dev, ferry::memory_space::pinned, capacity);
  std::vector<ferry::store::slab_piece> held;
  auto const length = *any_of<std::size_t>(0, 150);
  for (std::size_t i = 0; i < length; ++i) {
    if (held.empty() || !*one_in(3)) {
      auto piece = tested.allocate(*any_of<std::size_t>(1, capacity / 4 + 2), "piece");
      if (piece) held.push_back(std::move(*piece));
    } else {
      std::swap(held[*any_of<std::size_t>(0, held.size())], held.back());
      held.pop_back();
    }
    std::ranges::sort(held, {}, &ferry::store::slab_piece::address);
    std::size_t sum = 0;
    for (std::size_t k = 0; k < held.size(); ++k) {
      auto const* const end = static_cast<std::byte*>(held[k].address()) + held[k].bytes();
      bool const apart = k + 1 == held.size() || end <= held[k + 1].address();  // RC_ASSERT evaluates both sides of ||
      RC_ASSERT(apart);
      sum += (held[k].bytes() + 255) / 256 * 256;
    }
    RC_ASSERT(tested.bytes().used_bytes() == sum);
    RC_ASSERT(sum <= capacity);
  }
  held.clear();
  RC_ASSERT(tested.bytes().used_bytes() == 0U);
  RC_ASSERT(tested.stats().fragmentation == 0.0);
}

/// Regions of a pool, used on two delayed streams and by the host, and given back while their work is queued.
class pool_user {
 public:
  explicit pool_user(ferry::testing::program const& p)
      : world_(p), events_(*world_.dev), pool_(*world_.dev, p.budget) {}

  /// Work that writes the region and looks at it again is enqueued behind whatever used the bytes before.
  void use(std::size_t bytes, std::size_t which_stream, bool by_host) {
    auto region = pool_.allocate(bytes, "region");
    if (!region) return;
    for (auto const& other : held_) {
      auto const* const begin = static_cast<std::byte*>(region->address());
      auto const* const end = static_cast<std::byte*>(other.region.address()) + other.region.bytes();
      RC_ASSERT(begin >= end || begin + bytes <= other.region.address());
    }
    stream_ref const on = world_.streams[which_stream];
    if (by_host) {
      write_from_host(*region);
    } else {
      pool_.order_after_uses(*region, on);
    }
    auto const expected = std::make_shared<ferry::testing::content>(bytes, static_cast<std::byte>(++uses_));
    world_.write(on, region->address(), expected, nullptr);
    world_.compare(on, region->address(), expected, "region");
    std::vector<event_handle> marks{events_.record(on)};
    if (uses_ % 3 == 0) {
      // Read on the other stream as well: then both uses have to end.
      stream_ref const other = world_.streams[1 - which_stream];
      world_.dev->wait(other, marks.front().ref());
      world_.compare(other, region->address(), expected, "region read elsewhere");
      marks.push_back(events_.record(other));
    }
    held_.push_back({std::move(*region), std::move(marks)});
  }
  void free(std::size_t which) {
    std::swap(held_[which % held_.size()], held_.back());
    pool_.free(std::move(held_.back().region), held_.back().marks);
    held_.pop_back();
  }
  void finish() {
    while (!held_.empty()) free(0);
    RC_ASSERT(pool_.bytes().used_bytes() == 0U);
    RC_ASSERT(pool_.bytes().peak_bytes() <= pool_.bytes().limit_bytes());
    pool_.wait_for_uses();
    static_cast<void>(world_.settle());
    if (world_.problems.count() > 0) RC_FAIL(world_.problems.text());
    auto const violations = ferry::testing::order_violations(*world_.dev);
    if (!violations.empty()) RC_FAIL(violations.front());
  }
  [[nodiscard]] std::size_t held() const { return held_.size(); }

 private:
  struct used_region {
    device_region region;
    std::vector<event_handle> marks;
  };

  /// What a transfer does: it starts once the marks have passed.
  void write_from_host(device_region const& region) {
    std::vector<event_handle> marks;
    pool_.pending_uses(region, marks);
    for (auto const& mark : marks) world_.dev->synchronize(mark.ref());
    if (auto* const order = world_.dev->order())
      order->host_access(ferry::writes(region.address(), region.bytes()), "host");
    std::memset(region.address(), 0xEE, region.bytes());
  }

  session_world world_;
  event_pool events_;
  device_pool pool_;
  std::deque<used_region> held_;
  std::uint64_t uses_ = 0;
};

RC_GTEST_PROP(StoreProperty, DeviceBytesAreReusedInStreamOrder, ()) {
  ferry::testing::program p;
  p.budget = *rc::gen::element<std::size_t>(4096, 16384, 65536);
  p.delays_per_mille = 100;
  p.longest_delay_us = 100;
  p.simulated = *one_in(2);
  p.seed = *any_of<std::uint64_t>(0, 1U << 30U);
  pool_user user(p);
  auto const length = *any_of<std::size_t>(0, 120);
  for (std::size_t i = 0; i < length; ++i) {
    if (user.held() == 0 || !*one_in(3)) {
      user.use(*any_of<std::size_t>(1, p.budget / 3), *any_of<std::size_t>(0, 2), *one_in(4));
    } else {
      user.free(*any_of<std::size_t>(0, 1000));
    }
  }
  user.finish();
}

RC_GTEST_PROP(StoreProperty, AdoptedMemorySharesTheBudget, ()) {
  ferry::testing::program p;
  p.budget = 16384;
  session_world world(p);
  device_pool tested(*world.dev, p.budget);
  std::array<std::byte, 1> trainers{};
  std::vector<device_region> held;
  std::size_t adopted = 0;
  std::size_t used = 0;
  auto const length = *any_of<std::size_t>(0, 100);
  for (std::size_t i = 0; i < length; ++i) {
    auto const bytes = *any_of<std::size_t>(1, 6000);
    if (held.empty() || !*one_in(3)) {
      bool const adopt = *one_in(2);
      auto got = adopt ? tested.adopt(trainers.data(), bytes) : tested.allocate(bytes, "own");
      if (adopt) RC_ASSERT(got.has_value() == (bytes <= p.budget - used));
      if (!got) continue;
      used += adopt ? bytes : (bytes + 255) / 256 * 256;
      adopted += adopt ? bytes : 0;
      held.push_back(std::move(*got));
    } else {
      auto const& last = held.back();
      used -= last.adopted ? last.bytes() : (last.bytes() + 255) / 256 * 256;
      adopted -= last.adopted ? last.bytes() : 0;
      tested.free(std::move(held.back()), {});
      held.pop_back();
    }
    RC_ASSERT(tested.bytes().used_bytes() == used);
    RC_ASSERT(tested.adopted_bytes() == adopted);
    RC_ASSERT(used <= p.budget);
  }
  for (auto& region : held) tested.free(std::move(region), {});
  RC_ASSERT(tested.bytes().used_bytes() == 0U);
}

}  // namespace
