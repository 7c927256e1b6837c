// Where common advice is wrong for this model on this GPU, and what the predictions assume; in sentences, each with the
// numbers that it rests on.
#pragma once

#include <string>
#include <vector>

#include "doctor/prescription.hpp"

namespace ferry::command {

[[nodiscard]] std::vector<std::string> warnings_of(prescription const& made, profile const& step);
[[nodiscard]] std::vector<std::string> assumptions_of(prescription const& made);

}  // namespace ferry::command
