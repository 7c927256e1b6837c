#include "compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/interrupt.hpp"
#include "common/output_file.hpp"
#include "common/progress.hpp"
#include "ferry/error.hpp"
#include "ferry/host_device.hpp"
#include "train_run.hpp"

namespace ferry::command {

namespace {

// In its first two steps a session learns the order of backward, how long recipes take and how fast the link is; in the
// third it first acts on that.
constexpr std::uint64_t learning_steps = 3;

/// One policy in the comparison; the first is the reference, which has all the memory it wants.
struct entrant {
  std::string name;
  config settings;
  std::unique_ptr<train_run> run;  ///< gone once it has failed
  std::string failure;             ///< why it did not fit; empty if it did
  std::vector<step_record> steps;
  bool identical = true;  ///< loss and gradients of every step, to the reference's
};

double fastest_seconds(entrant const& of) {
  double seconds = of.steps.front().result.seconds;
  for (auto const& one : of.steps) seconds = std::min(seconds, one.result.seconds);
  return seconds;
}

class comparison {
 public:
  explicit comparison(train_plan const& plan)
      : plan_(plan),
        device_(make_device_for_several(plan, plan.budget_bytes, entrants_at_most, entrants_that_offload)),
        host_(dynamic_cast<host_device*>(device_.get())) {}

  void enter_all();
  void run();
  void print_table() const;
  void write_json_file() const;
  [[nodiscard]] exit_code verdict() const;

 private:
  static constexpr std::size_t entrants_at_most = 5;
  static constexpr std::size_t entrants_that_offload = 2;

  void enter(std::string name, config settings);
  void attempt(entrant& runner, std::vector<float>& reference);
  [[nodiscard]] std::vector<float> gradients_of(train_run& run) const;
  [[nodiscard]] double link_gbps(copy_direction direction) const;
  [[nodiscard]] std::string words_of_link() const;
  [[nodiscard]] std::string unfit_entrants() const;
  [[nodiscard]] std::size_t smallest_budget_for_all() const;
  [[nodiscard]] entrant const* fastest_policy() const;

  [[nodiscard]] std::vector<double> timed(entrant const& of,
                                          std::function<double(step_record const&)> const& what) const;
  [[nodiscard]] double mean(entrant const& of, std::function<double(step_record const&)> const& what) const;
  [[nodiscard]] double relative_time(entrant const& of) const;
  [[nodiscard]] double parameters_per_gib(entrant const& of) const;
  [[nodiscard]] double recompute_share(entrant const& of) const;

