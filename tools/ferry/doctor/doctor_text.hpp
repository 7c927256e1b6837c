// The doctor's answers as text for people and as JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "doctor/prescription.hpp"

namespace ferry::command {

[[nodiscard]] std::string text_of_prescription(prescription const& made);
[[nodiscard]] nlohmann::ordered_json json_of_prescription(prescription const& made);

}  // namespace ferry::command
