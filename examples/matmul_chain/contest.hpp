// The contest: one chain, several sessions of different policies, in turns, so that whatever else the machine
// does falls on all of them alike. The first to enter is the reference, which the others' times and gradients
// are compared with.
//
// Threads: one. Every step ends with its stream synchronised, also when it ends by an exception.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chain.hpp"
#include "ferry/ferry.hpp"

namespace matmul_chain {

struct outcome {
  std::string policy;
  std::string failure;          ///< why it did not fit; empty if it did
  std::vector<double> step_us;  ///< of the timed steps
  bool identical = true;        ///< the loss and all gradients of all its steps, to the reference's
  ferry::session_stats before;  ///< when the timed steps began
  ferry::session_stats after;   ///< when they had ended

  [[nodiscard]] bool fits() const noexcept { return failure.empty(); }
};

class contest {
 public:
  using progress = std::function<void(std::string_view what)>;

  /// `report` is called before each step.
  contest(ferry::device& on, ferry::stream_ref stream, chain& model, progress report);

  /// A session that does not fit the device is an outcome like one that does not fit its budget.
  void enter(std::string policy, ferry::config settings, ferry::placement_function placement = {});

  /// Runs the reference alone, and keeps its results. Returns the forward time of one segment.
  /// Requires: the reference has entered. Throws: `ferry::error` if it fails.
  double run_reference();

  /// Runs everyone in turns. Throws: `interrupted`.
  void run(unsigned timed_steps);

  [[nodiscard]] std::vector<outcome> outcomes() const;

 private:
  struct entrant {
    outcome result;
    std::optional<ferry::session> session;  // empty once it has failed
  };

  void run_round(bool timed, std::string const& title);
  void attempt(entrant& runner, bool timed);
  /// Returns its time in microseconds.
  double step(ferry::session& session);
  [[nodiscard]] bool matches_reference();
  void keep_results();

  ferry::device& device_;
  ferry::stream_ref stream_;
  chain& chain_;
  progress report_;
  std::vector<entrant> entrants_;
  std::vector<float> reference_gradients_;  // (layers, width, width)
  double reference_loss_ = 0;
};

/// Requires: not empty.
[[nodiscard]] double median(std::vector<double> values);

/// Median over the timed steps of a policy's time over the reference's in the same round.
[[nodiscard]] double relative_time(outcome const& of, outcome const& reference);

}  // namespace matmul_chain
