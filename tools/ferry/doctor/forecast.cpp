#include "doctor/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "common/step_flags.hpp"
#include "doctor/product_rate.hpp"
#include "ferry/error.hpp"
#include "plan/chain_simulator.hpp"
#include "plan/lower_bound.hpp"
#include "plan/step_chain.hpp"
#include "plan/step_solver.hpp"

namespace ferry::command {

namespace {

/// Of as many sequences as a part has.
model part_of(model of, int micro_batch) {
  of.batch = micro_batch;
  return of;
}

plan_options options_of(desk const& at, profile const& step) {
  return {.budget_bytes = at.budget, .host_budget_bytes = at.host_budget, .effort = quick_effort(step)};
}

double backward_us_of(profile const& step) {
  double sum = 0;
  for (auto const& segment : step.segments) sum += segment.backward_us;
  return sum;
}

forecast from_plan(desk const& at, part_of_step const& part, plan const& planned, std::string policy) {
  forecast made = forecast_of(at, part, std::move(policy), planned.step_us, planned.offloaded_bytes > 0);
  auto const times = static_cast<std::size_t>(part.accumulate);
  made.peak_bytes = planned.device.peak;
  made.host_bytes = planned.host.peak;
  made.recompute_us = part.accumulate * planned.recompute_us;
  made.waiting_us = part.accumulate * planned.waiting_us;
  made.out_bytes = planned.offloaded_bytes * times;
  made.in_bytes = planned.fetched_bytes * times;
  made.recomputed = planned.recomputed;
  double flops = 0;
  for (auto const& one : planned.recomputed) flops += one.flops;
  made.recompute_flops_share = flops / flops_of(part.of, part.step);
  return made;
}

std::optional<forecast> planned(desk const& at, part_of_step const& part, plan_options const& how) {
  double const as_it_is = 1;
  auto const made = make_plans(part.step, part.on, how, {&as_it_is, 1});
  if (!made.front()) return std::nullopt;
  return from_plan(at, part, *made.front(), "auto");
}

void count_rebuilding(std::vector<recompute_share>& in, profile_item const& item) {
  auto known = std::ranges::find(in, item.name, &recompute_share::operation);
  if (known == in.end()) known = in.insert(known, {item.name, 0, 0, 0});
  ++known->runs;
  known->us += *item.recipe_us;
  known->flops += item.recipe_flops;
}

/// A step for which plans are made by a rule and simulated, one after the other.
class rule_book {
 public:
  rule_book(desk const& at, int micro_batch) : at_(at), part_(at, micro_batch), how_(options_of(at, part_.step)) {
    how_.insured = false;
    posed_.of = std::make_unique<planning::step_chain>(planning::make_step_chain(part_.step, part_.on, how_, false));
    posed_.solver = std::make_unique<planning::chain_solver>(posed_.of->problem);
    simulator_.emplace(posed_.solver->problem(), posed_.solver->replays());
  }

  [[nodiscard]] std::size_t stages() const { return posed_.of->problem.stages(); }

  [[nodiscard]] bool fits(planning::chain_plan plan) {
    planning::settle(posed_.of->problem, plan);
    return std::isfinite(simulator_->run(plan));
  }

  [[nodiscard]] std::optional<forecast> carry_out(planning::chain_plan plan, char const* policy) {
    planning::settle(posed_.of->problem, plan);
    double const taken = simulator_->run(plan);
    if (!std::isfinite(taken)) return std::nullopt;
    posed_.found.feasible = true;
    posed_.found.plan = std::move(plan);
    posed_.found.seconds = taken;
    return from_plan(at_, part_, planning::write_plan(part_.step, part_.on, how_, posed_), policy);
  }

