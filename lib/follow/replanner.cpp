#include "follow/replanner.hpp"

#include <tbb/task_arena.h>

#include <exception>
#include <span>
#include <utility>
#include <vector>

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
    } catch (std::exception const& e) {
      made.failure = e.what();
    }
    ready.store(true, std::memory_order_release);
    ready.notify_all();
  }
};

struct replanner::worker {
  // One thread, and none of the caller's: what is enqueued runs even if the machine has one core.
  tbb::task_arena arena{1, 0};
};

replanner::replanner() : worker_(std::make_unique<worker>()) {}

replanner::~replanner() {
  if (work_ != nullptr) work_->ready.wait(false);
}

void replanner::start(planning_task task) {
  work_ = std::make_shared<work>();
  work_->made.task = std::move(task);
  worker_->arena.enqueue([work = work_] { work->run(); });
}

std::optional<replanner::result> replanner::take(bool wait) {
  if (work_ == nullptr) return std::nullopt;
  if (wait) work_->ready.wait(false);
  if (!work_->ready.load(std::memory_order_acquire)) return std::nullopt;
  return std::move(std::exchange(work_, nullptr)->made);
}

}  // namespace ferry::follow
