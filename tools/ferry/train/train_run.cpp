#include "train_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "commands.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/error.hpp"
#include "ferry/host_device.hpp"

namespace ferry::command {

train_run::train_run(device& on, train_plan const& plan, config settings)
    : plan_(plan),
      compute_(on, stream_kind::compute, "compute"),
      ops_(nn::make_ops(on)),
      trainer_(on, compute_, *ops_, plan.shape, plan.batch, plan.flags.training),
      session_(on, std::move(settings)),
      items_(nn::describe_items(plan.shape, plan.batch)),
      before_(session_.stats()) {}

train_run::~train_run() = default;

step_record train_run::step() {
  step_record record;
  record.result = trainer_.step(session_, plan_.data);
  record.step = trainer_.steps_done();
  record.tokens_per_second = plan_.tokens_per_step() / record.result.seconds;
  session_stats const now = session_.stats();
  auto const moved = [](session_stats const& stats) { return stats.device_to_host.bytes + stats.host_to_device.bytes; };
  record.peak_device_bytes = now.device.peak_bytes;
  record.peak_pinned_bytes = now.pinned.peak_bytes;
  record.waiting_us = now.exposed_us - before_.exposed_us;
  record.recomputed = now.recomputes - before_.recomputes;
  record.ferried_bytes = moved(now) - moved(before_);
  record.out_gbps = now.device_to_host.gbps;
  record.in_gbps = now.host_to_device.gbps;
  record.plans = now.plans;
  record.plan_changes = now.plan_changes - before_.plan_changes;
  if (auto const* const followed = session_.followed()) record.planned_us = followed->step_us;
  double const flops = nn::work_of(trainer_.model().recomputed(), items_).flops;
  record.recompute_flops = flops - std::exchange(recompute_flops_before_, flops);
  before_ = now;
  require_number(record.result.loss, "loss");
  require_number(record.result.gradient_norm, "gradients' norm");  // of which the weights are made of now
  return record;
}

double train_run::validate() {
  double const loss = trainer_.validate(session_, plan_.data, plan_.flags.validation_batches);
  require_number(loss, "validation loss");
  return loss;
}

void train_run::require_number(double value, char const* what) const {
  if (std::isfinite(value)) return;
  throw failed(fmt::format("step {}: the {} is not a number any more; lower --lr={}{}", trainer_.steps_done(), what,
                           plan_.flags.training.learning_rate,
                           plan_.flags.training.clip > 0 ? "" : ", or limit the gradients with --clip=1"));
}

double train_run::flops_per_step() const {
  return nn::flops_of_pass(plan_.shape, plan_.batch) * plan_.flags.training.accumulate;
}

std::unique_ptr<device> make_device_for_several(train_plan const& plan, std::size_t budget_bytes, std::size_t runs,
                                                std::size_t runs_that_offload) {
  constexpr std::size_t slack_bytes = std::size_t{4} << 20;
  if (plan.on_gpu()) {
    auto options = cuda_options(plan.settings);
    options.device_bytes = 0;  // what the settings say is for one session, not for all of them at once
    options.pinned_bytes = 0;
    return make_cuda_device(std::move(options));
  }
  auto options = host_options(plan.settings);
  options.device_bytes = runs * plan.device_bytes_for(budget_bytes) + plan.keep_all_bytes + slack_bytes;
  options.pinned_bytes = runs * plan.pinned_bytes() + slack_bytes;
  std::size_t const leaves = plan.keep_all_bytes - std::min(plan.keep_all_bytes, budget_bytes);
  require_machine_memory(options.device_bytes + runs_that_offload * leaves);
  return make_host_device(std::move(options));
}

void balance_link(device& on, train_plan const& plan, double step_seconds) {
  // A 7B-class block on an A100: the time to move its saved bytes over PCIe 4, over the time of its forward.
  constexpr double transfer_to_forward = 2.2;
  constexpr double step_to_forward = 3;
  if (plan.on_gpu() || !plan.settings.link_gbps.automatic) return;
  double bytes = 0;
  for (auto const& one : nn::describe_items(plan.shape, plan.batch)) bytes += 4.0 * static_cast<double>(one.floats);
  double const step_ns = 1e9 * step_seconds / plan.flags.training.accumulate;
  double const forward_ns = step_ns / step_to_forward / plan.shape.layers;
  double const gbps = bytes / (transfer_to_forward * forward_ns);
  for (auto const direction : {copy_direction::device_to_host, copy_direction::host_to_device}) {
    on.set_link_gbps(direction, gbps);
  }
}

std::size_t smallest_budget(train_plan const& plan, config const& settings) {
  std::size_t const found =
      nn::smallest_budget(plan.shape, plan.batch, plan.flags.training.accumulate, settings, plan.keep_all_bytes);
  // What is found for a policy has a margin, which is not needed where everything fits.
  return found == 0 ? plan.keep_all_bytes : std::min(found, plan.keep_all_bytes);
}

namespace {

std::string words_of_room(std::size_t enough, train_plan const& plan, config const& settings) {
  std::string text = fmt::format(
      "out of device memory: a step with --policy {} does not fit the budget of {}; the smallest that works is "
      "--budget {}KiB",
      policy_name(settings), format_bytes(settings.budget.bytes), enough >> 10);
  std::size_t const device_bytes = plan.device_bytes_for(enough);
  if (plan.device_is_sized && device_bytes > settings.device_bytes) {
    text += fmt::format(" with FERRY_DEVICE_BYTES={}KiB", (device_bytes >> 10) + 1);
  }
  return text;
}

}  // namespace

std::string no_room_message(out_of_memory const& problem, train_plan const& plan, config const& settings) {
  std::size_t const enough = smallest_budget(plan, settings);
  // A budget that lies in pieces can fail a step where a smaller one does not.
  return enough <= settings.budget.bytes ? problem.what() : words_of_room(enough, plan, settings);
}

void refuse_for_lack_of_room(out_of_memory const& problem, train_plan const& plan, config const& settings) {
  std::size_t const enough = smallest_budget(plan, settings);
  if (enough <= settings.budget.bytes) throw failed(problem.what());
  throw infeasible_budget(words_of_room(enough, plan, settings), enough, settings.budget.bytes);
}

}  // namespace ferry::command
