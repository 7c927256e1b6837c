#include "report/session_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ferry/config.hpp"
#include "report/json_rows.hpp"

namespace ferry::command {

namespace {

using nlohmann::json;

constexpr double most_us = 1e15;
constexpr std::size_t most_steps = 200'000;
constexpr std::size_t most_reasons = 100;
constexpr std::size_t most_settings = 100;

double minus(double from, double what) { return is_known(what) ? std::max(0.0, from - what) : from; }

void read_links(json const& of, step_row& into) {
  auto const& out = object_at(of, "device_to_host");
  auto const& in = object_at(of, "host_to_device");
  into.out_bytes = number_at(out, "bytes");
  into.in_bytes = number_at(in, "bytes");
  into.out_gbps = number_at(out, "gbps");
  into.in_gbps = number_at(in, "gbps");
  into.abandoned = number_at(out, "abandoned") + number_at(in, "abandoned");
  into.failed = number_at(out, "failed") + number_at(in, "failed");
}

/// A count, or an object that has one.
double count_of(json const& value) {
  return value.is_object() ? number_at(value, "count") : number_at(json{{"count", value}}, "count");
}

/// "peak_device_bytes" and 12 become "peak device" and "12 B".
std::pair<std::string, std::string> fact_of(std::string const& key, json const& value) {
  auto name = clean(key, 60);
  std::ranges::replace(name, '_', ' ');
  if (value.is_string()) return {name, clean(value.get_ref<std::string const&>())};
  if (value.is_boolean()) return {name, value.get<bool>() ? "yes" : "no"};
  auto const number = value.get<double>();
  if (name.ends_with(" bytes") && number >= 0 && number < 9e15) {
    name.resize(name.size() - 6);
    return {name, format_bytes(static_cast<std::size_t>(number))};
  }
  return {name, fmt::format("{:.7g}", number)};
}

}  // namespace

void session_reader::add_step(step_row const& row) {
  if (run_->steps.size() < most_steps) {
    run_->steps.push_back(row);
  } else {
    ++steps_left_out_;
  }
}

bool session_reader::train_step(json const& row) {
  if (!row.is_object() || !row.contains("seconds")) return false;
  train_ = true;
  step_row step;
  step.number = number_at(row, "step", most_us);
  step.wall_us = number_at(row, "seconds", most_us / 1e6) * 1e6;
  step.loss = number_at(row, "loss");
  step.tokens_per_second = number_at(row, "tokens_per_second");
  step.planned_us = number_at(row, "planned_us", most_us);
  step.arrival_us = number_at(row, "waiting_us", most_us);
  step.peak_bytes[0] = number_at(row, "peak_device_bytes");
  step.peak_bytes[1] = number_at(row, "peak_pinned_bytes");
  auto const& link = array_at(row, "link_gbps");
  if (link.size() == 2) {
    json const both{{"out", link[0]}, {"in", link[1]}};
    step.out_gbps = number_at(both, "out");
    step.in_gbps = number_at(both, "in");
  }
  if (is_known(step.number)) add_step(step);
  return true;
}

/// Its sums come with the totals; here are the words.
bool session_reader::dear_item(json const& row) {
  auto const index = items_->index_of(text_at(row, "item"));
  if (index == no_index) return true;
  auto& item = items_->at(index);
  item.bytes = number_at(row, "bytes");
  for (auto const& one : array_at(row, "decisions")) {
    auto const reason = text_at(one, "reason", 60);
    bool const says_why = !reason.empty() && !reason.starts_with("restored_");
    if (says_why) item.words = text_at(one, "words");
    if (places_item(reason)) item.last = reason;
  }
  return true;
}

bool session_reader::item(json const& row) {
  if (!row.is_object()) return false;
  if (row.contains("decisions")) return dear_item(row);
  if (!row.contains("key")) return false;
  auto const& key = object_at(row, "key");
  auto const index = items_->index_of(text_at(key, "name"), number_at(key, "segment"), number_at(key, "micro_batch"));
  if (index == no_index) return true;
  auto& item = items_->at(index);
  auto const or_zero = [&](char const* name) {
    double const value = number_at(row, name, most_us);
    return is_known(value) ? value : 0;
  };
  item.bytes = number_at(row, "bytes");
  item.saves = number_at(row, "saves");
  item.offloads = or_zero("offloads");
  item.recomputes = or_zero("recomputes");
  item.exposed_us = or_zero("exposed_us");
  item.hidden_us = or_zero("hidden_us");
  item.recompute_us = or_zero("recompute_us");
  if (item.last.empty()) item.last = text_at(row, "last", 60);
  return true;
}

bool session_reader::document(json const& value) {
  if (value.contains("step") && value.contains("step_us")) {
    step_line(value);
    return true;
  }
  if (value.contains("reasons") && value.contains("steps")) {
    stats_ = true;
    totals(value);
    return true;
  }
  if (value.contains("summary")) {
    train_ = true;
    summary(object_at(value, "summary"));
    return true;
  }
  if (value.contains("steps_us") && value.contains("session")) {
    simulated(value);
    return true;
  }
  return train_;  // its summary is missing
}

void session_reader::step_line(json const& line) {
  stats_ = true;
  step_row step;
  step.number = number_at(line, "step", most_us);
  step.step_us = number_at(line, "step_us", most_us);
  if (step.step_us == 0) step.step_us = unknown;  // its work failed
  step.host_us = number_at(line, "host_us", most_us);
  step.planned_us = number_at(line, "planned_us", most_us);
  step.recompute_us = number_at(line, "recompute_us", most_us);
  step.bytes_us = number_at(line, "waited_for_bytes_us", most_us);
  step.arrival_us = minus(number_at(line, "exposed_us", most_us), step.bytes_us);
  step.hidden_us = number_at(line, "hidden_us", most_us);
  step.host_waited_us = number_at(line, "host_waited_us", most_us);
  step.run_ahead_us = number_at(line, "run_ahead_us", most_us);
  constexpr std::array names{"device_peak_bytes", "pinned_peak_bytes", "in_flight_peak_bytes", "disk_peak_bytes"};
  for (std::size_t i = 0; i < tier_kinds; ++i) step.peak_bytes[i] = number_at(line, names[i]);
  read_links(line, step);
  if (!totals_) {
    for (auto const& [reason, told] : object_at(line, "reasons").items()) {
      double const count = count_of(told);
      if (is_known(count) && run_->reasons.size() < most_reasons) run_->reasons[clean(reason, 60)] += count;
    }
  }
  if (is_known(step.number)) add_step(step);
}

void session_reader::add_facts(json const& of) {
  constexpr std::size_t most_facts = 64;
  for (auto const& [key, value] : of.items()) {
    bool const plain = value.is_string() || value.is_boolean() || value.is_number();
    if (plain && run_->facts.size() < most_facts) run_->facts.push_back(fact_of(key, value));
  }
}

void session_reader::summary(json const& value) {
  add_facts(value);
  run_->policy = text_at(value, "policy", 60);
  run_->keep_all_bytes = number_at(value, "keep_all_bytes");
  run_->unlimited_us = number_at(value, "planned_unlimited_us", most_us);
  double const layers = number_at(value, "layers");
  double const width = number_at(value, "width");
  if (is_known(layers) && is_known(width)) {
    run_->title = fmt::format("GPT of {:.0f} layers, {:.0f} features, context {:.0f}, batch {:.0f}", layers, width,
                              number_at(value, "context"), number_at(value, "batch"));
  }
  totals(object_at(value, "session"));
}

void session_reader::simulated(json const& value) {
  simulated_ = true;
  add_facts(value);
  run_->title = text_at(value, "profile");
  auto const& all = array_at(value, "steps_us");
  for (std::size_t i = 0; i < all.size(); ++i) {
    step_row step;
    step.number = static_cast<double>(i + 1);
    step.step_us = number_at(json{{"us", all[i]}}, "us", most_us);
    step.planned_us = number_at(value, "predicted_us", most_us);
    if (i + 1 == all.size()) {
      step.recompute_us = number_at(value, "recompute_us", most_us);
      step.arrival_us = number_at(value, "waiting_us", most_us);
      step.out_bytes = number_at(value, "offloaded_bytes");
      step.in_bytes = number_at(value, "fetched_bytes");
    }
    add_step(step);
  }
  totals(object_at(value, "session"));
}

void session_reader::totals(json const& session) {
  if (session.empty()) return;
  totals_ = true;
  constexpr std::array names{"device", "pinned", "in_flight", "disk"};
  for (std::size_t i = 0; i < tier_kinds; ++i) {
    auto const& tier = object_at(session, names[i]);
    run_->limit_bytes[i] = number_at(tier, "limit_bytes");
    run_->peak_bytes[i] = number_at(tier, "peak_bytes");
    run_->average_bytes[i] = number_at(tier, "average_bytes");
  }
  run_->reasons.clear();
  for (auto const& [reason, told] : object_at(session, "reasons").items()) {
    double const count = count_of(told);
    if (is_known(count) && run_->reasons.size() < most_reasons) run_->reasons[clean(reason, 60)] = count;
  }
  double const out = number_at(object_at(session, "device_to_host"), "busy_us", most_us);
  double const in = number_at(object_at(session, "host_to_device"), "busy_us", most_us);
  if (is_known(out) && is_known(in)) run_->link_busy_us = std::max(out, in);
  for (auto const& one : array_at(session, "settings")) {
    auto const variable = text_at(one, "variable", 60);
    auto const given = one.is_object() && one.value("given", json()) == true;
    if (!variable.empty() && run_->settings.size() < most_settings) {
      run_->settings.push_back({variable, text_at(one, "value"), given, {}});
      if (variable == "FERRY_POLICY" && run_->policy.empty()) run_->policy = text_at(one, "value", 60);
    }
  }
  for (auto const& one : array_at(session, "settings_without_effect")) {
    auto const variable = text_at(one, "variable", 60);
    if (variable.empty() || run_->settings.size() >= most_settings) continue;
    auto found = std::ranges::find(run_->settings, variable, &setting_row::variable);
    if (found == run_->settings.end()) {
      run_->settings.push_back({variable, "", true, {}});
      found = std::prev(run_->settings.end());
    }
    found->no_effect = text_at(one, "why");
  }
}

void session_reader::finish() {
  if (stats_) run_->sources.push_back(run_source::stats);
  if (train_) run_->sources.push_back(run_source::train);
  if (simulated_) run_->sources.push_back(run_source::simulate);
  if (steps_left_out_ > 0) {
    run_->notes.push_back(
        fmt::format("The last {} steps are left out: a report holds {}.", steps_left_out_, most_steps));
  }
}

}  // namespace ferry::command
