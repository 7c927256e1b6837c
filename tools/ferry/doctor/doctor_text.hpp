// The doctor's answers as text for people and as JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "doctor/prescription.hpp"

namespace ferry::command {

/// "+6.7%"
[[nodiscard]] std::string signed_percent(double share);
/// What all GPUs of a machine pin, where there are several: "63.0 GiB by the 8 GPUs of a machine".
[[nodiscard]] std::string words_of_machine(prescription const& made, forecast const& one);
/// "--zero 3 --ranks 8" where the prescription is for that; empty where it is for what was asked.
[[nodiscard]] std::string words_of_instead(prescription const& made);

[[nodiscard]] std::string text_of_prescription(prescription const& made);
[[nodiscard]] nlohmann::ordered_json json_of_prescription(prescription const& made);

}  // namespace ferry::command
