// One step of a trace as a picture: a lane for each compute stream, one for each direction of the link and one for the
// host's waits; the bytes of each tier beneath. Copies that were given up are hatched. Where a transfer was weighed
// against a recipe, a number marks the moment and the words of the trace stand below.
#pragma once

#include <string>

#include "report/run_data.hpp"

namespace ferry::command {

/// The step that has this number or, if that is `unknown`, the last that was measured to its end. Throws:
/// `setting_error` that names `--step` or `--svg` if there is none.
[[nodiscard]] traced_step const& step_to_draw(run const& of, double number);

/// Requires: `step` is one of the run's. An empty title is the step's number and time.
[[nodiscard]] std::string step_svg(run const& of, traced_step const& step, std::string const& title);

}  // namespace ferry::command
