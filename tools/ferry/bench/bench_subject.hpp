// What `ferry bench` was asked to look at: this machine, or a step on hardware that is not there.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "bench/breakeven.hpp"
#include "bench/contest.hpp"
#include "bench/host_contest.hpp"
#include "bench/link.hpp"
#include "bench/sim_contest.hpp"
#include "common/progress.hpp"
#include "common/step_flags.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

/// As typed.
struct bench_flags {
  step_flags step;
  std::optional<std::string> device;
  std::optional<std::size_t> budgets;
  std::size_t rounds = host_contest_options{}.rounds;
  double plan_ms = sim_contest_options{}.plan_ms;
  std::optional<std::string> largest;  ///< copy of `link`
  std::string svg_file, json_file;
  std::string written_hardware_file;  ///< by `link`
};

class bench_subject {
 public:
  /// The flags are lent. Throws: `setting_error` for flags that contradict each other.
  explicit bench_subject(bench_flags const& flags);

  [[nodiscard]] bool simulated() const noexcept { return simulated_; }
  [[nodiscard]] config const& settings() const noexcept { return settings_; }
  /// "this machine"
  [[nodiscard]] std::string words() const;

  /// Copies of up to --largest, or so many bytes. Throws: `setting_error` where it is simulated.
  [[nodiscard]] link_result link(progress& shown, std::size_t unless_given) const;
  [[nodiscard]] break_even weigh_all(progress& shown) const;
  [[nodiscard]] contest policies(progress& shown) const;

 private:
  [[nodiscard]] std::size_t largest_copy(std::size_t unless_given) const;
  [[nodiscard]] step_flags step() const;
  [[nodiscard]] gpt_dimensions host_shape() const;
  [[nodiscard]] config sim_settings() const;
  [[nodiscard]] break_even by_formula() const;
  [[nodiscard]] break_even measured(progress& shown) const;

  bench_flags const& flags_;
  config settings_;
  bool simulated_ = false;
};

}  // namespace ferry::command
