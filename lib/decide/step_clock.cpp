#include "decide/step_clock.hpp"

#include <algorithm>
#include <utility>

#include "support/pause.hpp"

namespace ferry::decide {

namespace {

/// While nothing has ever moved, so many steps are enough for one to compare later ones with.
constexpr std::uint64_t steps_for_a_quiet_one = 16;

std::chrono::nanoseconds in_ns(double us) { return std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1e3)); }

}  // namespace

void step_clock::begin_step() {
  first_unreported_ = 0;
  std::swap(before_, now_);
  learnt_ = before_.stretches.empty() || !before_.end;
  now_.number = before_.number + 1;
  now_.first = before_.first + before_.stretches.size();
  now_.stretches.clear();
  now_.end = {};
  now_.began.reset();
  declared_ = false;
  reached_ = 0;
  until_reached_us_ = 0;
}

void step_clock::end_step(store::event_pool& events) {
  if (stream_ && !now_.stretches.empty()) now_.end = events.record_if_possible(stream_, event_timing::on);
}

void step_clock::wait_until_over() {
  if (!now_.end) return;
  patience waiting(device_);
  auto const pass = [&](store::event_handle const& mark) {
    while (device_.query(mark.ref()) == event_status::pending) waiting.wait();
  };
  for (auto const& s : now_.stretches) pass(s.from);  // streams may differ
  pass(now_.end);
}

void step_clock::entered(pass which, item_key const& key, stream_ref stream, store::event_pool& events) {
  stream_ = stream;
  now_.stretches.push_back({which, key.micro_batch, key.segment, events.record(stream, event_timing::on), 0, 0, 0, 0});
}

store::event_handle step_clock::mark_before(unsigned stretches) const {
  auto const& entered = now_.stretches;
  if (entered.size() < first_unreported_ + stretches + 1) return {};
  return entered[entered.size() - 1 - stretches].from;
}

step_clock::stretch* step_clock::find(stretch_id id) noexcept {
  for (auto* const step : {&now_, &before_}) {
    if (id >= step->first && id - step->first < step->stretches.size()) return &step->stretches[id - step->first];
  }
  return nullptr;
}

void step_clock::stood_still(stretch_id in, double us) noexcept {
  if (auto* const s = find(in)) s->still_us += us;
}

void step_clock::recipe_took(stretch_id in, double us) noexcept {
  if (auto* const s = find(in)) s->recipes_us += us;
}

double step_clock::lasted_us(one_step const& in, std::size_t index) const {
  auto const& to = index + 1 < in.stretches.size() ? in.stretches[index + 1].from : in.end;
  return store::elapsed_us(device_, in.stretches[index].from, to).value_or(0);
}

/// Of a stretch that begins so long after the step: what it computed, without recipes, and beside what.
contention_estimate::sample step_clock::computed(one_step const& in, std::size_t index, double from_us,
                                                 double lasted_us) const {
  auto const& s = in.stretches[index];
  contention_estimate::sample seen{.which = s.which, .segment = s.segment};
  seen.us = std::max(0.0, lasted_us - s.still_us - s.recipes_us);
  if (!traffic_.any() || !in.began || lasted_us <= 0) return seen;
  // Beside which of the three traffic went on is not known: beside each in its proportion.
  double const share = std::min(1.0, seen.us / lasted_us);
  seen.beside = traffic_.between(*in.began + in_ns(from_us), *in.began + in_ns(from_us + lasted_us)).times(share);
  seen.certainty = share;
  return seen;
}

double step_clock::own_us(std::size_t index) const {
  double from_us = 0;
  for (std::size_t i = 0; i < index; ++i) from_us += lasted_us(now_, i);
  return contention_.alone_us(computed(now_, index, from_us, lasted_us(now_, index)));
}

bool step_clock::over() const {
  auto const passed = [this](store::event_handle const& mark) {
    return device_.query(mark.ref()) == event_status::complete;
  };
  return now_.end && passed(now_.end) &&
         std::ranges::all_of(now_.stretches, [&](stretch const& s) { return passed(s.from); });
}

