// What a session tells of itself: FERRY_STATS, and the JSON of `ferry train` and `ferry simulate`, into a run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "report/item_book.hpp"
#include "report/run_data.hpp"

namespace ferry::command {

class session_reader {
 public:
  /// Both are lent.
  session_reader(run& into, item_book& items) : run_(&into), items_(&items) {}

  /// Of `ferry train --json`; false if it is none, as for all of these.
  bool train_step(nlohmann::json const& row);
  /// Of the totals, or one of a step's dearest.
  bool item(nlohmann::json const& row);
  /// A line of FERRY_STATS, or the whole of the others.
  bool document(nlohmann::json const& value);
  void finish();

  [[nodiscard]] bool anything() const { return stats_ || train_ || simulated_; }
  [[nodiscard]] bool is_stats() const { return stats_; }
  [[nodiscard]] bool has_totals() const { return totals_; }

 private:
  bool dear_item(nlohmann::json const& row);
  void step_line(nlohmann::json const& line);
  void summary(nlohmann::json const& value);
  void simulated(nlohmann::json const& value);
  void totals(nlohmann::json const& session);
  void add_step(step_row const& row);
  void add_facts(nlohmann::json const& of);

  run* run_;
  item_book* items_;
  bool stats_ = false;
  bool train_ = false;
  bool simulated_ = false;
  bool totals_ = false;
  std::size_t steps_left_out_ = 0;
};

}  // namespace ferry::command
