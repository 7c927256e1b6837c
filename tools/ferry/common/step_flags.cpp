#include "common/step_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "common/cli.hpp"
#include "common/flags.hpp"
#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "ferry/model_profile.hpp"

namespace ferry::command {

namespace {

profile load_profile(step_flags const& flags, hardware const& on) {
  if (flags.profile_file.empty() == flags.gpt.empty()) {
    throw setting_error("say what a step looks like: give --profile FILE or --gpt SIZES, one of them");
  }
  if (!flags.profile_file.empty()) return read_profile(flags.profile_file);
  auto const of = read_gpt(flags.gpt);
  try {
    return gpt_profile(of, on);
  } catch (invalid_argument const& problem) {
    throw setting_error(fmt::format("--gpt='{}': {}", flags.gpt, problem.what()));
  }
}

}  // namespace

gpt_dimensions read_gpt(std::string const& text) {
  gpt_dimensions of;
  std::array<int*, 5> const members{&of.layers, &of.width, &of.heads, &of.context, &of.batch};
  std::string_view rest = text;
  for (std::size_t i = 0; i < members.size(); ++i) {
    auto const [stop, status] = std::from_chars(rest.data(), rest.data() + rest.size(), *members[i]);
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
    bool const last = i + 1 == members.size();
    if (status != std::errc{} || (last ? !rest.empty() : !rest.starts_with(','))) {
      throw setting_error(
          fmt::format("--gpt='{}': give layers,width,heads,context,batch, for instance --gpt 32,4096,32,2048,4", text));
    }
    if (!last) rest.remove_prefix(1);
  }
  return of;
}

void add_hardware_flags(CLI::App& command, hardware_flags& into) {
  constexpr char const* machine = "Hardware";
  command.add_option("--gpu", into.gpu, fmt::format("Hardware by name: {}", fmt::join(hardware_names(), ", ")))
      ->type_name("NAME")
      ->group(machine);
  add_file_flag(command, "--gpus", into.gpus_file, "More GPUs for --gpu, or other figures for those that it knows",
                machine);
  add_file_flag(command, "--hardware", into.hardware_file, "Instead: a file that describes it", machine);
}

planning::gpu_catalogue load_gpus(hardware_flags const& flags) {
  auto known = planning::gpu_catalogue::shipped();
  if (!flags.gpus_file.empty()) known.read(std::filesystem::path(flags.gpus_file));
  return known;
}

hardware load_hardware(hardware_flags const& flags, bool half) {
  if (flags.hardware_file.empty() == flags.gpu.empty()) {
    throw setting_error("say what it runs on: give --gpu NAME or --hardware FILE, one of them");
  }
  if (!flags.hardware_file.empty()) {
    if (flags.gpus_file.empty()) return read_hardware(flags.hardware_file);
    throw setting_error("--gpus is for --gpu NAME: give it, or leave --gpus out");
  }
  try {
    return hardware_of(load_gpus(flags).find(flags.gpu), half);
  } catch (invalid_argument const& problem) {
    throw setting_error(fmt::format("--gpu: {}", problem.what()));
  }
}

void add_step_flags(CLI::App& command, step_flags& into, std::string const& unless_given) {
  constexpr char const* step = "Step";
  add_file_flag(command, "--profile", into.profile_file, "What a step looks like, as `ferry train --profile` writes it",
                step);
  command
      .add_option(
          "--gpt", into.gpt,
          "Instead: a GPT by formula in half precision, as layers,width,heads,context,batch (32,4096,32,2048,4)")
      ->type_name("SIZES")
      ->group(step);

  add_hardware_flags(command, into);

  constexpr char const* memory = "Memory";
  command
      .add_option(
          "--budget", into.budget,
          "Device bytes for activations (12GiB), or a share (20%) of what keeping all needs: the sum of all items")
      ->type_name("BYTES")
      ->group(memory);
  command
      .add_option("--host-budget", into.host_budget,
                  fmt::format("Pinned bytes for what is ferried, or a share of the hardware's [{}]", unless_given))
      ->type_name("BYTES")
      ->group(memory);
}

given_step load_step(step_flags const& flags) {
  given_step given;
  given.on = load_hardware(flags);
  given.step = load_profile(flags, given.on);
  for (auto const& segment : given.step.segments) {
    for (auto const& item : segment.items) given.keep_all_bytes += item.bytes;
  }
  return given;
}

std::uint64_t quick_effort(profile const& step) noexcept {
  constexpr std::size_t moves_of_segments = 60'000;  // a tenth of a second for 50 segments
  return std::max<std::size_t>(1, moves_of_segments / std::max<std::size_t>(1, step.segments.size()));
}

std::optional<std::size_t> device_budget(step_flags const& flags, given_step const& given) {
  if (!flags.budget) return std::nullopt;
  config parsed;
  set_by_flag(parsed, "FERRY_BUDGET", "--budget", flags.budget);
  std::size_t const bytes = parsed.budget.of(given.keep_all_bytes);
  if (bytes > given.on.device_bytes) {
    throw setting_error(fmt::format("--budget={}: that is {}, and '{}' has {}; lower it", *flags.budget,
                                    format_bytes(bytes), given.on.name, format_bytes(given.on.device_bytes)));
  }
  if (bytes == 0) throw setting_error(fmt::format("--budget={}: that is no byte at all; raise it", *flags.budget));
  return bytes;
}

std::optional<std::size_t> host_budget(step_flags const& flags, given_step const& given) {
  if (!flags.host_budget) return std::nullopt;
  config parsed;
  set_by_flag(parsed, "FERRY_HOST_BUDGET", "--host-budget", flags.host_budget);
  std::size_t const bytes = parsed.host_budget.of(given.on.host_bytes);
  if (bytes > given.on.host_bytes) {
    throw setting_error(fmt::format("--host-budget={}: '{}' can pin {}; lower it", *flags.host_budget, given.on.name,
                                    format_bytes(given.on.host_bytes)));
  }
  if (bytes == 0) {
    throw setting_error(fmt::format("--host-budget={}: that is no byte at all; raise it", *flags.host_budget));
  }
  return bytes;
}

}  // namespace ferry::command
