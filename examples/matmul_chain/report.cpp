#include "report.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace matmul_chain {

namespace {

/// One policy's figures, averaged over its timed steps where they add up.
struct figures {
  double step_ms = 0;
  double relative = 0;
  double waiting_ms = 0;
  double moved_bytes = 0;
  double recomputed = 0;
};

std::uint64_t moved_bytes(ferry::session_stats const& stats) {
  return stats.device_to_host.bytes + stats.host_to_device.bytes;
}

figures figures_of(outcome const& of, outcome const& reference) {
  auto const steps = static_cast<double>(of.step_us.size());
  return {.step_ms = median(of.step_us) / 1000,
          .relative = relative_time(of, reference),
          .waiting_ms = (of.after.exposed_us - of.before.exposed_us) / 1000 / steps,
          .moved_bytes = static_cast<double>(moved_bytes(of.after) - moved_bytes(of.before)) / steps,
          .recomputed = static_cast<double>(of.after.recomputes - of.before.recomputes) / steps};
}

std::string gbps_text(double gbps) { return gbps > 0 ? fmt::format("{:.3g} GB/s", gbps) : "unpaced"; }

/// Forward times of one segment that one item takes to move; 0 if unpaced.
double item_ratio(options const& chosen, ferry::link_speed speed, double forward_us) {
  if (!(speed.gbps > 0)) return 0;
  double const item_us = static_cast<double>(chosen.shape.item_bytes()) / (speed.gbps * 1000);
  return (item_us + speed.latency_us) / forward_us;
}

void print_row(outcome const& of, outcome const& reference) {
  if (!of.fits()) {
    fmt::print("{:<10} {}\n", of.policy, of.failure);
    return;
  }
  auto const f = figures_of(of, reference);
  fmt::print("{:<10} {:>11} {:>10} {:>7.2f}x {:>8.1f} ms {:>10} {:>11.1f}   {}\n", of.policy,
             ferry::format_bytes(of.after.device.peak_bytes), ferry::format_bytes(of.after.pinned.peak_bytes),
             f.relative, f.waiting_ms, ferry::format_bytes(static_cast<std::size_t>(f.moved_bytes)), f.recomputed,
             of.identical ? "yes" : "NO");
}

nlohmann::ordered_json json_of(outcome const& of, outcome const& reference) {
  nlohmann::ordered_json row{{"policy", of.policy}, {"fits", of.fits()}};
  if (!of.fits()) {
    row["failure"] = of.failure;
    return row;
  }
  auto const f = figures_of(of, reference);
  row["peak_device_bytes"] = of.after.device.peak_bytes;
  row["peak_host_bytes"] = of.after.pinned.peak_bytes;
  row["relative_time"] = f.relative;
  row["step_ms"] = f.step_ms;
  row["waiting_ms_per_step"] = f.waiting_ms;
  row["moved_bytes_per_step"] = f.moved_bytes;
  row["recomputed_per_step"] = f.recomputed;
  row["gradients_identical"] = of.identical;
  row["step_us"] = of.step_us;
  row["session"] = nlohmann::ordered_json::parse(ferry::to_json(of.after));
  return row;
}

std::runtime_error cannot_write(std::string const& file) {
  return std::runtime_error(fmt::format("cannot write '{}': check that its folder exists and is writable", file));
}

}  // namespace

void print_setting(options const& chosen, link_choice const& link) {
  auto const& shape = chosen.shape;
  fmt::print("{} layers X[i+1] = relu(X[i] W[i]), X {} x {} fp32: {} an item, {} if everything is kept\n", shape.layers,
             shape.layer.rows, shape.layer.width, ferry::format_bytes(shape.item_bytes()),
             ferry::format_bytes(shape.keep_all_bytes()));
  fmt::print("budget {} ({:.0f}% of that)\n", ferry::format_bytes(chosen.budget_bytes),
             100.0 * static_cast<double>(chosen.budget_bytes) / static_cast<double>(shape.keep_all_bytes()));
  fmt::print("link {} out, {} back: one item takes {:.1f}x and {:.1f}x the forward of one segment ({:.2f} ms){}\n\n",
             gbps_text(link.device_to_host.gbps), gbps_text(link.host_to_device.gbps),
             item_ratio(chosen, link.device_to_host, link.forward_us),
             item_ratio(chosen, link.host_to_device, link.forward_us), link.forward_us / 1000,
             link.balanced ? ",\n  as a 7B-class block does on an A100 with PCIe 4" : "");
}

void print_table(options const& chosen, link_choice const& link, std::vector<outcome> const& outcomes) {
  auto const& reference = outcomes.front();
  fmt::print("{:<10} {:>11} {:>10} {:>8} {:>11} {:>10} {:>11}   {}\n", "policy", "peak device", "peak host", "time",
             "waiting", "moved", "recomputed", "gradients identical");
  for (auto const& of : outcomes) print_row(of, reference);
  fmt::print(
      "\nTime: a step's over the reference's ({:.0f} ms) in the same round, median of {} rounds. Waiting: streams for\n"
      "transfers, and the host for device bytes. Waiting, moved (both ways) and recomputed are per step.\n",
      median(reference.step_us) / 1000, reference.step_us.size());
  double const gbps = link.host_to_device.gbps > 0 ? link.host_to_device.gbps : 1;
  fmt::print("Try next: FERRY_BUDGET={} for less room, or FERRY_LINK_GBPS={:.2g} for a link twice as fast.\n",
             chosen.budget_bytes < chosen.shape.keep_all_bytes() * 3 / 10 ? "50%" : "30%", 2 * gbps);
}

void require_writable(std::string const& file) {
  if (!std::ofstream(file, std::ios::app)) throw cannot_write(file);
}

void write_json(options const& chosen, link_choice const& link, std::vector<outcome> const& outcomes) {
  auto const& shape = chosen.shape;
  nlohmann::ordered_json all{{"layers", shape.layers},
                             {"rows", shape.layer.rows},
                             {"width", shape.layer.width},
                             {"item_bytes", shape.item_bytes()},
                             {"keep_all_bytes", shape.keep_all_bytes()},
                             {"budget_bytes", chosen.budget_bytes},
                             {"host_budget_bytes", chosen.host_budget_bytes},
                             {"link_gbps", {link.device_to_host.gbps, link.host_to_device.gbps}},
                             {"forward_us", link.forward_us},
                             {"policies", nlohmann::ordered_json::array()}};
  for (auto const& of : outcomes) all["policies"].push_back(json_of(of, outcomes.front()));
  std::ofstream out(chosen.json_file);
  out << all.dump(2) << '\n';
  out.close();
  if (!out) throw cannot_write(chosen.json_file);
}

}  // namespace matmul_chain
