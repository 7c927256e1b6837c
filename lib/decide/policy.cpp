#include "decide/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/parse.hpp"

namespace ferry::decide {

policy::policy(config const& settings) : choice_(settings.policy), min_bytes_(settings.min_bytes) {}

decision policy::decide(item_info const& item) {
  segments_seen_ = std::max(segments_seen_, item.key.segment + 1);
  placement const wanted = function_ ? function_(item) : choose(item);
  if (wanted == placement::keep) return {placement::keep, reason::kept_by_policy};
  if (item.bytes < min_bytes_) return {placement::keep, reason::kept_below_min_bytes};
  if (wanted == placement::offload) return {placement::offload, reason::offloaded_by_policy};
  if (item.has_recipe) return {placement::recompute, reason::dropped_by_policy};
  bool const by_distance = choice_.kind == policy_kind::every || choice_.kind == policy_kind::sqrt;
  if (by_distance && !function_ && undroppable_.count++ == 0) undroppable_.first = item.key;
  return {placement::keep, reason::kept_no_recipe};
}

bool policy::step_ended() noexcept {
  bool const known = most_undroppable_.count > 0;
  if (undroppable_.count > most_undroppable_.count) most_undroppable_ = undroppable_;
  return !known && most_undroppable_.count > 0;
}

std::string policy::shortcoming() const {
  if (most_undroppable_.count == 0) return {};
  return fmt::format(
      "FERRY_POLICY={} keeps more than it says: {} of a step's items that it would drop have no recipe, the first of "
      "them {}; give them recipes, or choose FERRY_POLICY=auto or offload, which ferry such items",
      support::write_policy(choice_), most_undroppable_.count, to_string(most_undroppable_.first));
}

placement policy::choose(item_info const& item) const {
  switch (in_force().kind) {
    case policy_kind::automatic:
    case policy_kind::plan:  // until it is there
      return item.boundary ? placement::offload : placement::recompute;
    case policy_kind::keep:
      return placement::keep;
    case policy_kind::recompute:
      // Without a segment's input, rebuilding it would begin at the first segment: work that grows as the square
      // of their number.
      return item.boundary && item.has_recipe ? placement::keep : placement::recompute;
    case policy_kind::offload:
      return placement::offload;
    case policy_kind::every:
    case policy_kind::sqrt:
      return item.boundary && checkpoint(item.key.segment) ? placement::keep : placement::recompute;
    case policy_kind::selective:
      return dearest_.contains(item.key) ? placement::keep : placement::recompute;
  }
  return placement::keep;
}

bool policy::checkpoint(std::uint32_t segment) const noexcept {
  unsigned const every = in_force().kind == policy_kind::every ? in_force().every : every_;
  if (every != 0) return segment % every == 0;
  // Before the number of segments is known: gaps that grow by one (0, 1, 3, 6, 10, ...) leave about
  // sqrt(2 L) checkpoints and gaps of about sqrt(2 L), wherever the chain turns out to end.
  auto const n = static_cast<std::uint32_t>((std::sqrt(8.0 * segment + 1.0) - 1.0) / 2.0 + 0.5);
  return n * (n + 1) / 2 == segment;
}

void policy::learn(store::tiered_store const& store, std::uint64_t step, std::size_t forced_peak_bytes) {
  if (segments_seen_ > 0) {
    every_ = static_cast<std::uint32_t>(std::ceil(std::sqrt(static_cast<double>(segments_seen_))));
  }
  // The first step drops everything that can be rebuilt: so it measures each recipe, and shows which bytes
  // the step needs whatever is kept. What is left of the budget goes to the dearest items.
  if (measuring()) {
    std::size_t const limit = store.device_tier().bytes().limit_bytes();  // it may have shrunk since
    choose_dearest(store, step, limit - std::min(limit, forced_peak_bytes));
  }
  segments_seen_ = 0;
  undroppable_ = {};
}

void policy::choose_dearest(store::tiered_store const& store, std::uint64_t step, std::size_t room) {
  std::vector<store::entry const*> measured;
  for (auto const& [key, e] : store.entries()) {
    if (e.saved_in_step == step && e.record.stats.recipe_us > 0) measured.push_back(&e);
  }
  if (measured.empty()) return;
  std::ranges::sort(measured, [](auto const* a, auto const* b) {
    double const per_byte_a = a->record.stats.recipe_us / static_cast<double>(a->record.stats.bytes);
    double const per_byte_b = b->record.stats.recipe_us / static_cast<double>(b->record.stats.bytes);
    if (per_byte_a != per_byte_b) return per_byte_a > per_byte_b;
    return a->save_order < b->save_order;
  });
  for (auto const* e : measured) {
    if (e->record.stats.bytes > room) continue;
    room -= e->record.stats.bytes;
    dearest_.insert(e->key);
  }
  dearest_known_ = true;
}

}  // namespace ferry::decide
