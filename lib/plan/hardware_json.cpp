// Hardware as a file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plan/contention_json.hpp"
#include "plan/formats.hpp"
#include "plan/json_reader.hpp"
#include "plan/json_writer.hpp"
#include "plan/limits.hpp"

namespace ferry::planning {

namespace {

link_speed link_of(fields const& from) {
  return {.gbps = from.number("gbps"), .latency_us = from.number("latency_us")};
}

std::string link_text(link_speed const& link) {
  return fmt::format(R"({{"gbps": {}, "latency_us": {}}})", link.gbps, link.latency_us);
}

void check_bytes(std::size_t value, std::string_view place) {
  if (value > limits::bytes)
    throw bad_field(std::string(place), fmt::format("is {}", value), "give bytes from 0 to 2^50");
}

void check_number(double value, double most, std::string const& place) {
  if (limits::within(value, most)) return;
  throw bad_field(place, fmt::format("is {}", value), fmt::format("give a number from 0 to {:g}", most));
}

void check_link(link_speed const& link, std::string const& place) {
  check_number(link.gbps, limits::gbps, place + ".gbps");
  check_number(link.latency_us, limits::us, place + ".latency_us");
}

}  // namespace

void check_hardware(hardware const& on) {
  check_text(on.name, "name");
  check_bytes(on.device_bytes, "device_bytes");
  check_bytes(on.host_bytes, "host_bytes");
  check_link(on.device_to_host, "device_to_host");
  check_link(on.host_to_device, "host_to_device");
  check_contention(on.beside, "contention");
  check_number(on.tflops, limits::tflops, "tflops");
  check_number(on.memory_gbps, limits::gbps, "memory_gbps");
}

hardware parse_hardware(std::istream& in) {
  file_format const format{.kind = "hardware",
                           .version = hardware::version,
                           .objects = {{"",
                                        {"ferry_hardware", "name", "device_bytes", "host_bytes", "device_to_host",
                                         "host_to_device", "contention", "tflops", "memory_gbps"}},
                                       {"device_to_host", {"gbps", "latency_us"}},
                                       {"host_to_device", {"gbps", "latency_us"}},
                                       {"contention", contention_keys()}},
                           .rows = {}};
  nlohmann::json const document = read_rows(in, format);
  fields const from(document);
  hardware on{.name = from.text("name"),
              .device_bytes = from.whole("device_bytes"),
              .host_bytes = from.whole("host_bytes"),
              .device_to_host = link_of(from.object("device_to_host")),
              .host_to_device = link_of(from.object("host_to_device")),
              .beside = from.has("contention") ? contention_of(from.object("contention")) : contention{},
              .tflops = from.number("tflops", 0),
              .memory_gbps = from.number("memory_gbps", 0)};
  check_hardware(on);
  return on;
}

}  // namespace ferry::planning

namespace ferry {

hardware read_hardware(std::filesystem::path const& file) {
  hardware on;
  planning::with_file(file, [&](std::istream& in) { on = planning::parse_hardware(in); });
  return on;
}

std::string to_json(hardware const& on) {
  planning::check_hardware(on);
  return fmt::format(R"({{
  "ferry_hardware": {},
  "name": {},
  "device_bytes": {},
  "host_bytes": {},
  "device_to_host": {},
  "host_to_device": {},
  "contention": {},
  "tflops": {},
  "memory_gbps": {}
}}
)",
                     hardware::version, planning::json_text(on.name), on.device_bytes, on.host_bytes,
                     planning::link_text(on.device_to_host), planning::link_text(on.host_to_device),
                     planning::json_of(on.beside), on.tflops, on.memory_gbps);
}

}  // namespace ferry
