// What the user asked for: flags, and the FERRY_* variables behind them.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "chain.hpp"
#include "ferry/config.hpp"

namespace matmul_chain {

/// A flag or variable that makes no sense, in one line.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct options {
  chain_shape shape{14, {1024, 512}};
  unsigned steps = 5;
  std::size_t budget_bytes = 0;       ///< for the policies under test
  std::size_t host_budget_bytes = 0;  ///< for those of them that offload
  std::string json_file;              ///< empty: none
  ferry::config settings;             ///< everything else that the environment says
  std::vector<std::string> ignored;   ///< variables that are set, but which the demo decides itself
};

/// Empty if the user asked for help and got it. Throws: `usage_error`, `ferry::setting_error`.
[[nodiscard]] std::optional<options> parse_options(int argc, char** argv);

}  // namespace matmul_chain
