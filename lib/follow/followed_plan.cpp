#include "follow/followed_plan.hpp"

#include <utility>

namespace ferry::follow {

followed_plan::followed_plan(plan planned) : plan_(std::move(planned)) {
  items_.reserve(plan_.items.size());
  for (auto const& one : plan_.items) {
    items_.emplace(item_key{0, one.item.segment, label(one.item.name)},
                   planned_item{one.where, one.bytes, one.rebuild_us});
  }
  std::size_t first = 0;
  for (auto const& op : plan_.operations) {
    switch (op.what) {
      case plan_operation::kind::forward:
      case plan_operation::kind::backward: {
        auto const which = op.what == plan_operation::kind::forward ? pass::forward : pass::backward;
        steps_.push_back(
            {which, op.segment, std::exchange(first, directives_.size()), directives_.size(), op.start_us});
        break;
      }
      case plan_operation::kind::offload:
        break;  // an item goes out when it is saved
      case plan_operation::kind::fetch:
      case plan_operation::kind::rebuild:
      case plan_operation::kind::drop:
        directives_.push_back({op.what, {0, op.segment, label(op.item)}});
        break;
    }
  }
}

followed_plan::planned_item const* followed_plan::find(item_key const& key) const {
  auto const found = items_.find(item_key{0, key.segment, key.name});
  return found == items_.end() ? nullptr : &found->second;
}

void followed_plan::go_on_from(followed_plan const& other) noexcept {
  next_ = 0;
  if (other.next_ == 0) return;
  auto const& reached = other.steps_[other.next_ - 1];
  go_on_in(reached.which, reached.segment);
}

void followed_plan::go_on_in(pass which, std::uint32_t segment) noexcept {
  next_ = 0;
  while (next_ < steps_.size() && !(steps_[next_].which == which && steps_[next_].segment == segment)) ++next_;
  if (next_ < steps_.size()) ++next_;
}

std::optional<double> followed_plan::until_backward_us(std::uint32_t segment) const {
  if (next_ == 0) return std::nullopt;
  for (std::size_t i = next_; i < steps_.size(); ++i) {
    if (steps_[i].which == pass::backward && steps_[i].segment == segment) {
      return steps_[i].start_us - steps_[next_ - 1].start_us;
    }
  }
  return std::nullopt;
}

std::span<followed_plan::directive const> followed_plan::enter(pass which, item_key const& key) {
  auto const matches = [&](step const& s) { return s.which == which && s.segment == key.segment; };
  if (next_ == steps_.size() || !matches(steps_[next_])) {
    // Every micro-batch begins the plan anew; anything else was not foreseen, and is left alone.
    if (steps_.empty() || !matches(steps_.front())) return {};
    next_ = 0;
  }
  auto const& entered = steps_[next_++];
  return std::span(directives_).subspan(entered.first, entered.end - entered.first);
}

}  // namespace ferry::follow
