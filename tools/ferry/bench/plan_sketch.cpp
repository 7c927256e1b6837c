#include "bench/plan_sketch.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace ferry::command {

plan_sketch::plan_sketch(profile const& step)
    : step_(step), before_forward_(step.segments.size()), before_backward_(step.segments.size()) {
  made_.profile_name = step.name;
  for (std::uint32_t i = 0; i < segments(); ++i) {
    first_.push_back(made_.items.size());
    for (auto const& one : step.segments[i].items) {
      made_.items.push_back({{i, one.name}, one.bytes, placement::keep, one.recipe_us, {}});
    }
  }
}

std::size_t plan_sketch::input_of(std::uint32_t segment) const {
  auto const& items = step_.segments[segment].items;
  auto const found = std::ranges::find_if(items, [&](profile_item const& one) {
    return !one.recipe_us || std::ranges::any_of(one.inputs, [&](item_name const& in) { return in.segment < segment; });
  });
  return found == items.end() ? 0 : static_cast<std::size_t>(found - items.begin());
}

void plan_sketch::place(std::uint32_t segment, std::size_t item, placement where) {
  made_.items[first_[segment] + item].where = where;
}

plan_operation plan_sketch::operation(kind what, std::uint32_t segment, std::string item) const {
  plan_operation one;
  one.what = what;
  one.segment = segment;
  one.item = std::move(item);
  return one;
}

void plan_sketch::drop_before_forward(std::uint32_t at, std::uint32_t segment, std::size_t item) {
  before_forward_[at].push_back(operation(kind::drop, segment, step_.segments[segment].items[item].name));
}

void plan_sketch::drop_before_backward(std::uint32_t at, std::uint32_t segment, std::size_t item) {
  before_backward_[at].push_back(operation(kind::drop, segment, step_.segments[segment].items[item].name));
}

void plan_sketch::fetch_before_backward(std::uint32_t at, std::uint32_t segment) {
  std::span const placed(made_.items.data() + first_[segment], step_.segments[segment].items.size());
  auto const ferried = [&](std::string const& name) {
    auto const found = std::ranges::find(placed, name, [](plan_item const& one) { return one.item.name; });
    return found != placed.end() && found->where == placement::offload;
  };
  std::vector<std::string> names;
  for (auto const& need : step_.need_order) {
    if (need.segment == segment && ferried(need.name)) names.push_back(need.name);
  }
  for (auto const& one : step_.segments[segment].items) {  // what the order of need does not name comes last
    if (ferried(one.name) && std::ranges::find(names, one.name) == names.end()) names.push_back(one.name);
  }
  for (auto& name : names) before_backward_[at].push_back(operation(kind::fetch, segment, std::move(name)));
}

void plan_sketch::emit(plan_operation one, double us) {
  one.position = computed_;
  one.start_us = one.latest_start_us = now_us_;
  one.end_us = now_us_ += us;
  bool const computes = one.what == kind::forward || one.what == kind::backward;
  if (computes) ++computed_;
  made_.operations.push_back(std::move(one));
}

plan plan_sketch::finish() && {
  for (std::uint32_t i = 0; i < segments(); ++i) {
    for (auto& one : before_forward_[i]) emit(std::move(one), 0);
    emit(operation(kind::forward, i), step_.segments[i].forward_us);
  }
  for (std::uint32_t i = segments(); i-- > 0;) {
    for (auto& one : before_backward_[i]) emit(std::move(one), 0);
    emit(operation(kind::backward, i), step_.segments[i].backward_us);
  }
  made_.unlimited_us = made_.step_us = now_us_;
  return std::move(made_);
}

}  // namespace ferry::command
