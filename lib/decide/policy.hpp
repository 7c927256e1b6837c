// Policies by hand: from what is known of an item when it is saved to a placement.
//
//   auto       two steps that keep little and measure: inputs of segments are ferried, the rest is dropped; then a plan
//   keep       everything stays
//   recompute  everything that has a recipe is dropped
//   offload    everything is ferried
//   every=N    the boundary items of every N-th segment stay; the rest is dropped
//   sqrt       the same with N = sqrt(segments), once a step has shown how many there are
//   selective  what is dearest to rebuild per byte stays, as far as the budget goes; the rest is dropped
//
// An item without a recipe is never dropped: where it would be, it is kept (or ferried, under offload).
// Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "ferry/config.hpp"
#include "ferry/item.hpp"
#include "ferry/stats.hpp"
#include "store/tiered_store.hpp"

namespace ferry::decide {

struct decision {
  placement where = placement::keep;
  reason why = reason::kept_by_policy;
};

/// Items of one step that `sqrt` or `every=N` would have dropped, but nothing can rebuild.
struct undroppable_items {
  std::uint32_t count = 0;
  item_key first;
};

class policy {
 public:
  explicit policy(config const& settings);

  void set_function(placement_function choose) { function_ = std::move(choose); }
  [[nodiscard]] bool has_function() const noexcept { return function_ != nullptr; }
  [[nodiscard]] decision decide(item_info const& item);
  /// Policy `auto` decides as another one would, until it is told otherwise.
  void act_as(std::optional<policy_choice> other) { acting_ = std::move(other); }
  /// Whether room may be made by dropping what was placed `keep`.
  [[nodiscard]] bool keep_is_firm() const noexcept { return function_ != nullptr || choice_.kind == policy_kind::keep; }

  /// A plan is to be made from the first steps.
  [[nodiscard]] bool planning() const noexcept { return choice_.kind == policy_kind::automatic && !function_; }
  /// This step is to be measured: `learn` will want its recipes' times and the bytes it cannot do without.
  [[nodiscard]] bool measuring() const noexcept {
    return choice_.kind == policy_kind::selective && !function_ && !dearest_known_;
  }
  /// Whoever filled the old one chooses again, by what was measured.
  void budget_changed() noexcept {
    dearest_.clear();
    dearest_known_ = false;
  }
  /// A training step has ended. True if the policy could not do what it says, for the first time.
  [[nodiscard]] bool step_ended() noexcept;
  /// What it could not do, in words; empty if it could in every step that has ended.
  [[nodiscard]] std::string shortcoming() const;
  /// Learns from the step before what `sqrt` and `selective` need to know.
  void learn(store::tiered_store const& store, std::uint64_t step, std::size_t forced_peak_bytes);

 private:
  [[nodiscard]] policy_choice const& in_force() const noexcept { return acting_ ? *acting_ : choice_; }
  [[nodiscard]] placement choose(item_info const& item) const;
  [[nodiscard]] bool checkpoint(std::uint32_t segment) const noexcept;
  void choose_dearest(store::tiered_store const& store, std::uint64_t step, std::size_t room);

  policy_choice choice_;
  std::optional<policy_choice> acting_;
  std::size_t min_bytes_;
  placement_function function_;
  std::uint32_t segments_seen_ = 0;  // in the current step
  std::uint32_t every_ = 0;          // sqrt: 0 until a step has been seen
  std::unordered_set<item_key> dearest_;
  bool dearest_known_ = false;
  undroppable_items undroppable_;       // in the current step
  undroppable_items most_undroppable_;  // of a step
};

}  // namespace ferry::decide
