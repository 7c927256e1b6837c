// The demo: a chain of matrix products, forward and backward, under a budget that its activations do not fit.
// Keeping them all fails; recomputing, offloading and a mix of both fit, each at its price in time, and all of
// them give the reference's gradients bit for bit.
//
// Results go to standard output, errors and progress to standard error. Exit code 2 is for wrong flags and
// settings, 130 for an interruption, 1 for everything else that is not as it should be.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chain.hpp"
#include "contest.hpp"
#include "ferry/ferry.hpp"
#include "interrupt.hpp"
#include "options.hpp"
#include "report.hpp"

namespace matmul_chain {

namespace {

/// Unscoped, because the shell wants the number.
enum exit_code : int { success = 0, failure = 1, wrong_usage = 2, was_interrupted = 130 };

constexpr std::string_view keep_policy = "keep";

/// One line on a terminal, overwritten by the next; nothing where nobody watches.
class progress_line {
 public:
  progress_line() : shown_(isatty(STDERR_FILENO) == 1) {}
  progress_line(progress_line const&) = delete;
  progress_line& operator=(progress_line const&) = delete;
  ~progress_line() { show(""); }
  void show(std::string_view what) const {
    if (!shown_) return;
    fmt::print(stderr, "\r\033[K{}", what);
    std::fflush(stderr);
  }

