// What a block saves for backward beside the core's items (docs/doctor.md has the table): by the kernels that run it,
// by its norms and experts, and by adapters. Values; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "doctor/memory.hpp"

namespace ferry::command {

/// A tensor beside the core's, of each token.
struct saved_tensor {
  std::string_view name;
  std::string_view after;  ///< the item that it is made from
  double bytes = 0;
  double flops = 0;  ///< to make it again, where that is more than a pass over memory
};

[[nodiscard]] std::vector<saved_tensor> saved_in_block(model const& of, training const& how);
[[nodiscard]] std::vector<saved_tensor> saved_in_head(model const& of, training const& how);

/// Adds them to a step that the library describes. Requires: completed.
void add_saved(profile& step, model const& of, training const& how, hardware const& on);

}  // namespace ferry::command
