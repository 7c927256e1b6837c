// The tuner: tries settings beside those in force and stays with what makes steps shorter.
//
// A small bandit. Most steps run with the settings at home; now and then one runs with a neighbour's, which differs in
// one value. A neighbour that was faster in the middle of three tries becomes home; one that was clearly slower is not
// tried again; when all have had their turns, it rests. The same times give the same choices. Threads: the session's
// only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "support/recent.hpp"

namespace ferry::path {

/// What changes how long a step takes, and never what it computes.
struct tuning {
  unsigned run_ahead = 1;
  std::size_t chunk_bytes = 0;
  std::size_t in_flight_bytes = 0;
  friend bool operator==(tuning const&, tuning const&) noexcept = default;
};

/// Values that may be tried: those that the user has left at their defaults.
struct tunable {
  bool run_ahead = true;
  bool chunk_bytes = true;
  bool in_flight_bytes = true;
};

class tuner {
 public:
  tuner(tuning home, tunable which, std::uint64_t seed = 1) : which_(which), random_(seed) { settle(home); }

  [[nodiscard]] tuning const& in_force() const noexcept { return trying_ < arms_.size() ? arms_[trying_].how : home_; }
  [[nodiscard]] tuning const& home() const noexcept { return home_; }
  /// A step with the settings in force took so long: chooses those for the next.
  void step_took(double us);
  /// Steps are not what they were: what is known of their times is void.
  void start_over();
  /// The budget has changed, and with it the most that may be in flight.
  void set_in_flight_bytes(std::size_t bytes);

 private:
  struct arm {
    tuning how;
    support::recent_values us;
    std::uint32_t tries = 0;
    bool given_up = false;
  };
  static constexpr std::size_t none = ~std::size_t{0};

  void settle(tuning home);
  void judge(arm& tried);
  [[nodiscard]] std::size_t next_to_try();

  tunable which_;
  std::mt19937_64 random_;
  tuning home_;
  support::recent_values home_us_;
  std::uint32_t home_steps_ = 0;  // since the last try
  std::vector<arm> arms_;
  std::size_t trying_ = none;
};

}  // namespace ferry::path
