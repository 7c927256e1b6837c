#include "tape/tape_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/session.hpp"

namespace ferry::command {

namespace {

using moment = simulation_moment::kind;

tape_place place_of(std::optional<item_state> state) noexcept {
  if (!state) return tape_place::absent;
  switch (*state) {
    case item_state::resident:
    case item_state::recomputing:
      return tape_place::device;
    case item_state::offloading:
      return tape_place::leaving;
    case item_state::hosted:
      return tape_place::host;
    case item_state::prefetching:
      return tape_place::arriving;
    case item_state::dropped:
      return tape_place::dropped;
    case item_state::released:
      break;
  }
  return tape_place::absent;
}

bool has_device_bytes(tape_place where) noexcept { return where == tape_place::device || where == tape_place::leaving; }
bool has_host_bytes_only(tape_place where) noexcept {
  return where == tape_place::host || where == tape_place::arriving;
}

/// Writes down what the session says at each moment.
class tape_recorder {
 public:
  tape_recorder(profile const& step, std::uint32_t first_number) : segments_(step.segments.size()) {
    name_steps(first_number);
    name_items(step, first_number);
    places_.assign(written_.items.size(), tape_place::absent);
    since_us_.assign(written_.items.size(), 0);
    for (auto const& segment : step.segments) written_.forward_us += segment.forward_us;
  }

  void see(simulation_moment const& seen) {
    if (seen.what == moment::begun) {
      runs_ = runs_by(seen.stats);
      before_ = seen.stats;
    }
    looks_.push_back(look_at(seen));
    if (seen.what == moment::changed || seen.what == moment::begun) return;
    auto& step = step_of(seen);
    for (auto& one : looks_) take(one, step);
    looks_.clear();
    note_recipes(seen, step);
    step.end_us = seen.at_us;
    if (seen.what == moment::saved) step.writes.push_back(index_.at({0, seen.segment, seen.item}));
    if (seen.what == moment::restored) step.reads.push_back(index_.at({0, seen.segment, seen.item}));
    if (seen.what == moment::backward || !step.is_backward) step.places = places_;
    step.after_bytes = bytes_of_items();
    step.host_bytes = seen.stats.pinned.now_bytes;
    last_us_ = seen.at_us;
    after_ = seen.stats;
  }

  [[nodiscard]] tape finish(simulation const& done) && {
    for (std::size_t k = 0; k < places_.size(); ++k) end_span(k, last_us_);
    for (std::size_t i = 1; i < written_.steps.size(); ++i) written_.steps[i].start_us = written_.steps[i - 1].end_us;
    written_.step_us = last_us_;
    written_.budget_bytes = after_.device.limit_bytes;
    written_.sent_bytes = after_.device_to_host.bytes - before_.device_to_host.bytes;
    written_.fetched_bytes = after_.host_to_device.bytes - before_.host_to_device.bytes;
    sum_bytes();
    sum_recipes();
    time_recipes(done.timeline);
    return std::move(written_);
  }

 private:
  /// The session at one time.
  struct look {
    double at_us = 0;
    std::size_t device_bytes = 0;
    std::size_t host_bytes = 0;
    std::vector<tape_place> places;
  };
  /// Recipes that ran between two moments; when exactly, the device's timeline says.
  struct recipe_run {
    std::size_t item = 0;
    double after_us = 0;
    double before_us = 0;
  };

  void name_steps(std::uint32_t first_number) {
    written_.steps.resize(2 * segments_);
    for (std::size_t i = 0; i < written_.steps.size(); ++i) {
      auto& step = written_.steps[i];
      step.is_backward = i >= segments_;
      step.segment = static_cast<std::uint32_t>(step.is_backward ? 2 * segments_ - 1 - i : i);
      step.label = fmt::format("{}{}", step.is_backward ? 'B' : 'F', step.segment + first_number);
    }
  }

  void name_items(profile const& step, std::uint32_t first_number) {
    bool clear = true;  // "ln1" of segment 3 would be "ln13"
    for (auto const& segment : step.segments) {
      for (auto const& item : segment.items) {
        clear = clear && !item.name.empty() && std::isdigit(static_cast<unsigned char>(item.name.back())) == 0;
      }
    }
    for (std::uint32_t i = 0; i < step.segments.size(); ++i) {
      for (auto const& item : step.segments[i].items) {
        index_[{0, i, label(item.name)}] = written_.items.size();
        written_.items.push_back(
            {i, item.name, fmt::format("{}{}{}", item.name, clear ? "" : ".", i + first_number), item.bytes});
        bool const before = !item.inputs.empty() &&
                            std::ranges::all_of(item.inputs, [&](item_name const& from) { return from.segment < i; });
        made_before_.push_back(before);
        flops_.push_back(item.recipe_flops);
        bool const given = i == 0 && item.inputs.empty();
        if (item.recipe_us && !given) ++written_.forward_operations;
      }
    }
  }

