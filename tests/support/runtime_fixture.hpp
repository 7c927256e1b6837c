// A session on the sim device whose items take 1600 us over the link: every time is known to the nanosecond, so each
// decision can be put on either side of the rule. Memory is real here: what a consumer reads says how it came back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "ferry/plan.hpp"

namespace ferry::testing {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr std::size_t chunks = 16;
constexpr std::size_t chunk_bytes = 64 << 10;
constexpr std::size_t item_bytes = chunks * chunk_bytes;
constexpr auto chunk_time = 100us;
constexpr auto item_time = chunks * chunk_time;
constexpr auto tolerance = 50us;
constexpr nanoseconds never = sim_slow_down::never;

constexpr auto made = std::byte{0x11};
constexpr auto rebuilt = std::byte{0x22};

inline item_key key(std::uint32_t segment, label const& name = "h") { return {0, segment, name}; }

/// A session whose items take 1600 us over the link in 16 chunks, without latency.
class Runtime : public ::testing::Test {
 protected:
  void start(std::size_t budget_items, config settings = {}) {
    sim_device_options options;
    options.device_bytes = options.pinned_bytes = std::size_t{64} << 20;
    options.backed = true;
    double const gbps = static_cast<double>(chunk_bytes) / static_cast<double>(nanoseconds(chunk_time).count());
    options.device_to_host = options.host_to_device = {.gbps = gbps, .latency_us = 0};
    options.kernel_cost = [this](label const&, auto) { return cost_; };
    options.observe = [this](sim_operation const& over) {
      if (over.where == sim_engine::compute) began_[over.name.str()] = over.start;
    };
    device_ = make_sim_device(std::move(options));
    compute_.emplace(*device_, stream_kind::compute, "compute");
    settings.policy.kind = policy_kind::offload;
    settings.budget = byte_amount::exactly(budget_items * item_bytes);
    settings.host_budget = byte_amount::exactly(32 * item_bytes);
    settings.chunk_bytes = chunk_bytes;
    settings.stall_tolerance_us = std::chrono::duration<double, std::micro>(tolerance).count();
    settings.log = log_level::off;
    session_.emplace(*device_, settings);
  }
  void TearDown() override {
    session_.reset();
    compute_.reset();
  }

  void launch(
      label const& name, nanoseconds cost, unique_function<void()> what = [] {}) {
    cost_ = cost;
    device_->launch(*compute_, name, {}, std::move(what));
  }

  void save(item_key const& which, nanoseconds cost = 0us, recipe how = {}) {
    auto memory = session_->allocate(item_bytes, *compute_);
    launch("make", cost, [at = memory.as<std::byte>()] { std::fill_n(at, item_bytes, made); });
    session_->save(which, std::move(memory), *compute_, std::move(how)).end();
  }

  /// Takes its share of `cost` for the rows that it is asked for, and marks them.
  recipe rebuilding(nanoseconds cost, item_list inputs = {}, std::size_t rows = 1) {
    return {.enqueue =
                [this, cost, rows](recipe_context const& to) {
                  asked_.emplace_back(to.first_row, to.rows);
                  auto* const from = to.output_as<std::byte>() + to.first_row * (to.bytes / rows);
                  std::size_t const bytes = to.rows * (to.bytes / rows);
                  launch("rebuild", cost * to.rows / rows, [=] { std::fill_n(from, bytes, rebuilt); });
                },
            .inputs = inputs,
            .rows = rows};
  }

  /// A kernel that reads the item, and notes for each chunk of it where it came from.
  void read(lease const& held, std::string const& name, nanoseconds cost) {
    launch(label(name), cost, [this, name, at = held.as<std::byte>()] {
      std::string& seen = seen_[name];
      seen.clear();
      for (std::size_t c = 0; c < chunks; ++c) {
        auto const* const from = at + c * chunk_bytes;
        bool const whole = std::all_of(from, from + chunk_bytes, [=](std::byte b) { return b == *from; });
        seen += !whole ? '?' : *from == made ? 'm' : *from == rebuilt ? 'r' : '?';
      }
    });
  }
  /// Restores, reads and releases.
  void use(item_key const& which, std::string const& name, nanoseconds cost = 10us) {
    auto const held = session_->restore(which, *compute_);
    read(held, name, cost);
    session_->release(which);
  }

  void let_pass(nanoseconds span) {
    auto const until = device_->now() + span;
    while (device_->now() < until) device_->pass_time(until - device_->now());
  }
  void begin(placement_function choose = nullptr) {
    if (choose) session_->set_placement(std::move(choose));
    session_->begin_step();
  }
  void end() {
    compute_->synchronize();
    session_->synchronize();
    session_->end_step();
    ++steps_;
  }
  /// Everything is where it is to be, and the device idle.
  void settle() {
    compute_->synchronize();
    session_->synchronize();
  }
  void stall(sim_engine what, nanoseconds from, nanoseconds until = never) {
    device_->slow_down({.what = what, .from = from, .until = until});
  }

  [[nodiscard]] std::uint64_t count(reason why) const { return session_->stats().count(why); }
  [[nodiscard]] nanoseconds began(std::string const& kernel) const { return began_.at(kernel); }

  std::vector<std::pair<std::size_t, std::size_t>> asked_;  // of recipes: the first row, and how many
  std::map<std::string, std::string> seen_;                 // by kernel: "mm...rr"
  std::map<std::string, nanoseconds> began_;
  nanoseconds cost_{0};
  int steps_ = 0;
  std::unique_ptr<sim_device> device_;
  std::optional<stream> compute_;
  std::optional<session> session_;
};

inline std::string all(char how) { return std::string(chunks, how); }

}  // namespace ferry::testing
