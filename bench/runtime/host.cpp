#include "runtime/host.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ferry/host_device.hpp"
#include "ferry/nn/gpt.hpp"
#include "ferry/nn/items.hpp"
#include "ferry/nn/ops.hpp"
#include "ferry/plan.hpp"
#include "ferry/session.hpp"
#include "runtime/faults.hpp"
#include "runtime/judge.hpp"

namespace ferry::bench {

namespace {

constexpr nn::gpt_shape shape{.layers = 8, .width = 128, .heads = 4, .context = 128, .vocabulary = 1024, .tied = false};
constexpr int batch = 8;
constexpr unsigned threads = 1;         // the other core copies
constexpr double budget_share = 0.4;    // of what all blocks save
constexpr std::uint32_t measured = 14;  // steps with the fault

std::size_t saved_bytes() {
  std::size_t floats = 0;
  for (auto const& one : nn::describe_items(shape, batch)) floats += one.floats;
  return floats * shape.layers * sizeof(float);
}

/// A model, a session and a device of their own, so that no run sees what another left behind.
class host_run {
 public:
  host_run(variant const& how, double link_gbps, plan const* given)
      : device_(make_host_device({.device_bytes = 2 * saved_bytes() + 2 * nn::gpt::bytes_beside_budget(shape, batch),
                                  .pinned_bytes = 2 * saved_bytes(),
                                  .device_to_host = {link_gbps, 0},
                                  .host_to_device = {link_gbps, 0},
                                  .compute_threads = threads})),
        compute_(*device_, stream_kind::compute, "compute"),
        ops_(nn::make_host_ops(*device_)),
        model_(*device_, compute_, *ops_, shape, batch),
        session_(*device_, settings(how)) {
    std::vector<float> initial(model_.layout().floats());
    model_.layout().initialize(initial, 1);
    nn::staging(*device_, compute_).upload(model_.parameters().data(), initial.data(), initial.size() * sizeof(float));
    for (std::size_t i = 0; i < std::size_t{batch} * shape.context; ++i) {
      tokens_.push_back(static_cast<std::int32_t>(i * 7919 % shape.vocabulary));
    }
    if (given != nullptr) session_.follow(*given);
  }

  void set_link(double gbps) {
    device_->set_link(copy_direction::device_to_host, {gbps, 0});
    device_->set_link(copy_direction::host_to_device, {gbps, 0});
  }

  double step_us() {
    auto const began = std::chrono::steady_clock::now();
    session_.begin_step();
    model_.pass(session_, tokens_, tokens_, 0, 1);
    session_.end_step();
    compute_.synchronize();
    auto const took = std::chrono::steady_clock::now() - began;
    session_.synchronize();
    return std::chrono::duration<double, std::micro>(took).count();
  }

  void settle() {
    for (std::uint32_t k = 0; k < settling_steps; ++k) (void)step_us();
  }

  [[nodiscard]] std::optional<plan> followed() const {
    auto const* const in_force = session_.followed();
    return in_force != nullptr ? std::optional(*in_force) : std::nullopt;
  }

 private:
  static config settings(variant const& how) {
    config chosen;
    chosen.budget = byte_amount::exactly(static_cast<std::size_t>(budget_share * static_cast<double>(saved_bytes())));
    chosen.host_budget = byte_amount::exactly(saved_bytes());
    apply(chosen, how);
    return chosen;
  }

  std::unique_ptr<host_device> device_;
  stream compute_;
  std::unique_ptr<nn::ops> ops_;
  nn::gpt model_;
  session session_;
  std::vector<std::int32_t> tokens_;
};

struct contestant {
  std::string_view name;
  std::unique_ptr<host_run> run;
  std::vector<double> faulty_us{};
};

/// Settled, each with the link that it knows. The first stands for hindsight: its link has always been the true one.
std::vector<contestant> settled(fault const& what, double link_gbps) {
  std::vector<contestant> all;
  all.push_back({"knowing", std::make_unique<host_run>(all_variants()[0], link_gbps * what.speed, nullptr)});
  all.back().run->settle();
  std::optional<plan> planned;
  for (auto const& how : all_variants()) {
    if (!how.plans_itself && !planned) continue;
    all.push_back({how.name, std::make_unique<host_run>(how, link_gbps, how.plans_itself ? nullptr : &*planned)});
    all.back().run->settle();
    if (!planned) planned = all.back().run->followed();
  }
  return all;
}

void judge(fault const& what, double link_gbps) {
  auto all = settled(what, link_gbps);
  for (auto& one : all) one.run->set_link(link_gbps * what.speed);
  // In turns, so that whatever else the machine does befalls all alike.
  for (std::uint32_t k = 0; k < measured; ++k) {
    for (auto& one : all) one.faulty_us.push_back(one.run->step_us());
  }
  auto const& knowing = all.front().faulty_us;
  for (auto const& [name, run, steps] : all) {
    std::vector<double> ratios;  // of steps that were neighbours in time
    for (std::uint32_t k = 2; k < measured; ++k) ratios.push_back(steps[k] / knowing[k]);
    fmt::print("({}) {:<14} {:<10} {:>10.1f} {:>10.1f} {:>10.1f} {:>12.3f}\n", what.letter, what.what, name,
               1e-3 * steps[0], 1e-3 * steps[2], 1e-3 * median({steps.begin() + 2, steps.end()}), median(ratios));
  }
  std::fflush(stdout);
}

}  // namespace

void judge_on_host() {
  double const link_gbps = balanced_link_gbps(threads);
  fmt::print("host device, {:.2f} GB/s each way, compute threads: {}; milliseconds\n", link_gbps, threads);
  fmt::print("{:<18} {:<10} {:>10} {:>10} {:>10} {:>12}\n", "fault", "variant", "first", "third", "steady",
             "over knowing");
  for (auto const& what : all_faults()) {
    if (!what.stalls) judge(what, link_gbps);  // the host device's link cannot stand still
  }
}

}  // namespace ferry::bench
