// A session on the sim device and a chain of segments: each writes one item in forward and reads it in backward. Steps
// take times that can be computed by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "ferry/plan.hpp"

namespace ferry::testing {

class SimChain : public ::testing::Test {
 protected:
  static constexpr std::size_t item_bytes = std::size_t{1} << 20;
  static constexpr std::uint32_t segments = 10;
  static constexpr std::chrono::microseconds forward{100};
  static constexpr std::chrono::microseconds backward{200};
  static constexpr std::chrono::microseconds rebuild{30};

  /// A link that copies an item in `copy`, and a budget in items. Call once, first.
  void start(std::chrono::nanoseconds copy, std::size_t budget_items, config settings = {},
             sim_device_options options = {}) {
    double const gbps = static_cast<double>(item_bytes) / static_cast<double>(copy.count());
    options.device_bytes = options.pinned_bytes = std::size_t{80} << 30;
    options.device_to_host = options.host_to_device = {.gbps = gbps, .latency_us = 10};
    options.kernel_cost = [](label const& name, auto) -> std::chrono::nanoseconds {
      return name == "forward" ? forward : name == "backward" ? backward : rebuild;
    };
    options.observe = [this](sim_operation const& over) { observed_.push_back(over); };
    device_ = make_sim_device(std::move(options));
    compute_.emplace(*device_, stream_kind::compute, "compute");
    settings.budget = byte_amount::exactly(budget_items * item_bytes);
    settings.host_budget = byte_amount::exactly(64 * item_bytes);
    settings.chunk_bytes = std::min(settings.chunk_bytes, item_bytes / 4);
    settings.log = log_level::off;
    session_.emplace(*device_, settings);
  }
  static config with_policy(policy_kind kind, config settings = {}) {
    settings.policy.kind = kind;
    return settings;
  }
  void TearDown() override {
    session_.reset();
    compute_.reset();
  }

  static item_key key(std::uint32_t segment) { return {0, segment, "h"}; }

  recipe rebuilding(std::uint32_t segment) {
    if (segment == 0) return {};
    return {.enqueue = [this](recipe_context const& to) { device_->launch(to.stream, "rebuild", {}, [] {}); },
            .inputs = {key(segment - 1)}};
  }

  void go_forward(bool recipes = true, std::size_t bytes = item_bytes) {
    for (std::uint32_t s = 0; s < segments; ++s) {
      auto memory = session_->allocate(bytes, *compute_);
      device_->launch(*compute_, "forward", {}, [] {});
      session_->save(key(s), std::move(memory), *compute_, recipes ? rebuilding(s) : recipe{});
    }
  }
  /// One step; returns how long it took.
  std::chrono::nanoseconds step(bool recipes = true, std::size_t bytes = item_bytes) {
    auto const began = device_->now();
    session_->begin_step();
    go_forward(recipes, bytes);
    for (std::uint32_t s = segments; s-- > 0;) {
      auto back = session_->restore(key(s), *compute_);
      device_->launch(*compute_, "backward", {}, [] {});
      back.end();
      session_->release(key(s));
    }
    compute_->synchronize();
    auto const took = device_->now() - began;
    session_->end_step();
    return took;
  }

  std::vector<sim_operation> observed_;
  std::unique_ptr<sim_device> device_;
  std::optional<stream> compute_;
  std::optional<session> session_;
};

}  // namespace ferry::testing
