#include "bench/sim_contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "bench/peers.hpp"
#include "common/interrupt.hpp"
#include "ferry/error.hpp"
#include "ferry/simulate.hpp"
#include "plan/step_chain.hpp"
#include "simulate/simulate_trace.hpp"
#include "support/parallel.hpp"

namespace ferry::command {

namespace {

/// Times as long as with unlimited memory: of no interest, and rebuilding things over and over takes long to simulate.
constexpr double hopeless = 4;

class sim_contest {
 public:
  sim_contest(given_step const& given, sim_contest_options const& how, progress& shown)
      : given_(given), how_(how), shown_(shown), peers_(peers(how.plan_ms)) {}

  contest run();

 private:
  using run_under_budget = std::function<contest_point(std::size_t budget)>;  // by its index

  void find_budgets();
  void make_plans();
  void enter(std::string name, std::string words, bool is_peer, run_under_budget run);
  void run_all();
  [[nodiscard]] simulation_options options_for(std::size_t budget) const;
  [[nodiscard]] contest_point run_session(std::size_t budget, simulation_options const& options,
                                          peer const* rule = nullptr) const;
  [[nodiscard]] contest_point run_policy(entrant_policy const& policy, std::size_t budget) const;
  [[nodiscard]] contest_point run_plan(std::size_t budget) const;
  [[nodiscard]] contest_point run_peer(peer const& other, std::size_t budget) const;

