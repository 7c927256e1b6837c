// The chains that the runtime is judged by: the stored planner cases, and models by formula.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ferry/plan.hpp"

namespace ferry::bench {

struct judged_chain {
  std::string name;
  profile step;
  hardware on;  ///< as it was planned for
  std::size_t budget_bytes = 0;

  /// Forward and backward of one segment, on average.
  [[nodiscard]] double segment_us() const;
};

struct skipped_chain {
  std::string name;
  std::string why;
};

struct chain_list {
  std::vector<judged_chain> chains;
  std::vector<skipped_chain> skipped;
};

/// All of them, or a handful, or (with `only`) those whose name contains it.
[[nodiscard]] chain_list load_chains(bool quick, std::string const& only);

}  // namespace ferry::bench