 private:
  desk const& at_;
  part_of_step part_;
  plan_options how_;
  planning::solved_step posed_;
  std::optional<planning::chain_simulator> simulator_;
};

/// All blocks are alike, so a few of them need as much at once as all do.
std::size_t least_bytes_of(model of, training const& how, hardware const& on) {
  profile const few = step_of(shortened(std::move(of), 3), how, on);
  plan_options const options{.budget_bytes = 1, .insured = false};
  return static_cast<std::size_t>(
      std::ceil(planning::floor_of(planning::make_step_chain(few, on, options, false).problem).bytes));
}

/// By two sizes, because saved bytes grow evenly with the layers.
std::size_t kept_bytes_of(model of, training const& how, hardware const& on) {
  int const layers = of.layers - of.frozen;
  of = shortened(std::move(of), 2);
  profile const few = step_of(of, how, on);
  auto const part = activations_of(of, few);
  std::size_t const more = layers > 2 ? static_cast<std::size_t>(layers - 2) *
                                            [&] {
                                              std::size_t block = 0;
                                              for (auto const& item : few.segments[1].items) block += item.bytes;
                                              return block;
                                            }()
                                      : 0;
  return part.sum() + more;
}

/// The largest value for which `fits`, which holds up to some value and not beyond it; 0 if not even for 1.
int largest_that(int most, std::function<bool(int)> const& fits) {
  if (!fits(1)) return 0;
  int low = 1;
  int high = 2;
  while (high <= most && fits(high)) {
    low = high;
    high = high > most / 2 ? most + 1 : 2 * high;
  }
  high = std::min(high, most + 1);
  while (high - low > 1) {
    int const middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

template <typename Member>
largest largest_of(desk const& at, int most, Member member) {
  // Positions that are learnt cost weights too: what is left changes with the context.
  std::size_t const before = states_of(at.of, at.how).sum();
  auto const within = [&](auto const& needed) {
    return [&, member](int value) {
      model of = at.of;
      of.*member = value;
      try {
        std::size_t const more = states_of(of, at.how).sum();
        std::size_t const budget = at.budget + before;
        return budget > more && needed(of, at.how, at.on) <= budget - more;
      } catch (setting_error const&) {  // beyond what can be described
        return false;
      }
    };
  };
  return {largest_that(most, within(kept_bytes_of)), largest_that(most, within(least_bytes_of))};
}

/// `fits` as above.
int largest_divisor_that(int whole, std::function<bool(int)> const& fits) {
  int divisor = largest_that(whole, fits);
  while (divisor > 0 && whole % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

double unlimited_us(profile const& step) {
  double sum = 0;
  for (auto const& segment : step.segments) sum += segment.forward_us + segment.backward_us;
  return sum;
}

double flops_of(model const& of, profile const& step) {
  double forward = 2.0 * of.batch * of.context * of.width * of.vocabulary;
  for (auto const& segment : step.segments) {
    for (auto const& item : segment.items) forward += item.recipe_flops;
  }
  return 3 * forward;  // backward: one product for each operand's gradient
}

part_of_step::part_of_step(desk const& at, int micro_batch)
    : of(part_of(at.of, micro_batch)),
      accumulate(at.of.batch / micro_batch),
      slower_products(slowdown_of_parts(at.of, at.on, micro_batch)),
      on(for_parts(at.on, at.of, micro_batch)),
      step(step_of(of, at.how, on)),
      exchanged(exchange_of(at.of, at.how, accumulate)) {
  for (auto const& segment : step.segments) forward_us += accumulate * segment.forward_us;
  on = beside_exchange(std::move(on), exchanged, at.between, forward_us, accumulate * backward_us_of(step));
  if (at.host_budget == 0) on.device_to_host.gbps = on.host_to_device.gbps = 0;
}

forecast forecast_of(desk const& at, part_of_step const& part, std::string policy, double part_us, bool ferrying) {
  forecast made;
  made.policy = std::move(policy);
  made.micro_batch = part.of.batch;
  made.accumulate = part.accumulate;
  made.slower_products = part.slower_products;
  made.unlimited_us = unlimited_us(step_of(at.of, at.how, at.on));
  double const computing_us = part.accumulate * part_us;
  auto const times = times_of(part.exchanged, at.between, part.forward_us, computing_us - part.forward_us, ferrying);
  made.exchanged_bytes = part.exchanged.sum();
  made.exchange_us = times.all_us;
  made.exposed_exchange_us = times.exposed_us;
  made.step_us = computing_us + times.exposed_us;
  return made;
}

std::optional<forecast> keeping_all(desk const& at, int micro_batch) {
  part_of_step const part(at, micro_batch);
  std::size_t const peak = activations_of(part.of, part.step).sum();
  if (peak > at.budget) return std::nullopt;
  forecast made = forecast_of(at, part, "keep", unlimited_us(part.step), false);
  made.peak_bytes = peak;
  return made;
}

std::optional<forecast> by_planner(desk const& at, int micro_batch) {
  part_of_step const part(at, micro_batch);
  return planned(at, part, options_of(at, part.step));
}

std::optional<forecast> rebuilding_only(desk const& at, int micro_batch) {
  part_of_step part(at, micro_batch);
  part.on.device_to_host.gbps = part.on.host_to_device.gbps = 0;
  auto options = options_of(at, part.step);
  options.effort = 1;
  options.insured = false;
  return planned(at, part, options);
}

double least_us(desk const& at, int micro_batch) {
  part_of_step const part(at, micro_batch);
  if (least_bytes_of(part.of, at.how, at.on) > at.budget) return std::numeric_limits<double>::infinity();
  auto options = options_of(at, part.step);
  options.insured = false;
  auto const chain = planning::make_step_chain(part.step, part.on, options, false).problem;
  constexpr double us = 1e6;
  return forecast_of(at, part, "", us * planning::lower_bound_s(chain), false).step_us;
}

std::optional<forecast> recomputing(desk const& at, int micro_batch) {
  part_of_step const part(at, micro_batch);
  double flops = 0;
  double recipes_us = 0;
  std::size_t inputs = 0;
  std::size_t peak = 0;
  std::vector<recompute_share> recomputed;
  for (auto const& segment : part.step.segments) {
    std::size_t inside = 0;
    for (auto const& item : segment.items) {
      if (item.name == "x") {
        inputs += item.bytes;
        continue;
      }
      inside += item.bytes;
      recipes_us += *item.recipe_us;
      flops += item.recipe_flops;
      count_rebuilding(recomputed, item);
    }
    peak = std::max(peak, inputs + inside + segment.backward_scratch_bytes);
  }
  if (peak > at.budget) return std::nullopt;
  forecast made = forecast_of(at, part, "recompute", unlimited_us(part.step) + recipes_us, false);
  made.peak_bytes = peak;
  made.recomputed = std::move(recomputed);
  made.recompute_us = part.accumulate * recipes_us;
  made.recompute_flops_share = flops / flops_of(part.of, part.step);
  return made;
}

std::optional<forecast> recomputing_by_root(desk const& at, int micro_batch) {
  rule_book rules(at, micro_batch);
  auto const root = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(rules.stages()))));
  planning::chain_plan by_root(rules.stages(), {planning::replayed, planning::input_mark::none, 0});
  for (std::size_t i = 0; i < by_root.size(); i += root) by_root[i].input = planning::input_mark::kept;
  return rules.carry_out(std::move(by_root), "sqrt");
}

std::optional<forecast> offloading(desk const& at, int micro_batch) {
  rule_book rules(at, micro_batch);
  auto const first_ferried = [&](std::size_t count) {
    planning::chain_plan made(rules.stages(), {planning::kept_whole, planning::input_mark::kept, 0});
    for (std::size_t i = 0; i < count; ++i) made[i].saving = planning::ferried_whole;
    if (count > 0) made.front().input = planning::input_mark::ferried;
    return made;
  };
  std::size_t most = rules.stages();
  if (at.host_budget == 0 || !rules.fits(first_ferried(most))) return std::nullopt;
  std::size_t least = 0;
  while (most - least > 1) {
    std::size_t const middle = least + (most - least) / 2;
    (rules.fits(first_ferried(middle)) ? most : least) = middle;
  }
  return rules.carry_out(first_ferried(most), "offload");
}

std::size_t least_bytes(desk const& at, int micro_batch) {
  return least_bytes_of(part_of(at.of, micro_batch), at.how, at.on);
}

std::vector<int> parts_of(int batch) {
  std::vector<int> parts;
  for (int part = batch; part > 0; --part) {
    if (batch % part == 0) parts.push_back(part);
  }
  return parts;
}

int largest_part_kept(desk const& at) {
  return largest_divisor_that(
      at.of.batch, [&](int part) { return kept_bytes_of(part_of(at.of, part), at.how, at.on) <= at.budget; });
}

int largest_part_planned(desk const& at) {
  return largest_divisor_that(at.of.batch, [&](int part) { return least_bytes(at, part) <= at.budget; });
}

largest largest_batch(desk const& at) { return largest_of(at, 1 << 20, &model::batch); }
largest largest_context(desk const& at) { return largest_of(at, 1 << 22, &model::context); }

}  // namespace ferry::command
