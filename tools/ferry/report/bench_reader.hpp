// Comparisons: the JSON of `ferry train --compare` and of `ferry bench`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "report/run_data.hpp"

namespace ferry::command {

/// One for each budget.
void read_comparisons(nlohmann::json const& value, std::string const& name, run_data& into);

/// Policies become a bench; whatever else there is, tables of its arrays of objects.
void read_bench(nlohmann::json const& value, std::string const& name, run_data& into);

}  // namespace ferry::command
