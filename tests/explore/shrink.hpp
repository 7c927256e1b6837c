// Makes a failing program smaller for as long as it fails: what is left is what it takes.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "support/session_program.hpp"

namespace ferry::testing {

class shrinker {
 public:
  using judge = std::function<bool(program const&)>;  ///< whether it fails

  shrinker(program failing, judge fails, int most_runs)
      : best_(std::move(failing)), fails_(std::move(fails)), left_(most_runs) {}

  program shrink() {
    for (bool smaller = true; smaller && left_ > 0;) {
      smaller = drop_steps();
      smaller |= drop_operations();
      smaller |= simplify_world();
      smaller |= simplify_operations();
    }
    return best_;
  }

 private:
  bool attempt(program candidate) {
    if (left_ <= 0) return false;
    --left_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }
  template <typename Change>
  bool attempt_with(Change change) {
    program candidate = best_;
    change(candidate);
    return attempt(std::move(candidate));
  }

  bool drop_steps() {
    bool any = false;
    for (std::size_t i = best_.steps.size(); i-- > 0 && best_.steps.size() > 1;) {
      any |= attempt_with([&](program& p) { p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(i)); });
    }
    return any;
  }
  /// Large pieces first.
  bool drop_operations() {
    bool any = false;
    for (std::size_t b = 0; b < best_.bodies.size(); ++b) {
      for (std::size_t size = best_.bodies[b].size() / 2; size > 0; size /= 2) {
        for (std::size_t at = 0; at < best_.bodies[b].size();) {
          bool const gone = attempt_with([&](program& p) {
            auto& body = p.bodies[b];
            auto const first = body.begin() + static_cast<std::ptrdiff_t>(at);
            body.erase(first, first + static_cast<std::ptrdiff_t>(std::min(size, body.size() - at)));
          });
          any |= gone;
          if (!gone) at += size;
        }
      }
    }
    return any;
  }
  template <typename T>
  bool reset(T program::*member, T value) {
    return !(best_.*member == value) && attempt_with([&](program& p) { p.*member = value; });
  }
  template <typename T>
  bool reset_exploration(T exploration::*member, T value) {
    return !(best_.explored.*member == value) && attempt_with([&](program& p) { p.explored.*member = value; });
  }
  bool simplify_world() {
    bool any = reset(&program::verify, false);
    any |= reset(&program::reshuffle, false);
    any |= reset(&program::placement, std::uint32_t{0});
    any |= reset(&program::min_bytes, std::size_t{0});
    any |= reset(&program::delays_per_mille, 0U);
    any |= reset(&program::hold_over_steps, false);
    any |= reset(&program::walk_out, std::size_t{0});
    any |= reset_exploration(&exploration::stalls, 0U);
    any |= reset_exploration(&exploration::failing_calls, 0U);
    any |= reset_exploration(&exploration::lost_at, std::uint64_t{0});
    any |= reset_exploration(&exploration::engine_lags, 0U);
    any |= reset_exploration(&exploration::engine_pauses, 0U);
    any |= reset_exploration(&exploration::host_slips, 0U);
    any |= reset_exploration(&exploration::recalls_copies, true);
    any |= reset_exploration(&exploration::by_address, true);
    for (auto const rate : {&fault_rates::copies_per_mille, &fault_rates::kernels_per_mille}) {
      if (best_.faults.*rate > 0) any |= attempt_with([&](program& p) { p.faults.*rate = 0; });
    }
    return any;
  }
  bool simplify_operations() {
    bool any = false;
    for (std::size_t b = 0; b < best_.bodies.size(); ++b) {
      for (std::size_t i = 0; i < best_.bodies[b].size(); ++i) {
        for (auto const flag : {&operation::hold, &operation::adopted, &operation::recipe, &operation::from_inputs,
                                &operation::crossing, &operation::careless}) {
          if (best_.bodies[b][i].*flag) any |= attempt_with([&](program& p) { p.bodies[b][i].*flag = false; });
        }
      }
    }
    return any;
  }

  program best_;
  judge fails_;
  int left_;
};

}  // namespace ferry::testing
