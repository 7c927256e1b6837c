#include "report/trace_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "report/byte_curves.hpp"
#include "report/json_rows.hpp"

namespace ferry::command {

namespace {

using nlohmann::json;

constexpr double most_us = 1e15;
constexpr std::size_t most_steps = 200'000;
constexpr std::size_t most_lanes = 32;
constexpr std::size_t most_names = 100'000;
constexpr std::size_t most_events_of_step = 100'000;
constexpr std::size_t most_held_events = 600'000;
constexpr std::size_t most_held_steps = 64;

std::optional<span_kind> kind_of(std::string_view category) {
  auto const found = std::ranges::find(span_kind_names, category);
  if (found == span_kind_names.end()) return std::nullopt;
  return static_cast<span_kind>(found - span_kind_names.begin());
}

constexpr std::array<std::string_view, tier_kinds> counter_names{"device bytes", "pinned bytes", "in flight bytes",
                                                                 "disk bytes"};
constexpr std::array<char const*, tier_kinds> limit_names{"device limit_bytes", "pinned limit_bytes",
                                                          "in flight limit_bytes", "disk limit_bytes"};

void add(double& to, double what) {
  if (is_known(what)) to = is_known(to) ? to + what : what;
}

/// "step 12" is 12.
double number_after(std::string_view text, std::string_view word) {
  text.remove_prefix(word.size());
  std::uint32_t number = 0;
  auto const [stop, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  return status == std::errc{} && stop == text.data() + text.size() ? number : unknown;
}

/// Words that tell nothing of why.
bool says_little(std::string_view reason) { return reason == "restored_resident" || reason == "restored_from_host"; }

}  // namespace

trace_reader::trace_reader(run& into, item_book& items, double wanted)
    : run_(&into), items_(&items), trace_(&into.trace.emplace()), wanted_(wanted) {}

void trace_reader::event(json const& value) {
  if (!value.is_object()) return;
  ++events_;
  auto const phase = text_at(value, "ph", 2);
  auto const name = text_at(value, "name");
  if (phase == "X") {
    slice(name, value);
  } else if (phase == "i" && text_at(value, "cat") == "decision") {
    decision(value);
  } else if (phase == "C") {
    counter(name, value);
  } else if (phase == "M") {
    metadata(name, value);
  }
}

void trace_reader::metadata(std::string const& name, json const& event) {
  auto const& arguments = object_at(event, "args");
  if (name == "process_name") run_->title = text_at(arguments, "name");
  if (name == "ferry_settings") settings(arguments);
  if (name != "thread_name") return;
  auto const lane = lane_of(event);
  if (lane < trace_->lanes.size()) trace_->lanes[lane] = text_at(arguments, "name", 60);
}

void trace_reader::settings(json const& arguments) {
  constexpr std::size_t most = 100;
  for (auto const& [key, value] : arguments.items()) {
    if (!key.starts_with("FERRY_") || !value.is_string() || run_->settings.size() == most) continue;
    run_->settings.push_back({clean(key, 60), clean(value.get_ref<std::string const&>()), true, {}});
  }
  for (std::size_t i = 0; i < tier_kinds; ++i) run_->limit_bytes[i] = number_at(arguments, limit_names[i]);
}

std::uint8_t trace_reader::lane_of(json const& event) {
  auto const found = event.find("tid");
  std::int64_t const id = found != event.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  if (auto const known = lanes_.find(id); known != lanes_.end()) return known->second;
  auto const lane = static_cast<std::uint8_t>(trace_->lanes.size());
  if (lane == most_lanes) return lane;
  lanes_.emplace(id, lane);
  trace_->lanes.push_back(fmt::format("lane {}", id));
  return lane;
}

std::uint32_t trace_reader::name_of(std::string const& text) {
  if (text.empty()) return no_index;
  if (auto const known = names_.find(text); known != names_.end()) return known->second;
  if (trace_->names.size() == most_names) return no_index;
  auto const index = static_cast<std::uint32_t>(trace_->names.size());
  names_.emplace(text, index);
  trace_->names.push_back(text);
  return index;
}

bool trace_reader::has_room() {
  if (now_.events() < most_events_of_step) return true;
  ++now_.left_out;
  return false;
}

void trace_reader::slice(std::string const& name, json const& event) {
  auto const& arguments = object_at(event, "args");
  auto const what = kind_of(text_at(event, "cat", 40)).value_or(span_kind::other);
  double const from = number_at(event, "ts", most_us);
  double const took = number_at(event, "dur", most_us);
  if (!is_known(from) || !is_known(took)) {
    ++passed_over_;
    return;
  }
  double number = number_at(arguments, "step", most_us);
  if (what == span_kind::step && name.starts_with("step ")) {
    number = number_after(name, "step ");
  }
  if (is_known(number)) enter_step(number);

  traced_slice one{from, from + took, what, lane_of(event), no_index, no_index, number_at(arguments, "bytes")};
  one.item = items_->index_of(text_at(arguments, "item"));
  trace_->end_us = std::max(trace_->end_us, one.to_us);
  tally(one, arguments);
  if (one.lane == most_lanes || !has_room()) return;
  one.name = name_of(name);
  now_.slices.push_back(one);
}

/// Into the sums of the step and of the item.
void trace_reader::tally(traced_slice& one, json const& arguments) {
  auto const what = one.what;
  double const took = one.to_us - one.from_us;
  if (what == span_kind::step) {
    row_.host_us = took;
    row_.planned_us = number_at(arguments, "planned_us", most_us);
  } else if (what == span_kind::offload || what == span_kind::fetch) {
    bool const out = what == span_kind::offload;
    one.arrived_bytes = number_at(arguments, "arrived_bytes");
    add(out ? row_.out_bytes : row_.in_bytes, is_known(one.arrived_bytes) ? one.arrived_bytes : one.bytes);
    auto const outcome = text_at(arguments, "outcome", 40);
    if (outcome == "abandoned") add(row_.abandoned, 1);
    if (outcome == "failed") add(row_.failed, 1);
    if (!outcome.empty() && outcome != "completed") one.outcome = name_of(outcome);
  } else if (what == span_kind::run_ahead) {
    add(row_.run_ahead_us, took);
  }
  if (one.item == no_index) return;
  auto& item = items_->at(one.item);
  item.bytes = one.bytes;
  if (what == span_kind::offload) item.offloads += 1;
  if (what == span_kind::rebuild) {
    item.recomputes += 1;
    item.recompute_us += took;
  }
  bool const on_host = trace_->lanes.size() > one.lane && trace_->lanes[one.lane].starts_with("host");
  if (!on_host && (what == span_kind::wait || what == span_kind::shortage)) item.exposed_us += took;
}

void trace_reader::decision(json const& event) {
  auto const& arguments = object_at(event, "args");
  double const at = number_at(event, "ts", most_us);
  auto const reason = text_at(arguments, "reason", 60);
  if (!is_known(at) || reason.empty()) {
    ++passed_over_;
    return;
  }
  constexpr std::size_t most_reasons = 100;
  if (run_->reasons.size() < most_reasons || run_->reasons.contains(reason)) run_->reasons[reason] += 1;
  auto words = text_at(arguments, "words");
  auto const index = items_->index_of(text_at(arguments, "item"));
  if (index != no_index) {
    auto& item = items_->at(index);
    if (is_known(number_at(arguments, "bytes"))) item.bytes = number_at(arguments, "bytes");
    if (item.reasons.size() < most_reasons || item.reasons.contains(reason)) item.reasons[reason] += 1;
    if (!says_little(reason)) item.words = words;
  }
  if (has_room()) {
    now_.decisions.push_back({at, index, name_of(reason), std::move(words),
                              number_at(arguments, "transfer_us", most_us),
                              number_at(arguments, "recipe_us", most_us)});
  }
}

void trace_reader::counter(std::string const& name, json const& event) {
  auto const found = std::ranges::find(counter_names, name);
  double const at = number_at(event, "ts", most_us);
  double const bytes = number_at(object_at(event, "args"), "bytes");
  if (found == counter_names.end() || !is_known(at) || !is_known(bytes)) return;
  auto const index = static_cast<std::size_t>(found - counter_names.begin());
  add_to_curve(trace_->curves[index], at, bytes);
  trace_->end_us = std::max(trace_->end_us, at);
  for (double* const peak : {&row_.peak_bytes[index], &run_->peak_bytes[index]}) {
    *peak = is_known(*peak) ? std::max(*peak, bytes) : bytes;
  }
  if (has_room()) now_.bytes.push_back({at, static_cast<tier_kind>(index), bytes});
}

/// Events of a step follow each other; those that name it come first.
void trace_reader::enter_step(double number) {
  numbered_ = true;
  if (is_known(now_.number) && now_.number == number) return;
  if (is_known(now_.number)) {
    close_step();
  } else {
    now_ = {};  // what happened before the first step
    row_ = {};
  }
  now_.number = number;
}

void trace_reader::close_step() {
  if (!is_known(now_.number)) return;
  row_.number = now_.number;
  std::ranges::sort(now_.slices, {}, &traced_slice::from_us);
  sum_up(now_, row_);
  double from = most_us;
  double to = 0;
  for (auto const& one : now_.slices) {
    if (!is_stretch(one) && one.what != span_kind::step) continue;
    from = std::min(from, one.from_us);
    to = std::max(to, one.to_us);
  }
  if (from > to) from = to;
  now_.from_us = from;
  now_.to_us = to;
  ++trace_->all_steps;
  if (run_->steps.size() < most_steps) run_->steps.push_back(row_);
  hold(std::move(now_));
  now_ = {};
  row_ = {};
}

/// Forward and backward contain recipes and waits: each of these is taken out of the stretch that it began in.
void trace_reader::sum_up(traced_step const& ended, step_row& row) const {
  std::vector<traced_slice const*> stretches;
  std::bitset<most_lanes> compute;
  double from = most_us;
  double to = 0;
  for (auto const& one : ended.slices) {
    if (!is_stretch(one)) continue;
    stretches.push_back(&one);
    compute.set(one.lane);
    add(one.what == span_kind::forward ? row.forward_us : row.backward_us, one.to_us - one.from_us);
    from = std::min(from, one.from_us);
    to = std::max(to, one.to_us);
  }
  if (stretches.empty()) return;
  row.step_us = to - from;
  row.recompute_us = row.arrival_us = row.bytes_us = 0;
  for (auto const& one : ended.slices) {
    double const took = one.to_us - one.from_us;
    bool const inner = one.what == span_kind::rebuild || one.what == span_kind::wait || one.what == span_kind::shortage;
    if (!inner) continue;
    auto const after = std::ranges::upper_bound(stretches, one.from_us, {}, &traced_slice::from_us);
    bool const inside =
        after != stretches.begin() && (*std::prev(after))->lane == one.lane && one.from_us < (*std::prev(after))->to_us;
    if (!compute.test(one.lane)) {
      if (one.what == span_kind::wait) add(row.host_waited_us, took);
      continue;
    }
    add(one.what == span_kind::rebuild ? row.recompute_us
        : one.what == span_kind::wait  ? row.arrival_us
                                       : row.bytes_us,
        took);
    if (!inside) continue;
    double& of = (*std::prev(after))->what == span_kind::forward ? row.forward_us : row.backward_us;
    of = std::max(0.0, of - took);
  }
}

void trace_reader::hold(traced_step&& ended) {
  held_events_ += ended.events();
  trace_->steps.push_back(std::move(ended));
  thin_out();
}

/// Lets go of steps until the rest fits: never of the first, the last, the slowest and the one asked for.
void trace_reader::thin_out() {
  auto& steps = trace_->steps;
  while (steps.size() > 3 && (steps.size() > most_held_steps || held_events_ > most_held_events)) {
    auto const slowest =
        std::ranges::max_element(steps.begin() + 1, steps.end(), {}, &traced_step::took_us) - steps.begin();
    std::vector<traced_step> kept;
    held_events_ = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      bool const stays = i == 0 || i + 1 == steps.size() || i == static_cast<std::size_t>(slowest) ||
                         steps[i].number == wanted_ || (i % 2 == 0 && steps.size() > 6);
      if (!stays) continue;
      held_events_ += steps[i].events();
      kept.push_back(std::move(steps[i]));
    }
    bool const done = kept.size() == steps.size();
    steps = std::move(kept);
    if (done) return;
  }
}

void trace_reader::finish() {
  if (!numbered_ && !now_.slices.empty()) {
    now_.number = 1;  // a simulated step alone, in which compute is busy or stands still
    close_step();
    for (auto& row : run_->steps) {
      double const busy = (is_known(row.forward_us) ? row.forward_us : 0) +
                          (is_known(row.backward_us) ? row.backward_us : 0) + row.recompute_us;
      if (is_known(row.step_us)) row.arrival_us = std::max(0.0, row.step_us - busy);
    }
  }
  close_step();
  if (passed_over_ > 0) {
    run_->notes.push_back(
        fmt::format("{} events of the trace had no usable time or reason and were passed over.", passed_over_));
  }
  if (trace_->all_steps > most_steps) {
    run_->notes.push_back(fmt::format("Of {} steps only the first {} are shown.", trace_->all_steps, most_steps));
  }
}

}  // namespace ferry::command
