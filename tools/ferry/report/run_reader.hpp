// The files that `ferry report` takes, told apart by what is in them: traces, statistics, and the JSON of `ferry
// train`, `ferry train --compare`, `ferry simulate` and `ferry bench`. Anybody may have written them: what is held is
// bounded, whatever a file says, and one that ends in the middle gives what it has, with a note.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "report/run_data.hpp"

namespace ferry::command {

/// Reads one file; `name` is for messages and as its run's label. Throws: `format_error` that names the file if there
/// is nothing in it to report. Of a trace the step `wanted` is held in full, whatever else is left out.
[[nodiscard]] run_data read_runs(std::istream& in, std::string const& name, double wanted = unknown);

/// Puts what belongs together into one run: see docs/formats.md. In the order of the files.
[[nodiscard]] run_data join(std::vector<run_data> files);

}  // namespace ferry::command
