// The flags of `ferry doctor`, and the question that they ask.
#pragma once

#include <optional>
#include <string>

#include "common/step_flags.hpp"
#include "doctor/prescription.hpp"

namespace CLI {
class App;
}

namespace ferry::command {

/// As typed. A number that was not given is nothing.
struct doctor_flags {
  std::string config_file;
  std::optional<std::string> kind, dtype, attention;
  std::optional<int> layers, width, heads, kv_heads, head_width, hidden, vocabulary, context, batch, window;
  bool tied = false;
  bool untied = false;
  std::string optimizer = "adamw";
  std::optional<std::string> master, kernels, logits;
  std::optional<int> lora, qlora, frozen;
  int zero = 0;
  int ranks = 1;
  hardware_flags machine;
  std::optional<std::string> host_memory, reserve, interconnect;
  std::optional<double> interconnect_gbps;
  std::string oom_file, json_file, html_file;
};

void add_doctor_flags(CLI::App& command, doctor_flags& into);

/// Whether a model was described at all.
[[nodiscard]] bool names_a_model(doctor_flags const& flags);
/// Throws: `setting_error` that names the flag; `format_error` that names the file.
[[nodiscard]] model model_of(doctor_flags const& flags);
[[nodiscard]] question question_of(doctor_flags const& flags);

}  // namespace ferry::command
