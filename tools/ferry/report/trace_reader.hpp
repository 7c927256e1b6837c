// Trace events into a run, one at a time as they come: sums of every step, and all events of some steps. Which steps
// will be worth looking at is known only at the end, so a sample of them is held: the first, the last, the slowest so
// far, the one that is asked for and, evenly spread, as many others as there is room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>

#include "report/item_book.hpp"
#include "report/run_data.hpp"

namespace ferry::command {

class trace_reader {
 public:
  /// Both are lent. The step `wanted` is held if there is one of that number.
  trace_reader(run& into, item_book& items, double wanted = unknown);

  /// What is no event that it knows is passed over.
  void event(nlohmann::json const& value);
  /// After the last event.
  void finish();
  [[nodiscard]] std::size_t events() const { return events_; }
  /// The steps say which they are, as those of a session do.
  [[nodiscard]] bool numbered() const { return numbered_; }

 private:
  void metadata(std::string const& name, nlohmann::json const& event);
  void settings(nlohmann::json const& arguments);
  void slice(std::string const& name, nlohmann::json const& event);
  void tally(traced_slice& one, nlohmann::json const& arguments);
  void decision(nlohmann::json const& event);
  void counter(std::string const& name, nlohmann::json const& event);

  void enter_step(double number);
  void close_step();
  void sum_up(traced_step const& ended, step_row& row) const;
  void hold(traced_step&& ended);
  void thin_out();
  [[nodiscard]] bool has_room();
  std::uint8_t lane_of(nlohmann::json const& event);
  std::uint32_t name_of(std::string const& text);

  run* run_;
  item_book* items_;
  trace_data* trace_;
  double wanted_;
  std::map<std::int64_t, std::uint8_t> lanes_;
  std::unordered_map<std::string, std::uint32_t> names_;
  traced_step now_;
  step_row row_;
  bool numbered_ = false;  // any step has said which it is
  std::size_t events_ = 0;
  std::size_t held_events_ = 0;
  std::size_t passed_over_ = 0;
};

}  // namespace ferry::command
