// The subcommands of `ferry`. Each adds itself to the program with its flags and gives back what runs it.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>

#include "ferry/stats.hpp"

namespace CLI {
class App;  // CLI/App.hpp, which takes seconds to compile
}

namespace ferry::command {

/// Unscoped, because the shell wants the number.
enum exit_code : int { success = 0, failure = 1, wrong_usage = 2, infeasible = 3, was_interrupted = 130 };

/// A run that could not do what was asked, in one line.
class failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Called when its subcommand was chosen. Throws: `failed`, `setting_error`.
using runner = std::function<exit_code()>;

runner add_env(CLI::App& program);
runner add_devices(CLI::App& program);
runner add_train(CLI::App& program);
runner add_plan(CLI::App& program);
runner add_simulate(CLI::App& program);
runner add_bench(CLI::App& program);
runner add_tape(CLI::App& program);
runner add_doctor(CLI::App& program);
runner add_report(CLI::App& program);
runner add_completion(CLI::App& program);
runner add_manual(CLI::App& program);

/// A line for each setting that was given and changed nothing.
[[nodiscard]] std::string idle_settings(session_stats const& stats);

}  // namespace ferry::command
