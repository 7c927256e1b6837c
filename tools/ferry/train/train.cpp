// `ferry train`: trains a GPT on a text under a byte budget.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/interrupt.hpp"
#include "common/output_file.hpp"
#include "common/printable.hpp"
#include "compare.hpp"
#include "ferry/error.hpp"
#include "ferry/nn/checkpoint.hpp"
#include "ferry/nn/sample.hpp"
#include "ferry/plan.hpp"
#include "nn/atomic_file.hpp"
#include "train_options.hpp"
#include "train_progress.hpp"
#include "train_run.hpp"

namespace ferry::command {

namespace {

std::string heads_by(train_flags const& flags) {
  if (flags.heads) return "as --heads says";
  switch (nn::heads_of_model(flags.init_file).by) {
    case nn::stored_heads::source::metadata:
      return "as the file says";
    case nn::stored_heads::source::config_file:
      return "as the config.json beside it says";
    case nn::stored_heads::source::assumed:
      break;
  }
  return "which is assumed, one for every 64 features: give --heads if it has others";
}

void print_setting(train_plan const& plan, nn::parameter_layout const& layout) {
  auto const& shape = plan.shape;
  fmt::print("GPT of {} layers, {} features, {} heads, context {}, vocabulary {}, {} attention: {:.2f} M parameters\n",
             shape.layers, shape.width, shape.heads, shape.context, shape.vocabulary, to_string(shape.attention),
             static_cast<double>(layout.trained()) * 1e-6);
  if (!plan.flags.init_file.empty()) {
    fmt::print("starts from '{}' with {} head{}, {}\n", printable(plan.flags.init_file), shape.heads,
               shape.heads == 1 ? "" : "s", heads_by(plan.flags));
  }
  fmt::print("{} tokens to train on, {} to validate; {} x {} tokens a step\n", plan.data.size(nn::split::training),
             plan.data.size(nn::split::validation), plan.flags.training.accumulate,
             static_cast<long>(plan.batch) * shape.context);
  bool const more = plan.asked_bytes > plan.keep_all_bytes;
  fmt::print("policy {}; budget {} for activations (keeping all needs {}{}), {} for weights, gradients and moments\n",
             policy_name(plan.settings), format_bytes(plan.budget_bytes), format_bytes(plan.keep_all_bytes),
             more ? fmt::format(", so of {} no more is taken", format_bytes(plan.asked_bytes)) : "",
             format_bytes(plan.state_bytes()));
  if (plan.flags.resume && !plan.resumes) {
    fmt::print("'{}' is not there yet: training starts from the beginning\n", printable(plan.state_file()));
  }
  std::fflush(stdout);
}

nn::run_identity identity_of(train_plan const& plan) {
  return {plan.shape, plan.batch, plan.flags.training.accumulate, plan.flags.training.seed};
}

void start_from_files(nn::trainer& trainer, train_plan const& plan) {
  auto const& layout = trainer.model().layout();
  if (plan.resumes) {
    trainer.restore_state(nn::load_state(plan.state_file(), identity_of(plan), layout));
  } else if (!plan.flags.init_file.empty()) {
    trainer.set_weights(nn::load_model(plan.flags.init_file, layout));
  }
}

/// The state goes first: what a crash between the two leaves behind can be resumed from.
void save(nn::trainer& trainer, train_plan const& plan) {
  if (plan.flags.save_file.empty()) return;
  auto const& layout = trainer.model().layout();
  auto const state = trainer.save_state();
  nn::save_state(plan.state_file(), identity_of(plan), layout, state);
  nn::save_model(plan.flags.save_file, plan.shape, layout, state.weights);
}

nlohmann::ordered_json json_of(step_record const& record) {
  nlohmann::ordered_json row{{"step", record.step},
                             {"loss", record.result.loss},
                             {"learning_rate", record.result.learning_rate},
                             {"gradient_norm", record.result.gradient_norm},
                             {"seconds", record.result.seconds},
                             {"tokens_per_second", record.tokens_per_second},
                             {"peak_device_bytes", record.peak_device_bytes},
                             {"peak_pinned_bytes", record.peak_pinned_bytes},
                             {"waiting_us", record.waiting_us},
                             {"recompute_flops", record.recompute_flops},
                             {"recomputed_items", record.recomputed},
                             {"ferried_bytes", record.ferried_bytes},
                             {"link_gbps", {record.out_gbps, record.in_gbps}},
                             {"plans", record.plans},
                             {"plan_changes", record.plan_changes}};
  if (record.planned_us) row["planned_us"] = *record.planned_us;
  if (record.validation_loss) row["validation_loss"] = *record.validation_loss;
  return row;
}

double median_seconds(std::vector<step_record> const& records) {
  std::vector<double> all;
  all.reserve(records.size());
  for (auto const& one : records) all.push_back(one.result.seconds);
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

nlohmann::ordered_json summary_of(train_run& run, train_plan const& plan, std::vector<step_record> const& records) {
  auto const& shape = plan.shape;
  nlohmann::ordered_json summary{
      {"layers", shape.layers},
      {"width", shape.width},
      {"heads", shape.heads},
      {"context", shape.context},
      {"vocab", shape.vocabulary},
      {"tied", shape.tied},
      {"attention", to_string(shape.attention)},
      {"batch", plan.batch},
      {"accumulate", plan.flags.training.accumulate},
      {"device", plan.settings.device},
      {"matrix_products", run.math_mode()},
      {"policy", policy_name(plan.settings)},
      {"parameters", run.trainer().model().layout().trained()},
      {"budget_bytes", plan.budget_bytes},
      {"keep_all_bytes", plan.keep_all_bytes},
      {"state_bytes", plan.state_bytes()},
      {"flops_per_step", run.flops_per_step()},
      {"steps_done", run.trainer().steps_done()},
      {"interrupted", interrupted()},
  };
  if (!records.empty()) {
    summary["final_loss"] = records.back().result.loss;
    summary["median_seconds"] = median_seconds(records);
    summary["peak_device_bytes"] = records.back().peak_device_bytes;
    summary["peak_pinned_bytes"] = records.back().peak_pinned_bytes;
  }
  if (auto const* const planned = run.session().followed()) {
    summary["planned_us"] = planned->step_us;
    summary["planned_unlimited_us"] = planned->unlimited_us;
  }
  summary["session"] = nlohmann::ordered_json::parse(to_json(run.session().stats()));
  return summary;
}

void write_results(train_run& run, train_plan const& plan, std::vector<step_record> const& records) {
  if (plan.flags.json_file.empty()) return;
  auto steps = nlohmann::ordered_json::array();
  for (auto const& one : records) steps.push_back(json_of(one));
  nlohmann::ordered_json const value{{"steps", std::move(steps)}, {"summary", summary_of(run, plan, records)}};
  write_output(plan.flags.json_file, text_of(value));
}

/// What the session has measured, named after the model.
void write_profile(train_run& run, train_plan const& plan) {
  if (plan.flags.profile_file.empty()) return;
  auto recorded = run.session().recorded_profile();
  if (!recorded) throw failed("--profile: no step was measured to its end");
  recorded->name = fmt::format("gpt {}x{}, context {}, batch {}", plan.shape.layers, plan.shape.width,
                               plan.shape.context, plan.batch);
  auto const text = to_json(*recorded);
  nn::atomic_file file(plan.flags.profile_file);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

std::vector<step_record> train(train_run& run, train_plan const& plan, train_progress& progress) {
  auto const& flags = plan.flags;
  std::vector<step_record> records;
  while (run.trainer().steps_done() < flags.training.steps && !interrupted()) {
    records.push_back(run.step());
    auto& record = records.back();
    progress.show(record);
    bool const last = record.step == flags.training.steps;
    if (flags.validate_every > 0 && (last || record.step % flags.validate_every == 0)) {
      record.validation_loss = run.validate();
      progress.note(fmt::format("step {}: validation loss {:.4f}", record.step, *record.validation_loss));
    }
    if (flags.save_every > 0 && !last && record.step % flags.save_every == 0) save(run.trainer(), plan);
  }
  return records;
}

/// A step that finds no room leaves the weights as they were: hours of training are not lost to it.
std::vector<step_record> train_or_save(train_run& run, train_plan const& plan, train_progress& progress) {
  std::uint64_t const first = run.trainer().steps_done();
  try {
    return train(run, plan, progress);
  } catch (out_of_memory const&) {
    std::uint64_t const done = run.trainer().steps_done();
    if (done > first && !plan.flags.save_file.empty()) {
      save(run.trainer(), plan);
      progress.note(fmt::format("step {} found no room; {} saved to {}, go on with --resume", done + 1,
                                done == 1 ? "the one before is" : "those before are", plan.flags.save_file));
    }
    throw;
  }
}

void print_sample(train_run& run, train_plan const& plan) {
  auto const& flags = plan.flags;
  bool const text = flags.tokens.empty();
  std::string shown = text ? flags.prompt.value_or("\n") : "";
  std::vector<std::int32_t> prompt;
  for (char const letter : shown) prompt.push_back(static_cast<unsigned char>(letter));
  if (prompt.empty()) prompt.push_back(0);
  auto const said = nn::sample(run.trainer().model(), run.session(), prompt,
                               {static_cast<std::size_t>(flags.sample), flags.temperature, flags.training.seed},
                               [] { return interrupted(); });
  for (auto const token : said) {
    constexpr int letters = 256;
    if (!text) {
      shown += fmt::format("{} ", token);
    } else {
      shown += token < letters ? static_cast<char>(token) : '?';
    }
  }
  fmt::print("a sample:\n{}\n", printable(shown));
}

void print_summary(train_run& run, train_plan const& plan, std::vector<step_record> const& records) {
  if (records.empty()) return;
  auto const stats = run.session().stats();
  fmt::print(
      "{} steps, median {:.1f} ms; loss {:.4f} -> {:.4f}; device peak {}, pinned peak {}; waited {:.1f} ms in all\n",
      records.size(), median_seconds(records) * 1000, records.front().result.loss, records.back().result.loss,
      format_bytes(stats.device.peak_bytes), format_bytes(stats.pinned.peak_bytes), stats.exposed_us / 1000);
  if (auto const* const planned = run.session().followed()) {
    fmt::print("planned: {:.1f} ms for forward and backward of a micro-batch, {:.1f}% above unlimited memory\n",
               1e-3 * planned->step_us, 100 * std::max(planned->overhead(), 0.0));
  }
  if (plan.flags.explain) {
    fmt::print("{}", run.session().explain());
  } else {
    fmt::print("{}", idle_settings(stats));
  }
}

exit_code carry_out(train_plan const& plan) {
  bool const only_json = is_standard_output(plan.flags.json_file);
  quiet_output quiet(only_json);
  auto const on = make_device(plan.settings);
  train_run run(*on, plan, plan.settings);
  if (!plan.flags.profile_file.empty()) run.session().record_profile(true);
  start_from_files(run.trainer(), plan);
  print_setting(plan, run.trainer().model().layout());
  if (run.trainer().steps_done() >= plan.flags.training.steps) {
    throw failed(fmt::format("'{}': {} steps are done already; raise --steps={} to go on", plan.state_file(),
                             run.trainer().steps_done(), plan.flags.training.steps));
  }
  train_progress progress(plan, run.trainer().steps_done() + 1);
  auto const records = train_or_save(run, plan, progress);
  progress.finish();
  save(run.trainer(), plan);
  if (!plan.flags.gradients_file.empty() && !records.empty()) {
    auto const gradients = run.trainer().gradients();
    nn::save_model(plan.flags.gradients_file, plan.shape, run.trainer().model().layout(), gradients);
  }
  write_profile(run, plan);
  quiet.end();
  write_results(run, plan, records);
  if (only_json) return interrupted() ? was_interrupted : success;
  print_summary(run, plan, records);
  if (interrupted()) {
    fmt::print(
        "interrupted after step {}{}\n", run.trainer().steps_done(),
        plan.flags.save_file.empty() ? "" : fmt::format("; saved to {}, go on with --resume", plan.flags.save_file));
    return was_interrupted;
  }
  if (plan.flags.sample > 0) print_sample(run, plan);
  return interrupted() ? was_interrupted : success;
}

exit_code run_train(train_flags const& typed) {
  train_plan plan = make_train_plan(typed);
  listen_for_interrupts();
  if (plan.flags.compare) return compare_policies(plan);
  try {
    return carry_out(plan);
  } catch (out_of_device_memory const& problem) {
    refuse_for_lack_of_room(problem, plan, plan.settings);
  }
}

}  // namespace

runner add_train(CLI::App& program) {
  auto const flags = std::make_shared<train_flags>();
  CLI::App* const command =
      program.add_subcommand("train", "Trains a small GPT on a text, under a byte budget and a policy");
  add_train_flags(*command, *flags);
  command->footer(
      "Examples:\n"
      "  ferry train --data book.txt --budget 20% --profile p.json\n"
      "  ferry train --data book.txt --steps 2000 --save run.safetensors\n"
      "  ferry train --data book.txt --steps 4000 --save run.safetensors --resume\n"
      "  ferry train --compare --preset deep --budget 20%,30% --steps 24 --svg demo.svg\n"
      "  ferry train --compare --slow-link --preset deep --budget 20% --steps 32");
  return [flags] { return run_train(*flags); };
}

}  // namespace ferry::command
