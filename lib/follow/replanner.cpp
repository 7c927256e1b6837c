#include "follow/replanner.hpp"

#include <exception>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "support/parallel.hpp"

namespace ferry::follow {

struct replanner::work {
  result made;
  std::atomic<bool> ready{false};

  void run() noexcept {
    try {
      auto const& task = made.task;
      std::span const links(plan_set::link_factors);
      auto plans = make_plans(task.step, task.on, task.how, task.other_links ? links : links.first(1));
      bool const better = plans.front() && (!task.home || plans.front()->step_us < task.home->step_us);
      if (!better) plans.front() = task.home;
      std::vector<plan_set::choice> choices;
      for (std::size_t i = 0; i < plans.size(); ++i) {
        if (plans[i]) choices.push_back({plan_set::link_factors[i], followed_plan(std::move(*plans[i]))});
      }
      if (plans.front()) made.plans = plan_set(std::move(choices));
      if (!plans.front()) made.failure = "no plan fits the budget";
      if (task.other_links) made.by_hand = planning::policy_times(task.step, task.on, task.how);
    } catch (std::exception const& e) {
      made.failure = e.what();
    }
    ready.store(true, std::memory_order_release);
    ready.notify_all();
  }
};

replanner::~replanner() {
  if (worker_.joinable()) worker_.join();
}

void replanner::start(planning_task task) {
  work_ = std::make_shared<work>();
  work_->made.task = std::move(task);
  if (worker_.joinable()) worker_.join();
  auto const run = [work = work_] {
    support::alone_here const alone;  // the other cores are the trainer's
    work->run();
  };
  try {
    worker_ = std::thread(run);
  } catch (std::exception const&) {  // no threads left, or no memory for one
    run();
  }
}

std::optional<replanner::result> replanner::take(bool wait) {
  if (work_ == nullptr) return std::nullopt;
  if (wait) work_->ready.wait(false);
  if (!work_->ready.load(std::memory_order_acquire)) return std::nullopt;
  return std::move(std::exchange(work_, nullptr)->made);
}

}  // namespace ferry::follow
