// `ferry doctor`: from a model's shape and a GPU, or from an out-of-memory message, to a prescribed policy.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/output_file.hpp"
#include "common/printable.hpp"
#include "doctor/doctor_flags.hpp"
#include "doctor/doctor_page.hpp"
#include "doctor/doctor_text.hpp"
#include "doctor/oom_advice.hpp"
#include "ferry/error.hpp"
#include "plan/json_reader.hpp"

namespace ferry::command {

namespace {

/// All of the text, or its end if there is more than is looked at.
std::string read_text(std::string const& path) {
  auto const read = [](std::istream& in) {
    std::string text;
    std::array<char, std::size_t{1} << 16> buffer{};
    while (in.read(buffer.data(), buffer.size()) || in.gcount() > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(in.gcount()));
      if (text.size() > 2 * most_oom_text_bytes) text.erase(0, text.size() - most_oom_text_bytes);
    }
    return text;
  };
  if (path == "-") return read(std::cin);
  std::string text;
  planning::with_file(path, [&](std::istream& in) { text = read(in); });
  return text;
}

diagnosis diagnose(doctor_flags const& flags, std::optional<model> const& of, bool gpu_given) {
  auto message = parse_oom(read_text(flags.oom_file));
  if (!message) {
    throw failed(fmt::format(
        "--oom {}: no out-of-memory message was found; understood are PyTorch's (\"CUDA out of memory. Tried to "
        "allocate ...\", \"CUDA error: out of memory\"), those of JAX and XLA, TensorFlow, ggml, NCCL, bitsandbytes, "
        "\"[CUDA ERROR]\", of host memory, and Ferry's own (\"out of device memory: ...\")",
        printable(flags.oom_file)));
  }
  return diagnose_oom(std::move(*message), of, gpu_given, load_gpus(flags.machine));
}

/// What the run of the message had goes before what is estimated.
void calibrate(question& asked, diagnosis& by, bool reserve_given) {
  auto const estimate =
      memory_of(asked.of, asked.how, step_of(asked.of, asked.how, asked.on), asked.on.device_bytes, asked.reserve);
  by.against = calibrated(by.message, estimate);
  if (!by.against) return;
  if (by.against->beside && !reserve_given) {
    asked.reserve = *by.against->beside;
    asked.reserve_measured = true;
  }
  std::size_t const most = asked.on.device_bytes - 1;
  asked.reserve = std::min(asked.reserve, most);
  asked.missing = std::min(by.against->missing(), most - asked.reserve);
  asked.reserve += asked.missing;
}

exit_code run(doctor_flags const& flags) {
  require_usable_output(flags.json_file);
  require_usable_output(flags.html_file);
  if (!flags.html_file.empty() && flags.html_file == flags.json_file) {
    throw setting_error("--html and --json are the same file: give another");
  }
  bool const gpu_given = !flags.machine.gpu.empty() || !flags.machine.hardware_file.empty();
  bool const model_given = names_a_model(flags);
  bool const message_given = !flags.oom_file.empty();
  std::optional<question> asked;
  if (!message_given || (gpu_given && model_given)) asked = question_of(flags);
  if (!flags.html_file.empty() && !asked) {
    throw setting_error("--html is a page of a prescription: also give the model and the GPU, or leave it out");
  }
  std::optional<diagnosis> read;
  if (message_given) {
    std::optional<model> of = asked ? std::optional(asked->of) : std::nullopt;
    if (!of && model_given) of = model_of(flags);
    read = diagnose(flags, of, gpu_given);
    if (asked) calibrate(*asked, *read, flags.reserve.has_value());
  }
  std::optional<prescription> made;
  if (asked) made = prescribe(*asked);

  if (!flags.json_file.empty()) {
    auto all = made ? json_of_prescription(*made) : nlohmann::ordered_json{{"ferry_doctor", 1}, {"predicted", true}};
    if (read) all["message"] = json_of_diagnosis(*read);
    write_output(flags.json_file, text_of(all));
  }
  if (made && !flags.html_file.empty()) write_output(flags.html_file, page_of_prescription(*made));
  if (is_standard_output(flags.json_file) || is_standard_output(flags.html_file)) return success;
  if (read) fmt::print("{}{}", text_of_diagnosis(*read), made ? "\n" : "");
  if (made) fmt::print("{}", text_of_prescription(*made));
  return success;
}

}  // namespace

runner add_doctor(CLI::App& program) {
  auto* const command =
      program.add_subcommand("doctor", "Says where memory goes, whether it fits, and prescribes a policy");
  auto const flags = std::make_shared<doctor_flags>();
  add_doctor_flags(*command, *flags);
  command->footer(
      "Examples:\n"
      "  ferry doctor --model gpt --layers 32 --width 4096 --heads 32 --context 4096 --batch 4 --dtype bf16 --gpu "
      "rtx4090\n"
      "  ferry doctor config.json --context 8192 --batch 2 --gpu a100-80 --zero 2 --ranks 8\n"
      "  python train.py 2>&1 | ferry doctor --oom -\n"
      "  ferry doctor --model gpt2-xl --batch 8 --gpu rtx4090 --optimizer adamw8bit --html answer.html\n"
      "Everything is by formula: nothing is run, and no GPU is needed.");
  return [flags] { return run(*flags); };
}

}  // namespace ferry::command