  tape_step& step_of(simulation_moment const& seen) {
    std::size_t const i = seen.segment;
    if (seen.what == moment::computed || seen.what == moment::saved) {
      bool const before = made_before_[index_.at({0, seen.segment, seen.item})];
      return written_.steps[before ? i - 1 : i];
    }
    return written_.steps[seen.what == moment::forward ? i : 2 * segments_ - 1 - i];
  }

  [[nodiscard]] look look_at(simulation_moment const& seen) const {
    look now{seen.at_us, seen.stats.device.now_bytes, seen.stats.pinned.now_bytes, {}};
    now.places.reserve(written_.items.size());
    for (auto const& item : written_.items) {
      now.places.push_back(place_of(seen.on.state({0, item.segment, label(item.name)})));
    }
    return now;
  }

  void take(look& seen, tape_step& step) {
    for (std::size_t k = 0; k < places_.size(); ++k) {
      tape_place const from = places_[k];
      tape_place const to = seen.places[k];
      if (from == to) continue;
      if (has_device_bytes(from) && to == tape_place::host) step.sent.push_back(k);
      if (has_host_bytes_only(from) && to == tape_place::device) step.fetched.push_back(k);
      if (to == tape_place::dropped) step.dropped.push_back(k);
      end_span(k, seen.at_us);
    }
    // What was there when the step began is part of it.
    std::size_t const before = written_.curve.empty() ? 0 : written_.curve.back().device;
    step.most_bytes = std::max({step.most_bytes, before, seen.device_bytes});
    written_.curve.push_back({seen.at_us, seen.device_bytes, seen.host_bytes});
    places_ = std::move(seen.places);
  }

  /// Of those on the device, without scratch memory that the next segment may have taken already.
  [[nodiscard]] std::size_t bytes_of_items() const {
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < places_.size(); ++k) {
      bool const there = has_device_bytes(places_[k]) || places_[k] == tape_place::arriving;
      if (there) bytes += written_.items[k].bytes;
    }
    return bytes;
  }

  void end_span(std::size_t item, double at_us) {
    if (places_[item] != tape_place::absent && at_us > since_us_[item]) {
      written_.spans.push_back({item, places_[item], since_us_[item], at_us});
    }
    since_us_[item] = at_us;
  }

  [[nodiscard]] std::vector<std::uint64_t> runs_by(session_stats const& stats) const {
    std::vector<std::uint64_t> runs(written_.items.size(), 0);
    for (auto const& one : stats.items) {
      if (auto const found = index_.find(one.key); found != index_.end()) runs[found->second] = one.recomputes;
    }
    return runs;
  }

  void note_recipes(simulation_moment const& seen, tape_step& step) {
    auto runs = runs_by(seen.stats);
    for (std::size_t k = 0; k < runs.size(); ++k) {
      for (auto run = runs_[k]; run < runs[k]; ++run) {
        step.rebuilt.push_back(k);
        recipe_runs_.push_back({k, last_us_, seen.at_us});
      }
    }
    runs_ = std::move(runs);
  }

  void sum_bytes() {
    auto const& curve = written_.curve;
    for (std::size_t i = 0; i < curve.size(); ++i) {
      double const lasted = (i + 1 < curve.size() ? curve[i + 1].at_us : last_us_) - curve[i].at_us;
      written_.average_bytes += static_cast<double>(curve[i].device) * lasted;
      written_.host_average_bytes += static_cast<double>(curve[i].host) * lasted;
      written_.peak_bytes = std::max(written_.peak_bytes, curve[i].device);
      written_.host_peak_bytes = std::max(written_.host_peak_bytes, curve[i].host);
    }
    if (last_us_ > 0) {
      written_.average_bytes /= last_us_;
      written_.host_average_bytes /= last_us_;
    }
    auto const highest = std::ranges::find(written_.steps, written_.peak_bytes, &tape_step::most_bytes);
    written_.peak_step = static_cast<std::size_t>(highest - written_.steps.begin());
  }

