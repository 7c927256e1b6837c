#include "follow/plan_follower.hpp"

namespace ferry::follow {

void plan_follower::follow(plan_set plans) {
  plans_ = std::move(plans);
  pace_ = 1;
  due_.reserve(plans_.at_hand()->items());
  take_up();
}

void plan_follower::go_on_with(plan_set plans, pass which, std::uint32_t segment) {
  follow(std::move(plans));
  if (current_ != nullptr) current_->go_on_in(which, segment);
  changed_in_step_ = true;
}

plan_set plan_follower::give_up() noexcept {
  current_ = nullptr;
  due_.clear();
  return std::exchange(plans_, {});
}

void plan_follower::suspend() noexcept {
  suspended_ = true;
  current_ = nullptr;
  due_.clear();
}

void plan_follower::begin_step() noexcept {
  if (current_ != nullptr) current_->begin_step();
  changed_in_step_ = false;
  due_.clear();
}

void plan_follower::choose(double link_factor, double derating) noexcept {
  if (plans_.choose(link_factor, derating)) take_up();
}

bool plan_follower::change_in_step(double link_factor, double derating) noexcept {
  if (!plans_.choose(link_factor, derating)) return false;
  auto const* const before = std::exchange(current_, plans_.at_hand());
  current_->go_on_from(*before);
  changed_in_step_ = true;
  return true;
}

std::optional<double> plan_follower::until_backward_us(std::uint32_t segment) const {
  auto const planned_us = current_->until_backward_us(segment);
  return planned_us ? std::optional(*planned_us * pace_) : std::nullopt;
}

std::size_t plan_follower::due_bytes() const noexcept {
  std::size_t sum = 0;
  for (auto const& due : due_) sum += due.item->bytes;
  return sum;
}

}  // namespace ferry::follow
