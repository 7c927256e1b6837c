#include "bench/host_contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "bench/measured_step.hpp"
#include "bench/peers.hpp"
#include "common/interrupt.hpp"
#include "common/paired_ratio.hpp"
#include "ferry/error.hpp"
#include "train/train_run.hpp"

namespace ferry::command {

namespace {

// In its first steps a session learns what a step looks like; in the third it first acts on that.
constexpr std::size_t learning_steps = 3;
// Then `auto` may try whether a policy by hand is quicker, which takes some steps more.
constexpr std::size_t trying_steps = 9;

/// One way to set one policy, under one budget.
struct entrant {
  std::size_t curve = 0;
  std::string knob;
  peer const* rule = nullptr;
  std::unique_ptr<train_run> run{};  ///< gone once it has failed
  std::string failure{};
  session_stats before{};
  std::vector<double> seconds{};
  contest_point point{};
};

class host_contest {
 public:
  host_contest(host_contest_options const& how, progress& shown)
      : how_(how), shown_(shown), plan_(make_train_plan(training_of(how.shape, how.device))), peers_(peers(plan_ms)) {}

  host_contest_result run();

 private:
  static constexpr double plan_ms = 300;
  static constexpr std::size_t runs_at_most = 24;
  static constexpr std::size_t runs_that_offload = 12;

  void add_curves();
  void run_budget(std::size_t index);
  std::vector<entrant> entrants_for(device& on, std::size_t budget_bytes);
  void enter(std::vector<entrant>& all, device& on, std::size_t curve, std::string knob, config settings,
             peer const* rule = nullptr, plan const* planned = nullptr);
  bool attempt(entrant& one, bool timed);
  void show(std::size_t index, double share_of_budget, std::string const& what);
  void let_auto_settle(std::vector<entrant>& all, std::size_t index);
  void run_in_turns(std::vector<entrant>& all, train_run& reference, std::size_t index);
  void settle(entrant& one, std::vector<double> const& reference, std::size_t index);
  [[nodiscard]] double noise() const;