  train_plan const& plan_;
  std::unique_ptr<device> device_;
  host_device* host_;  ///< the same, or null on a GPU, whose link is what it is
  std::vector<entrant> entrants_;
  progress progress_;
};

void comparison::enter(std::string name, config settings) {
  auto& entered = entrants_.emplace_back();
  entered.name = std::move(name);
  entered.settings = std::move(settings);
  entered.run = std::make_unique<train_run>(*device_, plan_, entered.settings);
}

void comparison::enter_all() {
  auto settings = plan_.settings;
  settings.host_budget = byte_amount::exactly(plan_.keep_all_bytes);
  settings.trace_file.clear();
  settings.stats_file.clear();
  settings.profile_file.clear();
  auto reference = settings;
  reference.budget = byte_amount::exactly(plan_.keep_all_bytes);
  reference.set("FERRY_POLICY", "keep");
  enter("unlimited", reference);
  for (char const* const policy : {"keep", "recompute", "offload", "auto"}) {
    settings.set("FERRY_POLICY", policy);
    enter(policy, settings);
  }
}

void comparison::run() {
  std::vector<float> reference;
  for (std::uint64_t step = 0; step < plan_.flags.training.steps && !interrupted(); ++step) {
    for (auto& runner : entrants_) {
      if (!runner.run || interrupted()) continue;
      progress_.show(fmt::format("step {}/{}: {}", step + 1, plan_.flags.training.steps, runner.name));
      attempt(runner, reference);
      // By the fastest step so far: the very first finds cold caches and sleeping threads.
      if (step < learning_steps && &runner == &entrants_.front())
        balance_link(*device_, plan_, fastest_seconds(runner));
    }
  }
  progress_.clear();
}

void comparison::attempt(entrant& runner, std::vector<float>& reference) {
  bool const is_reference = &runner == &entrants_.front();
  try {
    runner.steps.push_back(runner.run->step());
  } catch (out_of_memory const& problem) {
    if (is_reference) throw;
    runner.failure = no_room_message(problem, plan_, runner.settings);
    runner.run.reset();
    return;
  }
  runner.run->session().synchronize();  // what still moves would take the link from whoever is next
  auto gradients = gradients_of(*runner.run);
  if (is_reference) {
    reference = std::move(gradients);
    return;
  }
  bool const same_gradients = std::memcmp(gradients.data(), reference.data(), reference.size() * sizeof(float)) == 0;
  double const loss = runner.steps.back().result.loss;
  double const expected = entrants_.front().steps.back().result.loss;
  runner.identical = runner.identical && same_gradients && loss == expected;
}

/// The host device's memory can be read where it is, without the link.
std::vector<float> comparison::gradients_of(train_run& run) const {
  if (host_ == nullptr) return run.trainer().gradients();
  auto const& from = run.trainer().model().gradients();
  auto const* const values = from.as<float>();
  return {values, values + from.bytes() / sizeof(float)};
}

std::vector<double> comparison::timed(entrant const& of, std::function<double(step_record const&)> const& what) const {
  std::size_t const first = of.steps.size() > learning_steps ? learning_steps : 0;
  std::vector<double> values;
  for (std::size_t i = first; i < of.steps.size(); ++i) values.push_back(what(of.steps[i]));
  return values;
}

double comparison::mean(entrant const& of, std::function<double(step_record const&)> const& what) const {
  auto const values = timed(of, what);
  double sum = 0;
  for (double const value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Median over the steps of a policy's time over the reference's for the same step.
double comparison::relative_time(entrant const& of) const {
  auto const seconds = [](step_record const& record) { return record.result.seconds; };
  auto ratios = timed(of, seconds);
  auto const reference = timed(entrants_.front(), seconds);
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] /= reference[i];
  return median(std::move(ratios));
}

double comparison::parameters_per_gib(entrant const& of) const {
  constexpr double gib = 1024.0 * 1024 * 1024;
  auto const bytes = static_cast<double>(plan_.state_bytes() + of.steps.back().peak_device_bytes);
  return static_cast<double>(of.run->trainer().model().layout().trained()) / (bytes / gib);
}

double comparison::recompute_share(entrant const& of) const {
  return mean(of, [](step_record const& record) { return record.recompute_flops; }) / of.run->flops_per_step();
}

/// As set, or on a GPU as measured; 0: not known there, unpaced here.
double comparison::link_gbps(copy_direction direction) const {
  if (host_ != nullptr) return host_->link(direction).gbps;
  auto const& measured = device_->capabilities();
  return direction == copy_direction::device_to_host ? measured.device_to_host_gbps : measured.host_to_device_gbps;
}

std::string comparison::words_of_link() const {
  auto const speed = [&](copy_direction direction) {
    double const gbps = link_gbps(direction);
    return gbps > 0 ? fmt::format("{:.3g} GB/s", gbps) : host_ != nullptr ? "unpaced" : "not measured";
  };
  auto const out = speed(copy_direction::device_to_host);
  auto const back = speed(copy_direction::host_to_device);
  if (host_ == nullptr) return fmt::format("of {}: {} out, {} back", device_->capabilities().name, out, back);
  if (!plan_.settings.link_schedule.empty()) return fmt::format("by a schedule, at last {} out, {} back", out, back);
  if (out != back) return fmt::format("{} out, {} back", out, back);
  return out +
         (plan_.settings.link_gbps.automatic
              ? " each way: a block's saved bytes take 2.2x its forward, as a 7B-class block's on an A100 with PCIe 4"
              : " each way");
}

void comparison::print_table() const {
  fmt::print("GPT of {} layers, {} features, context {}, batch {}: keeping all needs {}, the budget is {} ({:.0f}%)\n",
             plan_.shape.layers, plan_.shape.width, plan_.shape.context, plan_.batch,
             format_bytes(plan_.keep_all_bytes), format_bytes(plan_.budget_bytes),
             100.0 * static_cast<double>(plan_.budget_bytes) / static_cast<double>(plan_.keep_all_bytes));
  fmt::print("link {}\n\n", words_of_link());
  fmt::print("{:<18} {:>10} {:>10} {:>9} {:>10} {:>10} {:>9} {:>11} {:>10}  {}\n", "policy", "device", "host", "time",
             "recompute", "waiting", "tokens/s", "params/GiB", "final loss", "gradients");
  fmt::print("{:<18} {:>10} {:>10} {:>9} {:>10} {:>10} {:>9} {:>11} {:>10}  {}\n", "", "peak", "peak", "of a step",
             "FLOPs", "a step", "", "", "", "identical");
  for (auto const& one : entrants_) {
    if (!one.run) {
      fmt::print("{:<18} {}\n", one.name, one.failure);
      continue;
    }
    auto const& last = one.steps.back();
    fmt::print("{:<18} {:>10} {:>10} {:>8.2f}x {:>9.1f}% {:>7.1f} ms {:>9.0f} {:>9.2f} M {:>10.4f}  {}\n", one.name,
               format_bytes(last.peak_device_bytes), format_bytes(last.peak_pinned_bytes), relative_time(one),
               100 * recompute_share(one), mean(one, [](step_record const& r) { return r.waiting_us; }) / 1000,
               median(timed(one, [](step_record const& r) { return r.tokens_per_second; })),
               parameters_per_gib(one) * 1e-6, last.result.loss, one.identical ? "yes" : "NO");
  }
  if (auto const* const fastest = fastest_policy()) {
    fmt::print("\nTry next: --policy {} --budget {}KiB in place of --compare\n", fastest->name,
               (plan_.budget_bytes + 1023) >> 10);
  }
}

/// Null if none fits.
entrant const* comparison::fastest_policy() const {
  entrant const* best = nullptr;
  for (auto const& one : std::span(entrants_).subspan(1)) {
    if (!one.run) continue;
    if (best == nullptr || relative_time(one) < relative_time(*best)) best = &one;
  }
  return best;
}

void comparison::write_json_file() const {
  if (plan_.flags.json_file.empty()) return;
  auto rows = nlohmann::ordered_json::array();
  for (auto const& one : entrants_) {
    nlohmann::ordered_json row{{"policy", one.name}, {"fits", one.failure.empty()}};
    if (!one.run) {
      row["failure"] = one.failure;
    } else {
      auto const& last = one.steps.back();
      row["peak_device_bytes"] = last.peak_device_bytes;
      row["peak_pinned_bytes"] = last.peak_pinned_bytes;
      row["relative_time"] = relative_time(one);
      row["recompute_share"] = recompute_share(one);
      row["waiting_us_per_step"] = mean(one, [](step_record const& r) { return r.waiting_us; });
      row["tokens_per_second"] = median(timed(one, [](step_record const& r) { return r.tokens_per_second; }));
      row["parameters_per_gib"] = parameters_per_gib(one);
      row["final_loss"] = last.result.loss;
      row["gradients_identical"] = one.identical;
      row["seconds"] = timed(one, [](step_record const& r) { return r.result.seconds; });
    }
    rows.push_back(std::move(row));
  }
  nlohmann::ordered_json const value{{"budget_bytes", plan_.budget_bytes},
                                     {"keep_all_bytes", plan_.keep_all_bytes},
                                     {"device_to_host_gbps", link_gbps(copy_direction::device_to_host)},
                                     {"host_to_device_gbps", link_gbps(copy_direction::host_to_device)},
                                     {"policies", std::move(rows)}};
  write_output(plan_.flags.json_file, text_of(value));
}

/// Those of which it is not expected.
std::string comparison::unfit_entrants() const {
  std::vector<std::string> names;
  for (auto const& one : entrants_) {
    if (!one.run && one.settings.policy.kind != policy_kind::keep) names.push_back(one.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::size_t comparison::smallest_budget_for_all() const {
  std::size_t most = 0;
  for (auto const& one : entrants_) {
    if (one.settings.policy.kind == policy_kind::keep) continue;
    most = std::max(most, smallest_budget(plan_, one.settings));
  }
  return most;
}

exit_code comparison::verdict() const {
  if (auto const names = unfit_entrants(); !names.empty()) {
    std::size_t const enough = smallest_budget_for_all();
    throw failed(fmt::format("{} did not fit the budget of {}; {}", names, format_bytes(plan_.budget_bytes),
                             enough > plan_.budget_bytes
                                 ? fmt::format("the smallest that works is --budget {}KiB", enough >> 10)
                                 : "raise --budget"));
  }
  for (auto const& one : entrants_) {
    if (!one.identical) throw failed(fmt::format("the gradients of {} differ from the reference's", one.name));
  }
  if (host_ == nullptr) return success;
  for (auto const& violation : host_->order_violations()) throw failed("stream order: " + violation);
  return success;
}

}  // namespace

exit_code compare_policies(train_plan const& plan) {
  if (plan.settings.device == "sim") {
    throw setting_error(fmt::format("{}=sim: --compare needs a device that computes; give host or cuda",
                                    plan.flags.device ? "--device" : "FERRY_DEVICE"));
  }
  if (is_set("FERRY_POLICY"))
    fmt::print(stderr, "ferry: FERRY_POLICY has no effect here: --compare tries every policy\n");
  quiet_output quiet(is_standard_output(plan.flags.json_file));
  comparison all(plan);
  all.enter_all();
  all.run();
  if (interrupted()) {
    fmt::print("interrupted\n");
    return was_interrupted;
  }
  all.print_table();
  quiet.end();
  all.write_json_file();
  return all.verdict();
}

}  // namespace ferry::command
