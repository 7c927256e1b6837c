// The replanner: makes plans in the background, on a thread of its own, so that no step waits for it.
//
// Threads: the session's; one set of plans is made at a time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ferry/plan.hpp"
#include "follow/plan_set.hpp"
#include "plan/policy_times.hpp"

namespace ferry::follow {

/// What plans are made for.
struct planning_task {
  profile step;
  hardware on;
  plan_options how;
  std::optional<plan> home;      ///< for the link as it is, if that is made already
  std::uint32_t generation = 0;  ///< of steps that look alike
  bool other_links = true;       ///< also plans for links that are faster or slower
};

class replanner {
 public:
  replanner() = default;
  replanner(replanner const&) = delete;
  replanner& operator=(replanner const&) = delete;
  ~replanner();

  /// Requires: not busy.
  void start(planning_task task);
  [[nodiscard]] bool busy() const noexcept { return work_ != nullptr; }

  struct result {
    planning_task task;
    plan_set plans;                              ///< empty if there is none
    std::vector<planning::policy_time> by_hand;  ///< what policies by hand would take
    std::string failure;                         ///< why
  };
  /// What was asked for, if it is ready; `wait` until it is.
  [[nodiscard]] std::optional<result> take(bool wait);

 private:
  struct work;
  std::shared_ptr<work> work_;
  std::thread worker_;  // has nothing left to do once the work is ready
};

}  // namespace ferry::follow
