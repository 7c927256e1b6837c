// `ferry devices`: what this machine and this build offer to run on.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/flags.hpp"
#include "common/output_file.hpp"
#include "devices_cuda.hpp"
#include "ferry/config.hpp"
#include "nn/gemm_host.hpp"
#include "support/threads.hpp"

namespace ferry::command {

namespace {

std::string words_of(link_speed const& link) {
  std::string const speed = link.gbps > 0 ? fmt::format("{:.3g} GB/s", link.gbps) : "unpaced";
  return fmt::format("{}, {:g} us latency", speed, link.latency_us);
}

/// Memory and links, which the host and the sim device have in common.
template <typename Options>
void print_sizes(Options const& options) {
  fmt::print("  device memory    {}\n", format_bytes(options.device_bytes));
  fmt::print("  pinned memory    {}\n", format_bytes(options.pinned_bytes));
}
template <typename Options>
void print_links(Options const& options, char const* note) {
  fmt::print("  device to host   {}{}\n", words_of(options.device_to_host), note);
  fmt::print("  host to device   {}{}\n", words_of(options.host_to_device), note);
}

void print(host_device_options const& host, sim_device_options const& sim, cuda_presence const& cuda,
           config const& settings) {
  bool const automatic = settings.link_gbps.automatic;
  char const* const scheduled = settings.link_schedule.empty() ? "" : " (to begin with)";
  fmt::print("host: a GPU's shape on this machine's CPU\n");
  print_sizes(host);
  auto const [threads, from] = support::compute_threads(host.compute_threads);
  fmt::print("  compute threads  {} ({})\n", threads, from);
  fmt::print("  matrix products  {}\n", nn::gemm_library());
  print_links(host, automatic ? " (balanced with this machine's compute)" : scheduled);
  fmt::print("sim: a virtual clock, on which kernels and copies only cost time\n");
  print_sizes(sim);
  fmt::print("  kernels          their accesses at {:g} GB/s\n", sim.memory_gbps);
  print_links(sim, automatic ? " (PCIe 4 with 16 lanes)" : scheduled);
  fmt::print("{}", cuda_text(cuda));
  auto const automatic_name = automatic_device(cuda);
  fmt::print("auto: {} here, {}\n", automatic_name,
             automatic_name == "host" ? "because there is no GPU to use" : "the first GPU");
}

nlohmann::ordered_json json_of(link_speed const& link) {
  return {{"gbps", link.gbps}, {"latency_us", link.latency_us}};
}

nlohmann::ordered_json json_of(host_device_options const& host, sim_device_options const& sim,
                               cuda_presence const& cuda) {
  auto const [threads, from] = support::compute_threads(host.compute_threads);
  nlohmann::ordered_json here{{"name", "host"},
                              {"available", true},
                              {"device_bytes", host.device_bytes},
                              {"pinned_bytes", host.pinned_bytes},
                              {"compute_threads", threads},
                              {"compute_threads_from", from},
                              {"matrix_products", nn::gemm_library()},
                              {"device_to_host", json_of(host.device_to_host)},
                              {"host_to_device", json_of(host.host_to_device)}};
  nlohmann::ordered_json simulated{{"name", "sim"},
                                   {"available", true},
                                   {"device_bytes", sim.device_bytes},
                                   {"pinned_bytes", sim.pinned_bytes},
                                   {"memory_gbps", sim.memory_gbps},
                                   {"device_to_host", json_of(sim.device_to_host)},
                                   {"host_to_device", json_of(sim.host_to_device)}};
  auto all = nlohmann::ordered_json::array({std::move(here), std::move(simulated), cuda_json(cuda)});
  return {{"devices", std::move(all)}, {"auto", automatic_device(cuda)}};
}

exit_code run(std::string const& json_file) {
  require_usable_output(json_file);
  config const settings = config::from_env();
  host_device_options const host = host_options(settings);
  sim_device_options const sim = sim_options(settings);
  cuda_presence const cuda = find_cuda();
  if (!json_file.empty()) write_output(json_file, text_of(json_of(host, sim, cuda)));
  if (!is_standard_output(json_file)) print(host, sim, cuda, settings);
  return success;
}

}  // namespace

runner add_devices(CLI::App& program) {
  auto const json_file = std::make_shared<std::string>();
  CLI::App* const command = program.add_subcommand("devices", "Devices of this machine and this build");
  add_file_flag(*command, "--json", *json_file, "Write the devices to this file too, as JSON; - is standard output",
                "Options");
  command->footer("Examples:\n  ferry devices\n  ferry devices --json devices.json");
  return [json_file] { return run(*json_file); };
}

}  // namespace ferry::command