  host_contest_options const& how_;
  progress& shown_;
  train_plan plan_;
  std::vector<peer> peers_;
  std::vector<entrant_policy> policies_;
  host_contest_result found_;
  time_left left_;
  std::vector<double> all_reference_;  // seconds of every step that kept all
};

void host_contest::add_curves() {
  auto& all = found_.all;
  all.device = plan_.settings.device;
  all.step = fmt::format("gpt: {} layers, width {}, {} heads, context {}, batch {}, trained on {}", how_.shape.layers,
                         how_.shape.width, how_.shape.heads, how_.shape.context, how_.shape.batch, found_.on.name);
  all.hardware = found_.on.name;
  all.keep_all_bytes = plan_.keep_all_bytes;
  std::size_t const smallest = smallest_budget(plan_, settings_for_one(plan_, plan_.keep_all_bytes, "auto"));
  all.budgets = spread_budgets(smallest, plan_.keep_all_bytes, how_.budgets);
  policies_ = ferry_policies(static_cast<std::size_t>(how_.shape.layers) + 1);
  policies_.insert(policies_.begin(), {"auto", "planned: each item stays, is ferried or rebuilt", {"auto"}});
  auto const add = [&](std::string const& name, std::string const& words, bool is_peer) {
    all.curves.push_back({name, words, is_peer, {}});
    for (std::size_t const bytes : all.budgets) {
      contest_point none;
      none.budget_bytes = bytes;
      none.failure = "out of device memory by its own rule";
      all.curves.back().points.push_back(std::move(none));
    }
  };
  for (auto const& one : policies_) add(one.name, one.words, false);
  for (auto const& one : peers_) add(one.name, one.words, true);
}

void host_contest::enter(std::vector<entrant>& all, device& on, std::size_t curve, std::string knob, config settings,
                         peer const* rule, plan const* planned) {
  entrant one{.curve = curve, .knob = std::move(knob), .rule = rule};
  one.run = std::make_unique<train_run>(on, plan_, std::move(settings));
  if (planned != nullptr) one.run->session().follow(*planned);
  all.push_back(std::move(one));
}

std::vector<entrant> host_contest::entrants_for(device& on, std::size_t budget_bytes) {
  std::vector<entrant> all;
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    for (auto const& setting : policies_[i].settings) {
      enter(all, on, i, policies_[i].settings.size() > 1 ? setting : "",
            settings_for_one(plan_, budget_bytes, setting));
    }
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    auto settings = settings_for_one(plan_, budget_bytes, "auto");
    keep_to_plan(settings);
    // The first of its plans that gets through a step is the one that a user would have found.
    for (auto const& tried : peers_[i].plans_of(found_.step, found_.on, budget_bytes)) {
      enter(all, on, policies_.size() + i, tried.knob, settings, &peers_[i], &tried.what);
      if (interrupted() || attempt(all.back(), false)) break;
      all.pop_back();
    }
  }
  return all;
}

/// False if it does not fit.
bool host_contest::attempt(entrant& one, bool timed) {
  one.before = one.run->session().stats();
  try {
    double const seconds = one.run->step().result.seconds;
    one.run->session().synchronize();  // what still moves would take the link from whoever is next
    if (timed) one.seconds.push_back(seconds);
  } catch (out_of_memory const& problem) {
    one.failure = problem.what();
  }
  if (one.rule != nullptr && one.failure.empty() && !keeps_to_rule(*one.rule, one.run->session().stats())) {
    one.failure = "out of device memory by its own rule";
  }
  if (one.failure.empty()) return true;
  one.run.reset();
  return false;
}

/// Each budget takes about as long as any other.
void host_contest::show(std::size_t index, double share_of_budget, std::string const& what) {
  std::size_t const budgets = found_.all.budgets.size();
  double const share = (static_cast<double>(index) + share_of_budget) / static_cast<double>(budgets);
  shown_.show(fmt::format("budget {}/{} ({}): {}{}", index + 1, budgets, format_bytes(found_.all.budgets[index]), what,
                          left_.words(share)));
}

/// What is timed later is what it has settled on.
void host_contest::let_auto_settle(std::vector<entrant>& all, std::size_t index) {
  for (auto& one : all) {
    if (policies_.size() <= one.curve || policies_[one.curve].name != "auto") continue;
    for (std::size_t step = 0; step < trying_steps && one.run && !interrupted(); ++step) {
      show(index, 0, fmt::format("auto settles, {}/{}", step + 1, trying_steps));
      attempt(one, false);
    }
  }
}

void host_contest::run_in_turns(std::vector<entrant>& all, train_run& reference, std::size_t index) {
  std::vector<double> kept;
  let_auto_settle(all, index);
  std::size_t const rounds = learning_steps + how_.rounds;
  for (std::size_t round = 0; round < rounds && !interrupted(); ++round) {
    bool const timed = round >= learning_steps;
    show(index, static_cast<double>(round) / static_cast<double>(rounds),
         fmt::format("round {}/{}", round + 1, rounds));
    double const seconds = reference.step().result.seconds;
    if (timed) kept.push_back(seconds);
    for (auto& one : all) {
      if (one.run && !interrupted()) attempt(one, timed);
    }
  }
  for (auto& one : all) settle(one, kept, index);
  all_reference_.insert(all_reference_.end(), kept.begin(), kept.end());
}

/// The step's time is relative to those that kept all in the same rounds.
void host_contest::settle(entrant& one, std::vector<double> const& reference, std::size_t index) {
  auto& point = one.point;
  point.budget_bytes = found_.all.budgets[index];
  point.knob = one.knob;
  // If interrupted, those rounds count that both have been through.
  point.fits = one.run != nullptr && !one.seconds.empty() && !reference.empty();
  point.measured = point.fits || !one.failure.empty();
  point.failure = one.failure;
  if (point.fits) {
    auto const time = ratio_of(one.seconds, reference);
    point.step_us = time.middle;  // times the reference's, once all of that is known
    point.error = time.error ? *time.error / time.middle : std::numeric_limits<double>::infinity();
    auto const now = one.run->session().stats();
    point.peak_bytes = now.device.peak_bytes;
    point.host_peak_bytes = now.pinned.peak_bytes;
    point.recompute_us = now.recompute_us - one.before.recompute_us;
    point.waiting_us = now.exposed_us - one.before.exposed_us;
    point.offloaded_bytes = now.device_to_host.bytes - one.before.device_to_host.bytes;
    point.fetched_bytes = now.host_to_device.bytes - one.before.host_to_device.bytes;
  }
  auto& best = found_.all.curves[one.curve].points[index];
  best = better(std::move(best), std::move(point));
}

void host_contest::run_budget(std::size_t index) {
  std::size_t const bytes = found_.all.budgets[index];
  show(index, 0, "beginning");
  auto const on = make_device_for_several(plan_, bytes, runs_at_most, runs_that_offload);
  on->set_link_gbps(copy_direction::device_to_host, found_.on.device_to_host.gbps);
  on->set_link_gbps(copy_direction::host_to_device, found_.on.host_to_device.gbps);
  train_run reference(*on, plan_, settings_for_one(plan_, plan_.keep_all_bytes, "keep"));
  auto all = entrants_for(*on, bytes);
  run_in_turns(all, reference, index);
  if (interrupted()) return;
  for (auto& curve : found_.all.curves) curve.points[index].measured = true;
}

/// What steps that kept all vary by. With less memory nothing is quicker: what seems so tells of noise too.
double host_contest::noise() const {
  double const middle = median(all_reference_);
  std::vector<double> off;
  for (double const one : all_reference_) off.push_back(std::abs(one - middle) / middle);
  double noise = 2 * median(std::move(off));
  for (auto const& curve : found_.all.curves) {
    for (auto const& point : curve.points) {
      if (point.fits) noise = std::max(noise, 1 - point.step_us / found_.all.unlimited_us);
    }
  }
  return noise;
}

host_contest_result host_contest::run() {
  shown_.show("a step with all the memory it wants");
  auto measured = measure_step(plan_);
  found_.step = std::move(measured.step);
  found_.on = std::move(measured.on);
  add_curves();
  left_ = {};
  for (std::size_t i = 0; i < found_.all.budgets.size() && !interrupted(); ++i) run_budget(i);
  shown_.clear();
  found_.all.interrupted = interrupted();
  if (all_reference_.empty()) return std::move(found_);
  found_.all.unlimited_us = 1e6 * median(all_reference_);
  for (auto& curve : found_.all.curves) {
    for (auto& point : curve.points) point.step_us *= found_.all.unlimited_us;
  }
  found_.all.noise = noise();
  return std::move(found_);
}

}  // namespace

host_contest_result run_host_contest(host_contest_options const& how, progress& shown) {
  return host_contest(how, shown).run();
}

}  // namespace ferry::command
