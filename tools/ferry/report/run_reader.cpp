#include "report/run_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "ferry/error.hpp"
#include "plan/json_reader.hpp"
#include "report/bench_reader.hpp"
#include "report/item_book.hpp"
#include "report/json_rows.hpp"
#include "report/session_reader.hpp"
#include "report/trace_reader.hpp"

namespace ferry::command {

namespace {

using nlohmann::json;

constexpr std::string_view accepted =
    "give a file of FERRY_TRACE or FERRY_STATS, or the JSON of ferry train, simulate or bench";

class file_reader final : public json_listener {
 public:
  file_reader(std::string name, double wanted)
      : name_(std::move(name)), wanted_(wanted), items_(run_), session_(run_, items_) {
    run_.label = name_;
    run_.files = {name_};
  }

  [[nodiscard]] bool wants_rows_of(std::string_view where) const override {
    constexpr std::string_view known[] = {"",      "traceEvents",   "steps",
                                          "items", "session.items", "summary.session.items"};
    return std::ranges::find(known, where) != std::end(known);
  }

  void row(std::string_view where, json const& value) override {
    if (where.empty() || where == "traceEvents") {
      if (!value.is_object() || !value.contains("ph")) throw nothing_known("its array holds no trace events");
      if (!trace_) trace_.emplace(run_, items_, wanted_);
      trace_->event(value);
    } else if (where == "steps" ? !session_.train_step(value) : !session_.item(value)) {
      auto& rows = other_rows_[std::string(where)];
      constexpr std::size_t most = 1000;
      if (rows.size() < most) rows.push_back(value);
    }
  }

  void document(json const& value) override {
    if (value.is_array() || (value.is_object() && value.contains("traceEvents"))) {
      if (!trace_) throw nothing_known("there are no events in it");
      return;
    }
    if (!value.is_object()) throw nothing_known("it is no file of Ferry's");
    if (value.contains("ferry_bench")) {
      json whole = value;  // with what turned out to be no rows of a session's
      for (auto& [where, rows] : other_rows_) whole[where] = std::move(rows);
      other_rows_.clear();
      read_bench(whole, name_, data_);
    } else if (value.contains("policies")) {
      read_comparisons(value, name_, data_);
    } else if (!session_.document(value)) {
      refuse(value);
    }
  }

  [[nodiscard]] run_data finish(json_ending const& ending) {
    bool const traced = trace_ && trace_->events() > 0;
    if (traced) {
      trace_->finish();
      run_.sources.push_back(trace_->numbered() ? run_source::trace : run_source::simulated_trace);
      if (run_.steps.empty()) throw nothing_known("it holds no step");
    }
    session_.finish();
    bool const is_run = traced || session_.anything();
    if (!is_run && data_.benches.empty() && data_.comparisons.empty() && data_.tables.empty()) {
      throw nothing_known(ending.bytes == 0        ? "it is empty"
                          : ending.cut             ? "it ends before anything is complete"
                          : ending.problem.empty() ? "it is no file of Ferry's"
                                                   : ending.problem);
    }
    if (is_run) {
      add_notes(ending, traced);
      data_.runs.push_back(std::move(run_));
    } else if (!ending.problem.empty()) {
      data_.notes.push_back(fmt::format("{}: what follows its first document is not JSON: {}", name_, ending.problem));
    }
    return std::move(data_);
  }

 private:
  [[nodiscard]] format_error nothing_known(std::string_view why) const {
    return format_error(fmt::format("'{}': {}; {}", name_, why, accepted));
  }

  [[noreturn]] void refuse(json const& value) const {
    for (char const* kind : {"plan", "profile", "hardware"}) {
      if (value.contains(fmt::format("ferry_{}", kind)))
        throw nothing_known(fmt::format("it is a {}, not a run", kind));
    }
    throw nothing_known("it is none of the files that a report is made of");
  }

  void add_notes(json_ending const& ending, bool traced) {
    if (items_.left_out() > 0)
      run_.notes.emplace_back("There are more items than a report holds; the first are shown.");
    if (!ending.problem.empty() && ending.cut) {
      run_.notes.push_back(
          fmt::format("{} ends in the middle, as a run that was killed leaves it: what is there is shown.", name_));
    } else if (!ending.problem.empty()) {
      run_.notes.push_back(fmt::format("{} is damaged ({}): what comes before that is shown.", name_, ending.problem));
    } else if (!traced && session_.is_stats() && !session_.has_totals()) {
      run_.notes.push_back(fmt::format("{} has no line of totals: the run has not ended, or was killed.", name_));
    }
  }

  std::string name_;
  double wanted_;
  run_data data_;
  run run_;
  item_book items_;
  session_reader session_;
  std::optional<trace_reader> trace_;
  std::map<std::string, json> other_rows_;
};

}  // namespace

run_data read_runs(std::istream& in, std::string const& name, double wanted) {
  auto const shown = clean(name);
  file_reader reader(shown, wanted);
  try {
    auto const ending = read_documents(in, reader);
    return reader.finish(ending);
  } catch (support::bad_field const& problem) {
    throw format_error(fmt::format("'{}': {}", shown, problem.what()));
  }
}

}  // namespace ferry::command