  /// By operation, from what the session's books have more than when the step began.
  void sum_recipes() {
    std::vector<double> us(written_.items.size(), 0);
    auto const add = [&](session_stats const& stats, double sign) {
      for (auto const& one : stats.items) {
        if (auto const found = index_.find(one.key); found != index_.end())
          us[found->second] += sign * one.recompute_us;
      }
    };
    add(after_, 1);
    add(before_, -1);
    std::vector<std::uint64_t> runs(written_.items.size(), 0);
    for (auto const& one : recipe_runs_) ++runs[one.item];
    auto& rows = written_.recomputed;
    for (std::size_t k = 0; k < us.size(); ++k) {
      if (runs[k] == 0) continue;
      auto row = std::ranges::find(rows, written_.items[k].name, &recompute_share::operation);
      if (row == rows.end()) row = rows.insert(rows.end(), {written_.items[k].name, 0, 0, 0});
      row->runs += runs[k];
      row->us += us[k];
      row->flops += static_cast<double>(runs[k]) * flops_[k];
    }
  }

  /// Launches bear their item's name. Of several with one name between two moments, the first is the earliest
  /// segment's, because the others are built from it.
  void time_recipes(std::vector<sim_operation> const& timeline) {
    constexpr double ns_per_us = 1000;
    std::vector<bool> taken(timeline.size(), false);
    std::size_t first = 0;
    for (auto const& run : recipe_runs_) {
      tape_rebuild found{run.item, run.after_us, run.after_us};
      for (std::size_t i = first; i < timeline.size(); ++i) {
        auto const& one = timeline[i];
        double const start_us = static_cast<double>(one.start.count()) / ns_per_us;
        double const end_us = static_cast<double>(one.end.count()) / ns_per_us;
        if (end_us <= run.after_us) {
          if (i == first) ++first;
          continue;
        }
        if (start_us > run.before_us) break;
        if (taken[i] || one.where != sim_engine::compute || one.name.view() != written_.items[run.item].name) continue;
        taken[i] = true;
        found = {run.item, start_us, end_us};
        break;
      }
      written_.rebuilds.push_back(found);
    }
    std::ranges::stable_sort(written_.rebuilds, {}, &tape_rebuild::from_us);
  }

  std::size_t segments_;
  tape written_;
  std::unordered_map<item_key, std::size_t> index_;
  std::vector<bool> made_before_;  // by the segment before
  std::vector<double> flops_;

  std::vector<look> looks_;  // that belong to the step of the next moment
  std::vector<tape_place> places_;
  std::vector<double> since_us_;
  std::vector<std::uint64_t> runs_;
  std::vector<recipe_run> recipe_runs_;
  double last_us_ = 0;
  session_stats before_, after_;
};

}  // namespace

std::string_view words_of(tape_place where) noexcept {
  switch (where) {
    case tape_place::absent:
      return "not there";
    case tape_place::device:
      return "on the device";
    case tape_place::leaving:
      return "on its way out";
    case tape_place::host:
      return "on the host";
    case tape_place::arriving:
      return "on its way in";
    case tape_place::dropped:
      return "dropped";
  }
  return "";
}

std::uint64_t tape::recomputed_operations() const noexcept {
  return std::accumulate(recomputed.begin(), recomputed.end(), std::uint64_t{0},
                         [](std::uint64_t sum, recompute_share const& one) { return sum + one.runs; });
}

double tape::recompute_us() const noexcept {
  return std::accumulate(recomputed.begin(), recomputed.end(), 0.0,
                         [](double sum, recompute_share const& one) { return sum + one.us; });
}

tape record_tape(profile const& step, hardware const& on, simulation_options how, std::uint32_t first_number) {
  std::size_t items = 0;
  for (auto const& segment : step.segments) items += segment.items.size();
  if (items > most_tape_items) {
    throw setting_error(
        fmt::format("this step has {} items, and a tape shows at most {}; `ferry simulate` runs it as a whole", items,
                    most_tape_items));
  }
  step.check();
  how.watch = nullptr;
  double const ahead_us = simulate(step, on, how).step_us;
  tape_recorder recorder(step, first_number);
  how.watch = [&](simulation_moment const& seen) { recorder.see(seen); };
  auto const done = simulate(step, on, how);
  auto written = std::move(recorder).finish(done);
  written.net = step.name;
  written.ahead_us = ahead_us;
  written.first_number = first_number;
  return written;
}

}  // namespace ferry::command
