// `ferry train --compare`: the same training under several policies, in turns, so that whatever else the machine does
// falls on all of them alike; and one table.
#pragma once

#include "commands.hpp"
#include "train_options.hpp"

namespace ferry::command {

/// Throws: `failed` if a policy's gradients differ from the reference's, or one that should fit does not.
exit_code compare_policies(train_plan const& plan);

}  // namespace ferry::command
