#include "doctor/exchange.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace ferry::command {

namespace {

constexpr double bytes_per_us = 1e3;  // at 1 GB/s
/// Published for gathers beside copies to the host: 8 to 11% slower.
constexpr double slower_beside_copies = 1.1;

constexpr std::array kinds{interconnect_kind::nvlink, interconnect_kind::pcie, interconnect_kind::ethernet};

/// What rings over NVLink move past each GPU, by the beginning of the GPU's name: assumed shares of the data sheets'
/// rates.
constexpr std::array<std::pair<std::string_view, double>, 6> nvlink_gbps{
    {{"a100", 230}, {"h100-sxm", 360}, {"h200", 360}, {"b200", 700}, {"gb200", 700}, {"v100", 120}}};

double own_nvlink(std::string_view name) noexcept {
  for (auto const& [beginning, gbps] : nvlink_gbps) {
    if (name.starts_with(beginning) && name.find("pcie") == std::string_view::npos) return gbps;
  }
  return 0;
}

std::size_t of_others(double bytes, int ranks) {
  return static_cast<std::size_t>(bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks));
}

double us_for(std::size_t bytes, double gbps) noexcept { return static_cast<double>(bytes) / (gbps * bytes_per_us); }

}  // namespace

std::string_view to_string(interconnect_kind which) noexcept {
  switch (which) {
    case interconnect_kind::nvlink:
      return "nvlink";
    case interconnect_kind::pcie:
      return "pcie";
    case interconnect_kind::ethernet:
      break;
  }
  return "ethernet";
}

std::optional<interconnect_kind> interconnect_named(std::string_view word) noexcept {
  for (auto const kind : kinds) {
    if (to_string(kind) == word) return kind;
  }
  return std::nullopt;
}

interconnect_kind usual_interconnect(hardware const& on, int ranks) noexcept {
  if (ranks > gpus_of_a_machine) return interconnect_kind::ethernet;
  return own_nvlink(on.name) > 0 ? interconnect_kind::nvlink : interconnect_kind::pcie;
}

double usual_gbps(interconnect_kind kind, hardware const& on) noexcept {
  if (kind == interconnect_kind::ethernet) return 11;  // 100 Gb/s for a machine, through which a ring passes once
  if (kind == interconnect_kind::nvlink) {
    double const own = own_nvlink(on.name);
    return own > 0 ? own : 50;  // a bridge between two cards
  }
  // Through the host's memory: out and in again.
  return 0.5 * std::min(on.device_to_host.gbps, on.host_to_device.gbps);
}

exchange exchange_of(model const& of, training const& how, int accumulate) {
  exchange made;
  if (how.zero == 0 || how.ranks < 2) return made;
  bool const trained = how.optimizer != optimizer_kind::none;
  std::size_t const weights = of_others(stored_bytes_of(of, how), how.ranks);
  std::size_t const gradients = trained ? of_others(trained_bytes_of(of, how), how.ranks) : 0;
  auto const parts = static_cast<std::size_t>(accumulate);
  if (how.zero == 3) {
    made.forward_bytes = parts * weights;
    made.backward_bytes = parts * (weights + gradients);
    made.first_bytes = parts * of_others(stored_block_bytes_of(of, how), how.ranks);
  } else {
    // Sums that are divided are due after each part; whole ones travel beside the last part's backward.
    made.backward_bytes = (how.zero == 2 ? parts : 1) * gradients;
    if (how.zero == 1) made.backward_share = 1.0 / accumulate;
    made.after_bytes = gradients;  // the weights that have changed
  }
  return made;
}

exchange_times times_of(exchange const& of, interconnect const& over, double forward_us, double backward_us,
                        bool ferrying) noexcept {
  if (of.sum() == 0 || over.gbps <= 0) return {};
  double const gbps = over.gbps / (ferrying ? slower_beside_copies : 1);
  double const forward = us_for(of.forward_bytes, gbps);
  double const backward = us_for(of.backward_bytes, gbps);
  double const after = us_for(of.after_bytes, gbps);
  double const first = us_for(of.first_bytes, gbps);
  double const exposed =
      std::max(forward - forward_us, first) + std::max(backward - of.backward_share * backward_us, first) + after;
  return {.all_us = forward + backward + after, .exposed_us = exposed};
}

hardware beside_exchange(hardware on, exchange const& of, interconnect const& over, double forward_us,
                         double backward_us) noexcept {
  if (of.sum() == 0 || !over.shares_the_link()) return on;
  double const step_us = forward_us + backward_us + times_of(of, over, forward_us, backward_us, true).exposed_us;
  double const taken_gbps = static_cast<double>(of.sum()) / (step_us * bytes_per_us);
  for (auto* const way : {&on.device_to_host, &on.host_to_device}) way->gbps = std::max(0.0, way->gbps - taken_gbps);
  return on;
}

}  // namespace ferry::command