bool step_clock::learn() {
  if (!can_learn()) return false;
  bool failed = device_.query(before_.end.ref()) == event_status::failed;
  for (auto const& s : before_.stretches) {
    auto const mark = device_.query(s.from.ref());
    if (mark == event_status::pending) return false;  // streams may differ
    failed |= mark == event_status::failed;
  }
  learnt_ = true;
  if (failed) return false;
  bool const compared = tells_of_traffic();
  double all_us = 0;
  double micro_batches = 0;
  for (std::size_t i = 0; i < before_.stretches.size(); ++i) {
    auto const& s = before_.stretches[i];
    double const lasted = lasted_us(before_, i);
    auto const seen = computed(before_, i, all_us, lasted);
    if (compared) contention_.add(seen);
    remember(s, seen);
    if (s.recipes_us > 0 && traffic_.any() && before_.began && lasted > 0) {
      auto const use = traffic_.between(*before_.began + in_ns(all_us), *before_.began + in_ns(all_us + lasted));
      times_[static_cast<std::size_t>(s.which)][s.segment].beside_recipes = use.times(1 / lasted);
    }
    all_us += lasted;
    micro_batches += i == 0 || before_.stretches[i - 1].micro_batch != s.micro_batch ? 1 : 0;
  }
  if (compared) contention_.end_step();
  if (before_.began) traffic_.forget_before(*before_.began);
  step_us_ = all_us / micro_batches;
  learnt_step_ = before_.number;
  return true;
}

bool step_clock::tells_of_traffic() const noexcept {
  return traffic_.any() || before_.number <= 2 || before_.number % steps_for_a_quiet_one == 0;
}

void step_clock::remember(stretch const& s, contention_estimate::sample const& seen) {
  auto& of_pass = times_[static_cast<std::size_t>(s.which)];
  if (s.segment >= of_pass.size()) of_pass.resize(s.segment + 1);
  auto& times = of_pass[s.segment];
  times.busy_us.add(seen.us);
  times.calls = s.calls;
  if (traffic_.any()) times.last[times.samples++ % times.last.size()] = seen;
}

step_clock::segment_times const* step_clock::known(stretch const& s) const noexcept {
  auto const& of_pass = times_[static_cast<std::size_t>(s.which)];
  return s.segment < of_pass.size() && !of_pass[s.segment].busy_us.empty() ? &of_pass[s.segment] : nullptr;
}

std::optional<double> step_clock::own_us(pass which, std::uint32_t segment) const {
  auto const* const times = known({which, 0, segment, {}, 0, 0, 0, 0});
  if (times == nullptr) return std::nullopt;
  if (times->samples == 0) return times->busy_us.middle();
  // By what is known now of the cost of traffic.
  support::recent_values own;
  for (std::size_t i = 0; i < std::min<std::size_t>(times->samples, times->last.size()); ++i) {
    own.add(contention_.alone_us(times->last[i]));
  }
  return own.middle();
}

double step_clock::recipes_own_share(pass which, std::uint32_t segment) const {
  auto const* const times = known({which, 0, segment, {}, 0, 0, 0, 0});
  return times != nullptr ? std::max(contention::least, 1 - contention_.lost_us(times->beside_recipes)) : 1;
}

/// Of the stretch at hand only a part has been enqueued: as many calls as have been made tell how much.
double step_clock::expected_us(std::size_t index) const {
  auto const& s = now_.stretches[index];
  auto const* const times = known(s);
  double busy = times != nullptr ? times->busy_us.middle() : 0;
  if (index + 1 == now_.stretches.size() && times != nullptr) {
    double const made = s.calls > 0 ? s.calls - 1.0 : 0.0;
    busy *= std::min(1.0, made / std::max(1.0, static_cast<double>(times->calls)));
  }
  return busy + s.expected_recipes_us;
}

void step_clock::look_how_far() {
  auto const passed = [this](std::size_t i) {
    return device_.query(now_.stretches[i].from.ref()) == event_status::complete;
  };
  if (!now_.began) {
    if (now_.stretches.empty() || !passed(0)) return;
    now_.began = device_.now();
  }
  while (reached_ + 1 < now_.stretches.size() && passed(reached_ + 1)) {
    until_reached_us_ += lasted_us(now_, reached_);
    // The first mark was seen late by an unknown time; what was seen since can only put it earlier.
    now_.began = std::min(*now_.began, device_.now() - in_ns(until_reached_us_));
    ++reached_;
  }
}

double step_clock::busy_us() {
  look_how_far();
  double expected = 0;
  for (std::size_t i = reached_; i < now_.stretches.size(); ++i) expected += expected_us(i);
  double const since = now_.began ? microseconds_of(device_.now() - *now_.began) - until_reached_us_ : 0;
  return std::max(0.0, expected - since);
}

}  // namespace ferry::decide
