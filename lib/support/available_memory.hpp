// How much memory this process can have before the system ends it or others: asked before budgets are taken, because
// memory that is handed out on demand runs out without a word.
//
// Shared with tools/: `ferry train` asks for weights and budgets together. Threads: any.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace ferry::support {

struct available_memory {
  /// What nobody holds and what this process holds already; as much as there are numbers where nobody says.
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
  std::string_view of = "this machine";  ///< or the control group, where that leaves less
};

/// `root` is where /proc and /sys are.
[[nodiscard]] available_memory memory_available(std::string const& root = "");

}  // namespace ferry::support
