#include "bench/bench_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/measured_step.hpp"
#include "common/flags.hpp"
#include "common/interrupt.hpp"
#include "common/printable.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/error.hpp"
#include "plan/step_chain.hpp"

namespace ferry::command {

namespace {

constexpr double plan_ms_by_link = 150;
constexpr double share_by_link = 0.25;  // of all items

/// A part of all items, but enough for some mix.
std::size_t budget_for_links(profile const& of, hardware const& on) {
  std::size_t bytes = 0;
  for (auto const& segment : of.segments) {
    for (auto const& item : segment.items) bytes += item.bytes;
  }
  constexpr double to_spare = 1.25;
  auto const least = static_cast<double>(planning::smallest_budget(of, on, {.budget_bytes = 1}));
  return static_cast<std::size_t>(std::max(share_by_link * static_cast<double>(bytes), to_spare * least));
}

bool same_shape(gpt_dimensions const& a, gpt_dimensions const& b) {
  return a.width == b.width && a.heads == b.heads && a.context == b.context && a.batch == b.batch;
}

void fill(break_even& all, profile const& of, hardware const& on, std::size_t budget_bytes) {
  all.step = of.name;
  all.hardware_name = on.name;
  all.out_gbps = on.device_to_host.gbps;
  all.in_gbps = on.host_to_device.gbps;
  all.table = weigh(of, on);
  all.budget_bytes = budget_bytes;
  all.links = sweep_link(of, on, budget_bytes, plan_ms_by_link);
}

}  // namespace

bench_subject::bench_subject(bench_flags const& flags) : flags_(flags), settings_(config::from_env()) {
  set_by_flag(settings_, "FERRY_DEVICE", "--device", flags.device);
  bool const named = !flags.step.gpu.empty() || !flags.step.hardware_file.empty();
  bool const described = named || !flags.step.profile_file.empty();
  if (described && flags.device && settings_.device != "sim") {
    throw setting_error(
        fmt::format("--device={}: --gpu, --hardware and --profile describe what is simulated; leave them out, or give "
                    "--device sim",
                    *flags.device));
  }
  simulated_ = described || settings_.device == "sim";
  if (simulated_) return;
  if (flags.step.budget || flags.step.host_budget) {
    throw setting_error("--budget and --host-budget are for a simulated device: give --gpu NAME too");
  }
  if (settings_.device == "auto") settings_.device = find_cuda().why_not.empty() ? "cuda" : "host";
}

std::string bench_subject::words() const {
  return simulated_ ? fmt::format("such a step on {}", printable(load_step(step()).on.name)) : "this machine";
}

break_even bench_subject::weigh_all(progress& shown) const { return simulated_ ? by_formula() : measured(shown); }

link_result bench_subject::link(progress& shown, std::size_t unless_given) const {
  if (simulated_) {
    throw setting_error("link measures this machine: leave out --gpu, --hardware, --profile and --device sim");
  }
  link_options how;
  how.settings = settings_;
  how.largest = largest_copy(unless_given);
  // As fast as it can be, unless the user has said otherwise: what paces the host device is no property of it.
  bool const given = !settings_.link_gbps.automatic || !settings_.link_schedule.empty();
  if (!given) how.settings.link_gbps = {};
  return measure_link(how, shown);
}

contest bench_subject::policies(progress& shown) const {
  if (!simulated_) {
    host_contest_options how;
    how.shape = host_shape();
    how.device = settings_.device;
    how.budgets = flags_.budgets.value_or(how.budgets);
    how.rounds = flags_.rounds;
    return run_host_contest(how, shown).all;
  }
  auto const given = load_step(step());
  sim_contest_options how;
  how.settings = sim_settings();
  how.budgets = flags_.budgets.value_or(how.budgets);
  how.plan_ms = flags_.plan_ms;
  how.host_budget_bytes = host_budget(flags_.step, given).value_or(0);
  return run_sim_contest(given, how, shown);
}

std::size_t bench_subject::largest_copy(std::size_t unless_given) const {
  if (!flags_.largest) return unless_given;
  constexpr std::size_t least = std::size_t{1} << 20;
  constexpr std::size_t most = std::size_t{4} << 30;
  try {
    std::size_t const bytes = parse_bytes(*flags_.largest);
    if (bytes >= least && bytes <= most) return bytes;
  } catch (setting_error const&) {  // told below, with the flag's name
  }
  throw setting_error(fmt::format("--largest='{}': give bytes from 1MiB to 4GiB", printable(*flags_.largest)));
}

step_flags bench_subject::step() const {
  auto typed = flags_.step;
  if (typed.gpu.empty() && typed.hardware_file.empty()) typed.gpu = "a100-80";
  if (typed.gpt.empty() && typed.profile_file.empty()) typed.gpt = "32,4096,32,2048,4";
  return typed;
}

gpt_dimensions bench_subject::host_shape() const {
  gpt_dimensions shape = host_contest_options{}.shape;
  if (flags_.step.gpt.empty()) return shape;
  int const vocabulary = shape.vocabulary;
  shape = read_gpt(flags_.step.gpt);
  shape.vocabulary = vocabulary;
  return shape;
}

/// Copies in chunks of 1 MiB make a simulation long and change little in it.
config bench_subject::sim_settings() const {
  auto settings = settings_;
  constexpr std::size_t large = std::size_t{16} << 20;
  if (std::ranges::find(settings.given, "FERRY_CHUNK_BYTES") == settings.given.end()) settings.chunk_bytes = large;
  settings.trace_file.clear();
  settings.stats_file.clear();
  settings.profile_file.clear();
  return settings;
}

break_even bench_subject::by_formula() const {
  auto const typed = step();
  auto const given = load_step(typed);
  break_even all;
  auto const budget = device_budget(flags_.step, given);
  fill(all, given.step, given.on, budget ? *budget : budget_for_links(given.step, given.on));
  if (typed.gpt.empty()) return all;
  auto const shape = read_gpt(typed.gpt);
  auto const vary = [&](char const* axis, std::vector<int> const& values, auto const& set) {
    all.sweeps.push_back(sweep_axis(axis, values, [&](int value) {
      auto other = shape;
      other.layers = 2;
      set(other, value);
      return gpt_profile(other, given.on);
    }));
  };
  vary("context", {512, 1024, 2048, 4096, 8192, 16384, 32768}, [](auto& of, int value) { of.context = value; });
  vary("width", {1024, 2048, 4096, 8192}, [](auto& of, int value) {
    of.width = value;
    of.heads = value / 128;
  });
  vary("batch", {1, 2, 4, 8, 16}, [](auto& of, int value) { of.batch = value; });
  return all;
}

break_even bench_subject::measured(progress& shown) const {
  auto const measure = [&](gpt_dimensions const& shape) {
    shown.show(fmt::format("width {}, context {}, batch {}", shape.width, shape.context, shape.batch));
    return measure_step(make_train_plan(training_of(shape, settings_.device)));
  };
  auto const shape = host_shape();
  auto const whole = measure(shape);
  break_even all;
  all.measured = true;
  fill(all, whole.step, whole.on, budget_for_links(whole.step, whole.on));
  bool const paced = settings_.device == "host" && settings_.link_gbps.automatic;
  if (paced) {
    all.link_words =
        "(the host device paces its link to what a server GPU's is beside its computing: FERRY_LINK_GBPS=auto; how "
        "fast\n"
        "this machine copies is what `ferry bench link` measures, and no session on the host device goes by it)";
  }
  all.step = fmt::format("gpt: {} layers, width {}, {} heads, context {}, batch {}, trained on this machine",
                         shape.layers, shape.width, shape.heads, shape.context, shape.batch);
  auto const vary = [&](char const* axis, std::vector<int> const& values, auto const& set) {
    auto swept = sweep_axis(axis, values, [&](int value) -> std::optional<profile> {
      if (interrupted()) return std::nullopt;
      auto other = shape;
      other.layers = 2;
      set(other, value);
      return same_shape(other, shape) ? whole.step : measure(other).step;
    });
    if (swept.values.size() < values.size()) all.not_measured.emplace_back(axis);
    if (!swept.values.empty()) all.sweeps.push_back(std::move(swept));
  };
  vary("context", {32, 64, 128, 256}, [](auto& of, int value) { of.context = value; });
  vary("width", {128, 256, 512}, [](auto& of, int value) {
    of.width = value;
    of.heads = value / 64;
  });
  vary("batch", {1, 2, 4, 8}, [](auto& of, int value) { of.batch = value; });
  shown.clear();
  return all;
}

}  // namespace ferry::command
