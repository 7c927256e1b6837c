#include "options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <string_view>

namespace matmul_chain {

namespace {

constexpr double default_budget_share = 0.4;

constexpr char const* description =
    "Trains a chain of matrix products, X[i+1] = relu(X[i] W[i]), under a budget that its activations do not fit, "
    "with one policy after the other, and compares time, memory and gradients.\n"
    "FERRY_* variables apply as in any program that uses Ferry; FERRY_BUDGET and FERRY_HOST_BUDGET may be shares of "
    "what keeping everything takes.";

/// A default value does not tell whether the user wrote it.
bool is_set(std::string_view variable) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view const text = *entry;
    if (text.starts_with(variable) && text.substr(variable.size()).starts_with('=')) return true;
  }
  return false;
}

/// Amounts on the command line are written as in the environment, and read by the same code.
ferry::byte_amount read_budget(std::string const& text) {
  constexpr std::string_view variable = "FERRY_BUDGET";
  ferry::config read;
  try {
    read.set(variable, text);
  } catch (ferry::setting_error const& problem) {
    throw usage_error(fmt::format("--budget{}", problem.what() + variable.size()));
  }
  return read.budget;
}

void take_environment(options& result, std::string const& budget_flag) {
  result.settings = ferry::config::from_env();
  auto const& device = result.settings.device;
  if (device != "auto" && device != "host") {
    throw usage_error(fmt::format("FERRY_DEVICE={}: the demo runs on the host device; unset it", device));
  }
  auto budget = ferry::byte_amount::share(default_budget_share);
  if (is_set("FERRY_BUDGET")) budget = result.settings.budget;
  if (!budget_flag.empty()) budget = read_budget(budget_flag);
  // More than everything is as good as everything, and sums of what fits the machine cannot overflow.
  std::size_t const keep_all = result.shape.keep_all_bytes();
  auto const within = [keep_all](ferry::byte_amount amount) { return std::min(amount.of(keep_all), keep_all); };
  result.budget_bytes = within(budget);
  if (result.budget_bytes == 0) throw usage_error("a budget of nothing; give --budget some bytes");
  result.host_budget_bytes = is_set("FERRY_HOST_BUDGET") ? within(result.settings.host_budget) : keep_all;

  result.settings.stats_file.clear();  // one file for all sessions would hold the last one's
  constexpr std::array decided_here{"FERRY_POLICY", "FERRY_DEVICE_BYTES", "FERRY_PINNED_BYTES", "FERRY_STATS"};
  for (char const* variable : decided_here) {
    if (is_set(variable)) result.ignored.emplace_back(variable);
  }
}

}  // namespace

std::optional<options> parse_options(int argc, char** argv) {
  options result;
  std::string budget;
  CLI::App program(description, "matmul_chain");
  program.add_option("--layers", result.shape.layers, "matrix products in the chain")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  program.add_option("--rows", result.shape.layer.rows, "rows of an activation")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  program.add_option("--width", result.shape.layer.width, "columns of an activation")
      ->check(CLI::Range(1, 1 << 15))
      ->capture_default_str();
  program.add_option("--budget", budget,
                     "device memory for activations: bytes (24MiB) or a share of what keeping everything takes "
                     "(40%, the default); FERRY_BUDGET says the same");
  program.add_option("--steps", result.steps, "timed steps of each policy")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  program.add_option("--json", result.json_file, "write the table and all statistics to this file too");
  try {
    program.parse(argc, argv);
  } catch (CLI::Success const& asked) {
    program.exit(asked);
    return std::nullopt;
  } catch (CLI::ParseError const& problem) {
    throw usage_error(fmt::format("{}; see --help", problem.what()));
  }
  if (budget.empty() && program.count("--budget") > 0) throw usage_error("--budget is empty; see --help");
  if (result.json_file.empty() && program.count("--json") > 0) throw usage_error("--json names no file");
  take_environment(result, budget);
  return result;
}

}  // namespace matmul_chain
