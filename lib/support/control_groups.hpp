// Where the system says what this process's control groups may take. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ferry::support {

/// The folders, of either version of control groups, of the groups of one controller that this process is in and of
/// those around them. `root` is where /proc and /sys are.
[[nodiscard]] std::vector<std::string> control_groups(std::string_view controller, std::string const& root);

}  // namespace ferry::support