 private:
  bool shown_;
};

/// Sized for the reference and every policy at once, because they run in turns.
std::unique_ptr<ferry::host_device> make_device_for(options const& chosen) {
  constexpr std::size_t policies = 5;
  constexpr std::size_t policies_that_offload = 2;
  constexpr std::size_t slack_bytes = 1 << 20;  // for alignment
  auto device = ferry::host_options(chosen.settings);
  device.device_bytes =
      2 * chosen.shape.weights_bytes() + chosen.shape.keep_all_bytes() + policies * chosen.budget_bytes + slack_bytes;
  device.pinned_bytes = policies_that_offload * chosen.host_budget_bytes + slack_bytes;
  // Asked here, because a machine that hands out memory it does not have ends the program without a word.
  auto const machine =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (device.device_bytes + device.pinned_bytes > machine) {
    throw ferry::error(
        fmt::format("{} of device and {} of pinned memory are needed, this machine has {} in all; lower "
                    "--layers, --rows, --width or --budget",
                    ferry::format_bytes(device.device_bytes), ferry::format_bytes(device.pinned_bytes),
                    ferry::format_bytes(machine)));
  }
  return ferry::make_host_device(std::move(device));
}

/// Gives the link the balance of a large model on a large GPU, unless the user has set it.
link_choice choose_link(ferry::host_device& device, options const& chosen, double forward_us) {
  // A 7B-class block on an A100: the time to move its saved bytes over PCIe 4, over the time of its forward.
  constexpr double transfer_to_forward = 2.2;
  bool const balanced = chosen.settings.link_gbps.automatic;
  if (balanced) {
    double const gbps = static_cast<double>(chosen.shape.item_bytes()) / (transfer_to_forward * forward_us * 1000);
    for (auto const direction : {ferry::copy_direction::device_to_host, ferry::copy_direction::host_to_device}) {
      device.set_link(direction, {gbps, device.link(direction).latency_us});
    }
  }
  return {device.link(ferry::copy_direction::device_to_host), device.link(ferry::copy_direction::host_to_device),
          balanced, forward_us};
}

/// Keeps the last segments, which backward wants first, as far as the budget goes; of the others every second
/// one is ferried, and those between are rebuilt from it.
ferry::placement_function mix_for(options const& chosen) {
  // Beside what is kept: the gradient, the next gradient, an item that comes or goes.
  constexpr std::size_t working_items = 3;
  std::size_t const room = chosen.budget_bytes / chosen.shape.charged_bytes();
  std::size_t const kept = room > working_items ? room - working_items : 0;
  std::size_t const layers = chosen.shape.layers;
  return [kept, layers](ferry::item_info const& item) {
    if (item.key.segment + kept >= layers) return ferry::placement::keep;
    return item.key.segment % 2 == 0 ? ferry::placement::offload : ferry::placement::recompute;
  };
}

void enter_policies(contest& contest, options const& chosen) {
  auto settings = chosen.settings;
  settings.budget = ferry::byte_amount::exactly(chosen.budget_bytes);
  settings.host_budget = ferry::byte_amount::exactly(0);
  for (auto const policy : {keep_policy, std::string_view("recompute"), std::string_view("sqrt")}) {
    settings.set("FERRY_POLICY", policy);
    contest.enter(std::string(policy), settings);
  }
  settings.host_budget = ferry::byte_amount::exactly(chosen.host_budget_bytes);
  settings.set("FERRY_POLICY", "offload");
  contest.enter("offload", settings);
  contest.enter("mix", settings, mix_for(chosen));
}

void enter_reference(contest& contest, options const& chosen) {
  auto settings = chosen.settings;
  settings.budget = ferry::byte_amount::exactly(chosen.shape.keep_all_bytes());
  settings.host_budget = ferry::byte_amount::exactly(0);
  settings.set("FERRY_POLICY", keep_policy);
  contest.enter("reference", settings);
}

/// Says on standard error what is not as it should be.
bool all_is_well(options const& chosen, std::vector<outcome> const& outcomes,
                 std::vector<std::string> const& violations) {
  bool well = violations.empty();
  for (auto const& violation : violations) fmt::print(stderr, "matmul_chain: stream order: {}\n", violation);
  bool const keep_may_fit = chosen.budget_bytes >= chosen.shape.keep_all_bytes();
  for (auto const& of : outcomes) {
    bool const should_fit = of.policy != keep_policy || keep_may_fit;
    if (of.fits() != should_fit) {
      fmt::print(stderr, "matmul_chain: {} {} the budget\n", of.policy,
                 should_fit ? "did not fit" : "unexpectedly fits");
      well = false;
    }
    if (!of.identical) {
      fmt::print(stderr, "matmul_chain: the gradients of {} differ from the reference's\n", of.policy);
      well = false;
    }
  }
  return well;
}

int run(int argc, char** argv) {
  auto const parsed = parse_options(argc, argv);
  if (!parsed) return success;
  options const& chosen = *parsed;
  if (!chosen.json_file.empty()) require_writable(chosen.json_file);
  for (auto const& variable : chosen.ignored) {
    fmt::print(stderr, "matmul_chain: {} has no effect here, the demo decides that itself\n", variable);
  }
  listen_for_interrupts();

  auto const device = make_device_for(chosen);
  ferry::stream const stream(*device, ferry::stream_kind::compute, "compute");
  chain model(*device, stream, chosen.shape);
  progress_line const line;
  contest contest(*device, stream, model, [&line](std::string_view what) { line.show(what); });
  enter_reference(contest, chosen);
  auto const link = choose_link(*device, chosen, contest.run_reference());
  line.show("");
  print_setting(chosen, link);
  std::fflush(stdout);

  enter_policies(contest, chosen);
  contest.run(chosen.steps);
  line.show("");
  auto const outcomes = contest.outcomes();
  print_table(chosen, link, outcomes);
  if (!chosen.json_file.empty()) write_json(chosen, link, outcomes);
  bool const written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written) throw ferry::error("cannot write to standard output");
  return all_is_well(chosen, outcomes, device->order_violations()) ? success : failure;
}

int report(exit_code code, char const* message) {
  fmt::print(stderr, "matmul_chain: {}\n", message);
  return code;
}

}  // namespace

}  // namespace matmul_chain

int main(int argc, char** argv) {
  using namespace matmul_chain;
  try {
    return run(argc, argv);
  } catch (interrupted const& problem) {
    return report(was_interrupted, problem.what());
  } catch (usage_error const& problem) {
    return report(wrong_usage, problem.what());
  } catch (ferry::setting_error const& problem) {
    return report(wrong_usage, problem.what());
  } catch (std::exception const& problem) {
    return report(failure, problem.what());
  }
}
