// `ferry devices`: what this machine and this build offer to run on.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "commands.hpp"
#include "ferry/config.hpp"
#include "nn/gemm_host.hpp"

namespace ferry::command {

namespace {

/// A device that FERRY_DEVICE can name and this build does not have.
struct absent_device {
  char const* name;
  char const* purpose;
};
constexpr absent_device absent_devices[]{{"sim", "a virtual clock for exploring other hardware"},
                                         {"cuda", "NVIDIA GPUs"}};

unsigned threads_of(host_device_options const& host) {
  return host.compute_threads > 0 ? host.compute_threads : std::max(1u, std::thread::hardware_concurrency());
}

std::string words_of(link_speed const& link) {
  std::string const speed = link.gbps > 0 ? fmt::format("{:.3g} GB/s", link.gbps) : "unpaced";
  return fmt::format("{}, {:g} us latency", speed, link.latency_us);
}

void print(host_device_options const& host, bool measured) {
  fmt::print("host: a GPU's shape on this machine's CPU\n");
  fmt::print("  device memory    {}\n", format_bytes(host.device_bytes));
  fmt::print("  pinned memory    {}\n", format_bytes(host.pinned_bytes));
  fmt::print("  compute threads  {}\n", threads_of(host));
  fmt::print("  matrix products  {}\n", nn::gemm_library());
  char const* const note = measured ? " (balanced with this machine's compute)" : "";
  fmt::print("  device to host   {}{}\n", words_of(host.device_to_host), note);
  fmt::print("  host to device   {}{}\n", words_of(host.host_to_device), note);
  for (absent_device const& absent : absent_devices) {
    fmt::print("{}: not in this build ({})\n", absent.name, absent.purpose);
  }
}

nlohmann::ordered_json json_of(link_speed const& link) {
  return {{"gbps", link.gbps}, {"latency_us", link.latency_us}};
}

nlohmann::ordered_json json_of(host_device_options const& host) {
  nlohmann::ordered_json here{{"name", "host"},
                              {"available", true},
                              {"device_bytes", host.device_bytes},
                              {"pinned_bytes", host.pinned_bytes},
                              {"compute_threads", threads_of(host)},
                              {"matrix_products", nn::gemm_library()},
                              {"device_to_host", json_of(host.device_to_host)},
                              {"host_to_device", json_of(host.host_to_device)}};
  auto all = nlohmann::ordered_json::array({std::move(here)});
  for (absent_device const& absent : absent_devices) all.push_back({{"name", absent.name}, {"available", false}});
  return {{"devices", std::move(all)}};
}

exit_code run(std::string const& json_file) {
  config const settings = config::from_env();
  host_device_options const host = host_options(settings);
  if (!json_file.empty()) write_json(json_file, json_of(host));
  print(host, settings.link_gbps.automatic);
  return success;
}

}  // namespace

runner add_devices(CLI::App& program) {
  auto const json_file = std::make_shared<std::string>();
  CLI::App* const command = program.add_subcommand("devices", "Devices of this machine and this build");
  command->add_option("--json", *json_file, "Write the devices to this file too, as JSON")->type_name("FILE");
  return [json_file] { return run(*json_file); };
}

}  // namespace ferry::command
