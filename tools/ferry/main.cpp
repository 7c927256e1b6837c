// The `ferry` command. Results go to standard output, errors to standard error in one line each;
// exit code 2 is for wrong flags and settings, 3 for a budget that no plan fits, 130 for an interruption, 1 for
// everything else that fails.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/unknown_argument.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

namespace {

int report(exit_code code, char const* message) {
  fmt::print(stderr, "ferry: {}\n", message);
  return code;
}

int run(int argc, char** argv) {
  CLI::App program("Ferry keeps, ferries or recomputes a trainer's activations under byte budgets.", "ferry");
  program.set_version_flag("--version", "ferry " FERRY_VERSION);
  program.require_subcommand(0, 1);
  std::vector<std::pair<std::string, runner>> const commands{
      {"train", add_train(program)},           {"plan", add_plan(program)},    {"simulate", add_simulate(program)},
      {"bench", add_bench(program)},           {"tape", add_tape(program)},    {"doctor", add_doctor(program)},
      {"report", add_report(program)},         {"env", add_env(program)},      {"devices", add_devices(program)},
      {"completion", add_completion(program)}, {"manual", add_manual(program)}};
  try {
    program.parse(argc, argv);
  } catch (CLI::Success const& asked) {  // --help and --version
    return program.exit(asked);
  } catch (CLI::ExtrasError const&) {
    return report(wrong_usage, words_of_unknown(program).c_str());
  } catch (CLI::ParseError const& problem) {
    auto const command = full_name(chosen_command(program));
    return report(wrong_usage, fmt::format("{}; see `{} --help`", problem.what(), command).c_str());
  }
  for (auto const& [name, start] : commands) {
    if (!program.got_subcommand(name)) continue;
    exit_code const code = start();
    bool const written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    return written ? code : report(failure, "cannot write to standard output");
  }
  return report(wrong_usage, "no command given; see `ferry --help`");
}

}  // namespace

}  // namespace ferry::command

int main(int argc, char** argv) {
  using namespace ferry::command;
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error like a full disk
  try {
    return run(argc, argv);
  } catch (ferry::setting_error const& problem) {
    return report(wrong_usage, problem.what());
  } catch (ferry::invalid_argument const& problem) {
    return report(wrong_usage, problem.what());
  } catch (ferry::no_cuda const& problem) {  // a device was asked for that is not there
    return report(wrong_usage, problem.what());
  } catch (ferry::infeasible_budget const& problem) {
    return report(infeasible, problem.what());
  } catch (std::exception const& problem) {
    return report(failure, problem.what());
  }
}