  given_step const& given_;
  sim_contest_options const& how_;
  progress& shown_;
  std::vector<peer> peers_;
  contest all_;
  std::vector<plan> plans_;  // `auto`'s, for each budget
  std::vector<run_under_budget> runs_;
};

void sim_contest::find_budgets() {
  shown_.show("smallest budget");
  plan_options how;
  how.host_budget_bytes = how_.host_budget_bytes;
  std::size_t const smallest = planning::smallest_budget(given_.step, given_.on, how);
  if (smallest > given_.on.device_bytes) {
    throw infeasible_budget(
        fmt::format("no plan for '{}' fits '{}', which has {}: at least {} are needed; use a smaller batch",
                    given_.step.name, given_.on.name, format_bytes(given_.on.device_bytes), format_bytes(smallest)),
        smallest, given_.on.device_bytes);
  }
  std::size_t const largest = std::min(given_.on.device_bytes, planning::keep_all_peak(given_.step, given_.on));
  all_.budgets = spread_budgets(smallest, largest, how_.budgets);
}

/// One after the other: each search uses all of the machine.
void sim_contest::make_plans() {
  plan_options how;
  how.host_budget_bytes = how_.host_budget_bytes;
  how.insured = how_.settings.insure;
  how.time_limit_ms = how_.plan_ms;
  time_left const left;
  for (std::size_t const bytes : all_.budgets) {
    if (interrupted()) return;
    double const share = static_cast<double>(plans_.size()) / static_cast<double>(all_.budgets.size());
    shown_.show(fmt::format("plan {}/{}: {}{}", plans_.size() + 1, all_.budgets.size(), format_bytes(bytes),
                            left.words(share)));
    how.budget_bytes = bytes;
    auto made = make_plan(given_.step, given_.on, how);
    // What fits a smaller budget fits this one too.
    if (!plans_.empty() && plans_.back().step_us < made.step_us) made = plans_.back();
    plans_.push_back(std::move(made));
  }
}

simulation_options sim_contest::options_for(std::size_t budget) const {
  simulation_options options;
  options.settings = how_.settings;
  options.longest_step_us = hopeless * all_.unlimited_us;
  options.settings.budget = byte_amount::exactly(all_.budgets[budget]);
  options.settings.host_budget =
      how_.host_budget_bytes > 0 ? byte_amount::exactly(how_.host_budget_bytes) : byte_amount::share(1.0);
  return options;
}

contest_point sim_contest::run_session(std::size_t budget, simulation_options const& options, peer const* rule) const {
  contest_point point;
  point.budget_bytes = all_.budgets[budget];
  try {
    auto const done = simulate(given_.step, given_.on, options);
    auto const sums = sums_of(spans_of(done, given_.step), done.step_us);
    point.fits = rule == nullptr || keeps_to_rule(*rule, done.stats);
    if (!point.fits) point.failure = "out of device memory by its own rule";
    point.peak_bytes = done.stats.device.peak_bytes;
    point.host_peak_bytes = done.stats.pinned.peak_bytes;
    point.step_us = done.step_us;
    point.recompute_us = sums.rebuild_us;
    point.waiting_us = sums.waiting_us;
    point.offloaded_bytes = sums.out_bytes;
    point.fetched_bytes = sums.in_bytes;
  } catch (out_of_memory const& problem) {
    point.failure = problem.what();
  } catch (step_too_long const&) {
    point.failure = fmt::format("takes more than {:g} times as long", hopeless);
  } catch (deadlock_error const&) {
    point.failure = "it would wait forever for bytes that nothing gives back";
  }
  return point;
}

contest_point sim_contest::run_policy(entrant_policy const& policy, std::size_t budget) const {
  contest_point best;
  best.budget_bytes = all_.budgets[budget];
  for (auto const& setting : policy.settings) {
    auto options = options_for(budget);
    options.settings.set("FERRY_POLICY", setting);
    constexpr std::uint32_t steps_to_learn = 3;  // the order of need, what recipes take
    options.steps = steps_to_learn;
    auto point = run_session(budget, options);
    if (policy.settings.size() > 1) point.knob = setting;
    if (!point.fits) best.failure = point.failure;
    best = better(std::move(best), std::move(point));
  }
  return best;
}

contest_point sim_contest::run_plan(std::size_t budget) const {
  auto options = options_for(budget);
  options.planned = plans_[budget];
  options.steps = 2;
  return run_session(budget, options);
}

contest_point sim_contest::run_peer(peer const& other, std::size_t budget) const {
  contest_point best;
  best.budget_bytes = all_.budgets[budget];
  best.failure = "out of device memory by its own rule";
  for (auto& tried : other.plans_of(given_.step, given_.on, all_.budgets[budget])) {
    auto options = options_for(budget);
    options.planned = std::move(tried.what);
    options.steps = 1;  // a plan by hand learns nothing
    keep_to_plan(options.settings);
    auto point = run_session(budget, options, &other);
    point.knob = tried.knob;
    if (point.fits) return point;
  }
  return best;
}

void sim_contest::enter(std::string name, std::string words, bool is_peer, run_under_budget run) {
  all_.curves.push_back({std::move(name), std::move(words), is_peer, {}});
  all_.curves.back().points.resize(all_.budgets.size());
  runs_.push_back(std::move(run));
}

/// Side by side.
void sim_contest::run_all() {
  std::size_t const budgets = all_.budgets.size();
  std::size_t const count = runs_.size() * budgets;
  std::atomic<std::size_t> done{0};
  std::mutex showing;
  time_left const left;
  support::in_parallel(count, [&](std::size_t i) {
    std::size_t const curve = i % runs_.size();
    std::size_t const budget = i / runs_.size();
    auto& point = all_.curves[curve].points[budget];
    point.budget_bytes = all_.budgets[budget];
    if (interrupted()) return;
    point = runs_[curve](budget);
    point.measured = true;
    std::size_t const now = ++done;
    std::lock_guard const one_at_a_time(showing);
    shown_.show(fmt::format("run {}/{}: {} in {}{}", now, count, all_.curves[curve].name,
                            format_bytes(all_.budgets[budget]),
                            left.words(static_cast<double>(now) / static_cast<double>(count))));
  });
}

contest sim_contest::run() {
  all_.device = "sim";
  all_.step = given_.step.name;
  all_.hardware = given_.on.name;
  all_.keep_all_bytes = given_.keep_all_bytes;
  for (auto const& segment : given_.step.segments) all_.unlimited_us += segment.forward_us + segment.backward_us;
  find_budgets();
  make_plans();
  all_.interrupted = interrupted();
  if (all_.interrupted) return std::move(all_);
  enter("auto", "planned: each item stays, is ferried or rebuilt", false,
        [this](std::size_t budget) { return run_plan(budget); });
  for (auto& policy : ferry_policies(given_.step.segments.size())) {
    enter(policy.name, policy.words, false, [this, policy](std::size_t budget) { return run_policy(policy, budget); });
  }
  for (auto const& other : peers_) {
    enter(other.name, other.words, true, [this, &other](std::size_t budget) { return run_peer(other, budget); });
  }
  run_all();
  shown_.clear();
  all_.interrupted = interrupted();
  return std::move(all_);
}

}  // namespace

contest run_sim_contest(given_step const& given, sim_contest_options const& how, progress& shown) {
  return sim_contest(given, how, shown).run();
}

}  // namespace ferry::command
