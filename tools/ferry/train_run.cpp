#include "train_run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "commands.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

train_run::train_run(device& on, train_plan const& plan, config settings)
    : plan_(plan),
      compute_(on, stream_kind::compute, "compute"),
      ops_(nn::make_host_ops(on)),
      trainer_(on, compute_, *ops_, plan.shape, plan.batch, plan.flags.training),
      session_(on, std::move(settings)),
      items_(nn::describe_items(plan.shape, plan.batch)),
      before_(session_.stats()) {}

train_run::~train_run() = default;

step_record train_run::step() {
  step_record record;
  record.result = trainer_.step(session_, plan_.data);
  record.step = trainer_.steps_done();
  auto const tokens = static_cast<double>(plan_.batch) * plan_.shape.context * plan_.flags.training.accumulate;
  record.tokens_per_second = tokens / record.result.seconds;
  session_stats const now = session_.stats();
  auto const moved = [](session_stats const& stats) { return stats.device_to_host.bytes + stats.host_to_device.bytes; };
  record.peak_device_bytes = now.device.peak_bytes;
  record.peak_pinned_bytes = now.pinned.peak_bytes;
  record.waiting_us = now.exposed_us - before_.exposed_us;
  record.recomputed = now.recomputes - before_.recomputes;
  record.ferried_bytes = moved(now) - moved(before_);
  double const flops = nn::work_of(trainer_.model().recomputed(), items_).flops;
  record.recompute_flops = flops - std::exchange(recompute_flops_before_, flops);
  before_ = now;
  if (!std::isfinite(record.result.loss)) {
    throw failed(fmt::format("the loss of step {} is not a number: lower --lr or --clip", record.step));
  }
  return record;
}

double train_run::validate() { return trainer_.validate(session_, plan_.data, plan_.flags.validation_batches); }

double train_run::flops_per_step() const {
  return nn::flops_of_pass(plan_.shape, plan_.batch) * plan_.flags.training.accumulate;
}

std::string no_room_message(out_of_memory const& problem, train_plan const& plan, config const& settings) {
  std::size_t const most = std::max(plan.keep_all_bytes, plan.budget_bytes) * 2;
  std::size_t const enough =
      nn::smallest_budget(plan.shape, plan.batch, plan.flags.training.accumulate, settings, most);
  std::string text = problem.what();
  if (enough > 0) text += fmt::format("; the smallest that works with this policy is --budget={}KiB", enough >> 10);
  return text;
}

}  // namespace ferry::command
