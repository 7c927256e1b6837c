#include "commands.hpp"

#include <fmt/format.h>

namespace ferry::command {

std::string idle_settings(session_stats const& stats) {
  std::string lines;
  for (auto const& one : stats.settings_without_effect) {
    lines += fmt::format("{} had no effect: {}\n", one.variable, one.why);
  }
  return lines;
}

}  // namespace ferry::command
