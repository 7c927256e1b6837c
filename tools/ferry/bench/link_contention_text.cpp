// What copies cost, as a table, as JSON and as a hardware file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/link_contention.hpp"
#include "common/output_file.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

namespace {

std::string row(char const* what, std::string const& alone, std::string const& beside, double share) {
  return fmt::format("{:<26} {:>12} {:>12} {:>9.2f}\n", what, alone, beside, share);
}

nlohmann::ordered_json shares_json(contention const& of) {
  return {{"out_beside_back", of.out_beside_back},
          {"back_beside_out", of.back_beside_out},
          {"compute_beside_out", of.compute_beside_out},
          {"compute_beside_back", of.compute_beside_back},
          {"compute_beside_both", of.compute_beside_both}};
}

/// On one line, as hardware files have it.
std::string one_line(nlohmann::ordered_json const& object) {
  std::string text;
  for (auto const& [key, value] : object.items()) {
    text += fmt::format("{}\"{}\": {}", text.empty() ? "{" : ", ", key, value.dump());
  }
  return text + "}";
}

}  // namespace

std::string table_of(link_contention const& all) {
  auto const copies = [&](char const* what, contended_time const& timed) {
    auto const words = [&](double us) { return fmt::format("{:.2f} GB/s", all.gbps(us)); };
    return row(what, words(timed.alone_us), words(timed.beside_us), timed.share());
  };
  auto const products = [&](char const* what, contended_time const& timed) {
    auto const words = [](double us) { return fmt::format("{:.2f} ms", 1e-3 * us); };
    return row(what, words(timed.alone_us), words(timed.beside_us), timed.share());
  };
  return fmt::format("{:<26} {:>12} {:>12} {:>9}\n", "", "alone", "beside it", "left") +
         copies("out beside in", all.out) + copies("in beside out", all.back) +
         products("computation beside out", all.compute_beside_out) +
         products("computation beside in", all.compute_beside_back) +
         products("computation beside both", all.compute_beside_both) +
         fmt::format("copies of {}; computation: products of matrices of {} x {}, {} in a row\n",
                     format_bytes(all.copied_bytes), all.product_width, all.product_width, all.products) +
         fmt::format("\"contention\": {}\n", one_line(shares_json(all.shares())));
}

nlohmann::ordered_json json_of(link_contention const& all) {
  auto const copies = [&](contended_time const& timed) -> nlohmann::ordered_json {
    return {{"alone_gbps", all.gbps(timed.alone_us)}, {"beside_gbps", all.gbps(timed.beside_us)}};
  };
  auto const products = [](contended_time const& timed) -> nlohmann::ordered_json {
    return {{"alone_us", timed.alone_us}, {"beside_us", timed.beside_us}};
  };
  return {{"copied_bytes", all.copied_bytes},
          {"out_beside_back", copies(all.out)},
          {"back_beside_out", copies(all.back)},
          {"products", all.products},
          {"product_width", all.product_width},
          {"compute_beside_out", products(all.compute_beside_out)},
          {"compute_beside_back", products(all.compute_beside_back)},
          {"compute_beside_both", products(all.compute_beside_both)},
          {"out_latency_us", all.out_alone.latency_us},
          {"in_latency_us", all.back_alone.latency_us},
          {"contention", shares_json(all.shares())}};
}

std::string hardware_file_of(link_contention const& all, std::string const& device) {
  return to_json(hardware{.name = device,
                          .device_bytes = all.device_bytes,
                          .host_bytes = all.pinned_bytes,
                          .device_to_host = all.out_alone,
                          .host_to_device = all.back_alone,
                          .beside = all.shares(),
                          .tflops = all.tflops(),
                          .memory_gbps = all.memory_gbps});
}

}  // namespace ferry::command
