// Profiles, hardware and plans for tests: one of each by hand, and any valid one by rapidcheck.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "ferry/plan.hpp"
#include "plan/formats.hpp"

namespace ferry::testing {

inline profile parse_profile(std::string const& text) {
  std::istringstream in(text);
  return planning::parse_profile(in);
}
inline hardware parse_hardware(std::string const& text) {
  std::istringstream in(text);
  return planning::parse_hardware(in);
}
inline plan parse_plan(std::string const& text) {
  std::istringstream in(text);
  return planning::parse_plan(in);
}

/// Three blocks, the last two alike, and a head.
inline profile small_profile() {
  profile step{.name = "small", .segments = {}, .need_order = {}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    profile_item x{.name = "x", .bytes = 4096, .recipe_us = 1.5, .inputs = {}, .recipe_flops = 0};
    if (i > 0) x.inputs = {{i - 1, "h"}, {i - 1, "x"}};
    step.segments.push_back({.forward_us = 10.25,
                             .backward_us = 20,
                             .forward_scratch_bytes = 512,
                             .backward_scratch_bytes = 1024,
                             .items = {x,
                                       {"h", 16384, 7.125, {{i, "x"}}, 1e9},
                                       {.name = "dropout", .bytes = 100, .recipe_us = {}, .inputs = {}}}});
  }
  step.segments.push_back({.forward_us = 1, .backward_us = 2, .items = {}});
  for (std::uint32_t i = 3; i-- > 0;) {
    for (auto const* name : {"dropout", "h", "x"}) step.need_order.push_back({i, name});
  }
  return step;
}

inline hardware small_hardware() {
  return {.name = "box",
          .device_bytes = 1 << 20,
          .host_bytes = 1 << 22,
          .device_to_host = {1.5, 10},
          .host_to_device = {1.25, 12},
          .tflops = 3,
          .memory_gbps = 100};
}

/// Of `small_profile`: placements of all its items and a few operations.
inline plan small_plan() {
  using kind = plan_operation::kind;
  plan planned;
  planned.profile_name = "small";
  planned.hardware_name = "box";
  planned.budget_bytes = 50'000;
  planned.insured = true;
  for (std::uint32_t i = 0; i < 3; ++i) {
    planned.items.push_back({{i, "x"}, 4096, placement::keep, 12.5, "kept: needed soon"});
    planned.items.push_back({{i, "h"}, 16384, i == 0 ? placement::offload : placement::recompute, 250, ""});
    planned.items.push_back({{i, "dropout"}, 100, placement::keep, std::nullopt, "kept: has no recipe"});
  }
  planned.operations = {
      {.what = kind::forward, .segment = 0, .item = "", .position = 0, .after = {}, .start_us = 0, .end_us = 10.25},
      {.what = kind::offload, .segment = 0, .item = "h", .position = 1, .after = {}, .start_us = 10.25, .end_us = 30},
      {.what = kind::forward, .segment = 3, .item = "", .position = 1, .after = {1}, .start_us = 30, .end_us = 31},
      {.what = kind::fetch, .segment = 0, .item = "h", .position = 2, .after = {1}, .start_us = 31, .end_us = 40},
      {.what = kind::rebuild, .segment = 1, .item = "h", .position = 2, .after = {}, .start_us = 31, .end_us = 38.125},
      {.what = kind::drop, .segment = 1, .item = "h", .position = 3, .after = {}, .start_us = 39, .end_us = 39},
      {.what = kind::backward,
       .segment = 0,
       .item = "",
       .position = 3,
       .after = {3, 1},
       .start_us = 40,
       .end_us = 60,
       .latest_start_us = 40}};
  planned.step_us = 60;
  planned.unlimited_us = 50;
  planned.lower_bound_us = 50;
  planned.waiting_us = 2;
  planned.recompute_us = 7.125;
  planned.device = {50'000, 49'000, 30'000.5};
  planned.host = {1 << 22, 16'384, 5'000};
  planned.offloaded_bytes = 16'384;
  planned.fetched_bytes = 16'384;
  planned.recomputed = {{"h", 1, 7.125, 1e9}};
  return planned;
}

inline double any_us() { return static_cast<double>(*rc::gen::inRange<std::uint64_t>(0, 1'000'000'000)) / 997.0; }
/// Of a speed: what is left of it.
inline double any_share() { return static_cast<double>(*rc::gen::inRange<std::uint64_t>(10, 1001)) / 1000.0; }
inline contention any_contention() {
  return {.out_beside_back = any_share(),
          .back_beside_out = any_share(),
          .compute_beside_out = any_share(),
          .compute_beside_back = any_share(),
          .compute_beside_both = any_share()};
}
inline std::size_t any_bytes() { return *rc::gen::inRange<std::size_t>(0, std::size_t{1} << 40); }

/// Also with quotes, backslashes, control characters and characters of several bytes.
inline std::string any_name() {
  auto const pieces = *rc::gen::container<std::vector<std::string>>(
      rc::gen::element<std::string>("a", "x", "ln1", "\"", "\\", "\n", "ä", "€", "/", " ", "\x01"));
  std::string name;
  for (auto const& piece : pieces) {
    if (name.size() + piece.size() < 24) name += piece;
  }
  return name;
}

/// Names are made unique by a number; inputs are items that stand before, so nothing is cyclic.
inline profile any_profile() {
  profile step{.name = any_name(), .segments = {}, .need_order = {}};
  std::vector<item_name> all;
  auto const segments = *rc::gen::inRange<std::uint32_t>(1, 12);
  for (std::uint32_t s = 0; s < segments; ++s) {
    bool const as_before = s > 0 && *rc::gen::inRange(0, 3) > 0;
    if (as_before) {
      step.segments.push_back(step.segments.back());
      for (auto& item : step.segments.back().items) {
        for (auto& input : item.inputs) ++input.segment;  // it names one that is alike
        all.push_back({s, item.name});
      }
      continue;
    }
    step.segments.push_back({any_us(), any_us(), *rc::gen::element<std::size_t>(0, any_bytes()), any_bytes(), {}});
    auto const items = *rc::gen::inRange(0, 6);
    for (int i = 0; i < items; ++i) {
      profile_item item{.name = any_name() + std::to_string(i), .bytes = any_bytes(), .recipe_us = {}, .inputs = {}};
      if (*rc::gen::arbitrary<bool>()) {
        item.recipe_us = any_us();
        item.recipe_flops = static_cast<double>(any_bytes());
        auto const inputs = all.empty() ? 0 : *rc::gen::inRange(0, 4);
        for (int k = 0; k < inputs; ++k) item.inputs.push_back(*rc::gen::elementOf(all));
      }
      all.push_back({s, item.name});
      step.segments.back().items.push_back(item);
    }
  }
  // A repeated segment's inputs may have led past a segment that is not alike.
  for (std::uint32_t s = 0; s < segments; ++s) {
    for (auto& item : step.segments[s].items) {
      std::erase_if(item.inputs, [&](item_name const& input) {
        auto const& there = step.segments[input.segment].items;
        auto const found = std::ranges::find(there, input.name, &profile_item::name);
        if (found == there.end()) return true;
        return input.segment == s && &*found >= &item;  // standing before, so never a cycle
      });
    }
  }
  if (*rc::gen::arbitrary<bool>()) step.beside = any_contention();
  std::ranges::reverse(all);
  for (auto const& item : all) {
    if (*rc::gen::inRange(0, 5) > 0) step.need_order.push_back(item);
  }
  return step;
}

inline plan any_plan() {
  using kind = plan_operation::kind;
  plan planned;
  planned.profile_name = any_name();
  planned.hardware_name = any_name();
  planned.budget_bytes = any_bytes();
  planned.insured = *rc::gen::arbitrary<bool>();
  auto const items = *rc::gen::inRange<std::uint32_t>(1, 10);
  for (std::uint32_t i = 0; i < items; ++i) {
    planned.items.push_back({{i / 3, any_name() + std::to_string(i)},
                             any_bytes(),
                             *rc::gen::element(placement::keep, placement::offload, placement::recompute),
                             *rc::gen::element(std::optional<double>(), std::optional(any_us())),
                             any_name()});
  }
  auto const operations = *rc::gen::inRange<std::uint32_t>(0, 20);
  std::vector<std::uint32_t> transfers;
  std::uint32_t computed = 0;
  for (std::uint32_t i = 0; i < operations; ++i) {
    auto const& about = planned.items[*rc::gen::inRange<std::size_t>(0, items)].item;
    plan_operation one;
    one.what = static_cast<kind>(*rc::gen::inRange(0, 6));
    one.segment = about.segment;
    one.position = computed;
    if (one.what <= kind::rebuild) ++computed;
    if (one.what != kind::forward && one.what != kind::backward) one.item = about.name;
    if (!transfers.empty()) one.after.resize(*rc::gen::inRange<std::size_t>(0, 3));
    for (auto& wait : one.after) wait = *rc::gen::elementOf(transfers);
    one.start_us = any_us();
    one.end_us = one.start_us + any_us();
    one.latest_start_us = any_us();
    if (one.what == kind::offload || one.what == kind::fetch) transfers.push_back(i);
    planned.operations.push_back(one);
  }
  for (double* us : {&planned.step_us, &planned.unlimited_us, &planned.lower_bound_us, &planned.waiting_us,
                     &planned.slowed_us, &planned.recompute_us, &planned.device.average, &planned.host.average}) {
    *us = any_us();
  }
  planned.device.limit = any_bytes();
  planned.device.peak = any_bytes();
  planned.host.limit = any_bytes();
  planned.offloaded_bytes = any_bytes();
  planned.fetched_bytes = any_bytes();
  if (*rc::gen::arbitrary<bool>()) planned.recomputed.push_back({any_name() + "o", any_bytes(), any_us(), any_us()});
  return planned;
}

}  // namespace ferry::testing
