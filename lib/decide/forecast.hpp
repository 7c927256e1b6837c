// The forecast: when a transfer would be over, how long a recipe would take, and which of the two is the better wait.
//
// All times are from now, by this step's measured pace and the link's measured speed. A wait costs only what is left of
// it once the device has done what is enqueued already. Nothing here moves a byte. Threads: the session's only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "decide/link_view.hpp"
#include "decide/step_clock.hpp"
#include "ferry/config.hpp"
#include "store/tiered_store.hpp"
#include "store/transfer.hpp"

namespace ferry::decide {

class forecast {
 public:
  forecast(device& on, store::tiered_store& store, link_view link, step_clock& clock, config const& settings);

  [[nodiscard]] link_view const& link() const noexcept { return link_; }

  // An item on its way back, or that could be.

  /// When the item would be on the device if it were urgent: behind the chunks that are in flight already.
  [[nodiscard]] double arrival_us(store::entry const& e) const;
  /// The last chunk will be there before a host that naps would notice, and is not overdue: a stall may have begun.
  /// Where the host is punctual a nap ends in time, and nothing need be guessed.
  [[nodiscard]] bool about_to_arrive(store::entry const& e) const;
  /// How long compute would stand still for the chunks of the item that are in flight. Requires: it is being fetched.
  [[nodiscard]] double coming_us(store::entry const& e);
  /// The rule: the recipe is taken when it would be over before the transfer, by more than FERRY_STALL_TOLERANCE_US.
  /// What was seen is that look's, or, while the answer is no, that of the longest wait.
  [[nodiscard]] bool recipe_is_sooner(store::entry const& e, outlook& seen);
  /// Behind `coming_bytes` that are on their way already, the item would come later than its recipe, run when it is
  /// needed in `until_us`, would be over. Then, by how much, and what the recipe takes.
  [[nodiscard]] std::optional<outlook> lateness(store::entry const& e, double until_us, std::size_t coming_bytes);
  /// What restoring the item now would come to.
  [[nodiscard]] outlook foresee(store::entry const& e);

  // Recipes.

  /// How long the recipe would keep compute, by its last run, with whatever its inputs need first: each comes over the
  /// link or by its own recipe, whichever is sooner. What arrives within `hidden_us` costs nothing. Looks no further
  /// once `limit` is reached.
  [[nodiscard]] double rebuild_us(store::entry const& e, double limit, double hidden_us);
  /// What the recipe will cost backward if the item is dropped now: what else the item's own segment needs will be
  /// brought back for that one's sake.
  [[nodiscard]] double rebuild_later_us(store::entry const& e, double limit) const;
  [[nodiscard]] static double part_of_recipe_us(store::entry const& e, std::size_t rows);
  /// Of an item whose first so many bytes are there, rows that a recipe need not rebuild. With FERRY_VERIFY=checksum
  /// part of an item is not to be trusted.
  [[nodiscard]] std::size_t whole_rows(store::entry const& e, std::size_t bytes) const noexcept;
  /// It is on the device in name only: what was to write its bytes there has failed.
  [[nodiscard]] bool is_lost(store::entry const& e) const;
  /// Everything that its recipe needs can be had, as far as is known now.
  [[nodiscard]] bool can_be_rebuilt(store::entry const& e);
  /// Dropped, and its recipe waits for nothing.
  [[nodiscard]] bool could_be_rebuilt_now(store::entry const& e) const;

  // Room.

  /// How long until these transfers have given back so many device bytes, in their order. Of one that was called off,
  /// only what is in flight has to end.
  [[nodiscard]] double room_us(std::span<store::transfer* const> leaving, std::size_t bytes) const;
  /// Device bytes of its item that are free once the transfer has ended.
  [[nodiscard]] static std::size_t freed_by(store::transfer const& t) noexcept;

  /// FERRY_STALL_TOLERANCE_US may have mattered: a recipe was shorter than the wait for a transfer.
  [[nodiscard]] bool has_weighed() const noexcept { return weighed_; }

 private:
  /// What recipes keep compute for, and how much longer than nobody waits the link takes for their inputs.
  struct rebuild_cost {
    double recipes_us = 0;
    double link_us = 0;
    [[nodiscard]] double us() const noexcept { return recipes_us + std::max(0.0, link_us); }
  };
  [[nodiscard]] bool add_recipe(store::entry const& e, double limit, rebuild_cost& cost);
  [[nodiscard]] bool add_input(store::entry const& input, double limit, rebuild_cost& cost);
  [[nodiscard]] bool inputs_can_be_had(store::entry const& e);

  device& device_;
  store::tiered_store& store_;
  link_view link_;
  step_clock& clock_;
  config const& settings_;
  std::vector<store::entry const*> counted_;  // of those that a recipe needs; see `rebuild_us` and `can_be_rebuilt`
  bool weighed_ = false;
};

}  // namespace ferry::decide
