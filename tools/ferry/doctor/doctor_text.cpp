#include "doctor/doctor_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/printable.hpp"
#include "common/terminal.hpp"
#include "common/timeline.hpp"
#include "doctor/page.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

/// "6.65 B"
std::string count_in_words(std::size_t count) {
  auto const value = static_cast<double>(count);
  if (value >= 1e9) return fmt::format("{:.2f} B", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} M", value / 1e6);
  return fmt::format("{}", count);
}

void add_opening(page& to, prescription const& made) {
  auto const& of = made.asked.of;
  auto const& on = made.asked.on;
  std::string const groups = of.kv_heads != of.heads ? fmt::format(" ({} of keys and values)", of.kv_heads) : "";
  to.line("{}: {} layers, width {}, {} heads{}, {}, vocabulary {}; {} parameters",
          in(colour::strong, printable(of.name)), of.layers, of.width, of.heads, groups, words_of_hidden(of),
          of.vocabulary, count_in_words(made.memory.parameters));
  to.line(
      "context {}, batch {}, {}, {} attention; {}{}", of.context, of.batch, to_string(of.numbers),
      of.flash ? "flash" : "explicit", words_of_training(of, made.asked.how),
      made.asked.how.zero > 0 ? fmt::format(", ZeRO {} over {} GPUs", made.asked.how.zero, made.asked.how.ranks) : "");
  to.line("on {}: {}, {:g} TFLOP/s, {:g} GB/s; link {:g} GB/s out, {:g} GB/s in",
          in(colour::strong, printable(on.name)), format_bytes(on.device_bytes), on.tflops, on.memory_gbps,
          on.device_to_host.gbps, on.host_to_device.gbps);
}

void add_row(page& to, std::string_view what, std::size_t bytes, std::string_view note) {
  to.line("  {:<14} {:>10}{}", what, format_bytes(bytes),
          note.empty() ? "" : in(colour::faint, fmt::format("   {}", note)));
}

void add_memory(page& to, prescription const& made) {
  auto const& memory = made.memory;
  auto const& how = made.asked.how;
  to.heading("Where memory goes");
  auto const divided = [&](int stage) {
    return how.zero >= stage && how.ranks > 1 ? fmt::format("a part of {}", how.ranks) : std::string();
  };
  add_row(to, "weights", memory.states.weights, divided(3));
  add_row(to, "gradients", memory.states.gradients, divided(2));
  add_row(to, "optimizer", memory.states.optimizer,
          words_of_optimizer(made.asked.of, how) + (divided(1).empty() ? "" : "; " + divided(1)));
  if (memory.states.gathered > 0) add_row(to, "gathered", memory.states.gathered, "weights of two blocks");
  auto const& activations = memory.activations;
  add_row(to, "activations", activations.saved, fmt::format("{} a layer", format_bytes(activations.per_layer)));
  for (auto const& one : activations.operations) {
    to.line("    {:<12} {:>10}   {}", one.name, format_bytes(one.sum()),
            in(colour::faint, fmt::format("{:>5.1f}%  {} x {}",
                                          100 * static_cast<double>(one.sum()) / static_cast<double>(activations.saved),
                                          one.count, format_bytes(one.each))));
  }
  add_row(to, "workspace", activations.scratch,
          fmt::format("gradients of activations, and logits: {}", format_bytes(activations.logits)));
  std::size_t const missing = made.asked.missing;
  if (missing > 0) add_row(to, "not estimated", missing, "tensors that the run of the message had");
  add_row(to, "reserve", memory.reserve - missing,
          made.asked.reserve_measured ? "CUDA context, cuBLAS workspace, gaps, others: measured"
                                      : "CUDA context, cuBLAS workspace, gaps: assumed");
  bool const fits = memory.fits();
  to.line("  {:<14} {:>10}   {}", "sum", format_bytes(memory.needed()),
          in(fits ? colour::good : colour::bad,
             fmt::format("of {}: {}", format_bytes(memory.device_bytes),
                         fits ? "fits with everything kept" : "does not fit with everything kept")));
}

void add_remedies(page& to, prescription const& made) {
  if (made.remedies.empty()) return;
  to.heading("What would make room", "weights, gradients and optimizer on one GPU");
  for (auto const& one : made.remedies) {
    to.line("  {:<24} {:>10}   {}", one.flags, format_bytes(one.states),
            one.enough ? in(colour::good, "enough") : in(colour::bad, "not enough"));
  }
}

std::string name_of(forecast const& one) {
  std::string name = fmt::format("FERRY_POLICY={}", one.policy);
  if (one.accumulate > 1) name += fmt::format(", {} micro-batches of {}", one.accumulate, one.micro_batch);
  return name;
}

std::string after_semicolon(std::string const& words) { return words.empty() ? words : "; " + words; }

