// The doctor's answer as one page to pass on: HTML that needs nothing else and runs no script, in the style of
// `ferry report`. Whatever comes from a file, a model's name for instance, is inert in it.
#pragma once

#include <string>

#include "doctor/prescription.hpp"

namespace ferry::command {

[[nodiscard]] std::string page_of_prescription(prescription const& made);

}  // namespace ferry::command