void add_forecast(page& to, prescription const& made, forecast const& one) {
  std::size_t const budget = made.budget;
  to.line("  peak           {:>10}   of {} for activations", format_bytes(one.peak_bytes), format_bytes(budget));
  to.line("  step           {:>10}   {} against unlimited memory", words_of_time(one.step_us),
          signed_percent(one.overhead()));
  to.line("  recompute      {:>10}   {:.1f}% of the step's FLOPs", words_of_time(one.recompute_us),
          100 * one.recompute_flops_share);
  to.line("  link           {:>10}   out, {} in; compute waits {}", format_bytes(one.out_bytes),
          format_bytes(one.in_bytes), words_of_time(one.waiting_us));
  to.item(fmt::format("  host           {:>10}   ", format_bytes(one.host_bytes)),
          fmt::format("pinned{}", after_semicolon(words_of_machine(made, one))));
  if (one.accumulate > 1) {
    to.line("  products       {:>10}   longer than in the whole batch",
            fmt::format("{:.1f}%", 100 * (one.slower_products - 1)));
  }
  if (one.exchanged_bytes > 0) {
    to.item(fmt::format("  exchange       {:>10}   ", format_bytes(one.exchanged_bytes)),
            fmt::format("each way over {} at {:.3g} GB/s: {}, of which {} not hidden", to_string(made.between.kind),
                        made.between.gbps, words_of_time(one.exchange_us), words_of_time(one.exposed_exchange_us)));
  }
}

void add_prescription(page& to, prescription const& made) {
  if (!made.advised) {
    to.heading("Prescription");
    if (made.budget == 0) {
      to.item("  ", "none: nothing is left for activations on one GPU; see above for what would make room");
    } else {
      to.item("  ",
              fmt::format("none: one sequence at a time needs at least {} for activations and {} are left; a shorter "
                          "context, up to {}, fits",
                          format_bytes(made.least_bytes_of_one), format_bytes(made.budget), made.context.planned));
    }
    return;
  }
  std::string const with = words_of_instead(made);
  to.heading("Prescription" + (with.empty() ? "" : " with " + with), "predicted");
  to.line("  {}", in(colour::good, name_of(*made.advised)));
  add_forecast(to, made, *made.advised);
  to.heading("Alternatives", "predicted");
  for (auto const& one : made.alternatives) {
    to.line("  {}", name_of(one));
    to.item("    ",
            fmt::format("step {} ({}), peak {}, recompute {:.1f}% of FLOPs, link {} out, host {}{}",
                        words_of_time(one.step_us), signed_percent(one.overhead()), format_bytes(one.peak_bytes),
                        100 * one.recompute_flops_share, format_bytes(one.out_bytes), format_bytes(one.host_bytes),
                        after_semicolon(words_of_machine(made, one))));
  }
  for (auto const& policy : made.unfit) to.line("  FERRY_POLICY={} does not fit", policy);
  to.heading("Room", "the other sizes unchanged");
  to.line("  largest batch    {:>8} with some plan, {} with everything kept", made.batch.planned, made.batch.kept);
  to.line("  largest context  {:>8} with some plan, {} with everything kept", made.context.planned, made.context.kept);
}

void add_torch_ways(page& to, prescription const& made) {
  if (made.in_torch.empty() || made.keeps_all()) return;
  to.heading("In PyTorch without Ferry", fmt::format("predicted, in the same memory; the prescription: {}",
                                                     signed_percent(made.advised->overhead())));
  for (auto const& way : made.in_torch) {
    if (way.cost) {
      auto const& one = *way.cost;
      std::string const parts =
          one.accumulate > 1 ? fmt::format(", {} micro-batches of {}", one.accumulate, one.micro_batch) : "";
      to.line("  {}{}: {}, peak {}{}", way.name, parts, signed_percent(one.overhead()), format_bytes(one.peak_bytes),
              one.host_bytes > 0 ? fmt::format(", host {}", format_bytes(one.host_bytes)) : "");
    } else {
      to.line("  {}: does not fit", way.name);
    }
    to.item("    ", way.setting);
  }
}

}  // namespace

std::string signed_percent(double share) {
  double const rounded = std::round(1000 * share) / 10;
  return fmt::format("{:+.1f}%", rounded == 0 ? 0.0 : rounded);  // not -0.0
}

std::string words_of_machine(prescription const& made, forecast const& one) {
  int const ranks = made.instead ? made.instead->ranks : made.asked.how.ranks;
  int const together = std::min(ranks, gpus_of_a_machine);
  if (together < 2 || one.host_bytes == 0) return {};
  return fmt::format("{} by the {} GPUs of a machine", format_bytes(one.host_bytes * static_cast<unsigned>(together)),
                     together);
}

std::string words_of_instead(prescription const& made) {
  if (!made.instead) return {};
  auto const& how = *made.instead;
  return how.ranks > made.asked.how.ranks ? fmt::format("--zero {} --ranks {}", how.zero, how.ranks)
                                          : fmt::format("--optimizer {}", to_string(how.optimizer));
}

std::string text_of_prescription(prescription const& made) {
  page to;
  add_opening(to, made);
  add_memory(to, made);
  add_remedies(to, made);
  add_prescription(to, made);
  add_torch_ways(to, made);
  if (!made.warnings.empty()) {
    to.heading("Beware");
    for (auto const& one : made.warnings) to.item("  - ", one);
  }
  if (!made.variables.empty()) {
    to.heading("Set");
    for (auto const& [variable, value] : made.variables) to.line("  export {}={}", variable, value);
  }
  to.heading("Predictions, not measurements; they assume");
  for (auto const& one : made.assumptions) to.item("  - ", one);
  return std::move(to).take();
}

}  // namespace ferry::command
