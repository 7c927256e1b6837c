#include "observe/ledger.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "support/pause.hpp"

namespace ferry::observe {

using store::event_handle;

ledger::ledger(device& on, config const& settings, support::logger const& log, store::tiered_store& store,
               decide::step_clock& clock)
    : device_(on),
      listener_(on.order()),
      store_(store),
      clock_(clock),
      steps_(on, settings, log, store),
      profile_file_("FERRY_PROFILE", settings.profile_file, log) {
  effects_.virtual_clock = on.time() != nullptr;
  measurements_.reserve(256);
}

void ledger::tell_listener(store::item_event what, store::entry const& e) const {
  listener_->met("item", to_string(e.state()), to_string(what), store::evidence_name(e.device, e.host));
}

void ledger::measure(measurement::kind what, store::entry* e, event_handle from, stream_ref stream) noexcept {
  auto place = steps_.place_of(e);
  using enum measurement::kind;
  if (what == exposed_so_far || what == starved) place.decision = no_line;  // the next one is about something else
  try {
    auto to = store_.events().record_if_possible(stream, event_timing::on);
    if (from && to) measurements_.push_back({what, e, std::move(from), std::move(to), clock_.here(), place});
  } catch (std::bad_alloc const&) {
    return;
  }
}

void ledger::take_measurements(bool wait) {
  patience waiting(device_);
  std::erase_if(measurements_, [&](measurement const& m) {
    auto status = device_.query(m.to.ref());
    while (wait && status == event_status::pending) {
      waiting.wait();
      status = device_.query(m.to.ref());
    }
    if (auto const took_us = lasted_us(m, status)) charge(m, *took_us);
    return status != event_status::pending;
  });
}

/// Nothing if it is not over, or failed. `end`: what its end was last seen to be.
std::optional<double> ledger::lasted_us(measurement const& m, event_status end) const {
  if (end != event_status::complete || device_.query(m.from.ref()) == event_status::failed) return std::nullopt;
  return store::elapsed_us(device_, m.from, m.to);
}

/// What was timed, in figures: of the session, and of the item if it is about one.
void ledger::add(measurement::kind what, double took_us, session_stats& all, item_counts* item) {
  using enum measurement::kind;
  if (what == exposed_so_far && took_us <= 0) return;
  item_counts nobody;
  item_counts& one = item != nullptr ? *item : nobody;
  switch (what) {
    case starved:
      all.waited_for_bytes_us += took_us;
      one.waited_for_bytes_us += took_us;
      [[fallthrough]];
    case exposed:
    case exposed_so_far:
      all.exposed_us += took_us;
      one.exposed_us += took_us;
      return;
    case recipe_ahead:
      all.recomputed_ahead_us += took_us;
      [[fallthrough]];
    case recipe:
      one.recipe_us = took_us;
      [[fallthrough]];
    case part_of_recipe:
      all.recompute_us += took_us;
      one.recompute_us += took_us;
      return;
  }
}

void ledger::charge(measurement const& m, double took_us) {
  using enum measurement::kind;
  add(m.what, took_us, totals_, m.item != nullptr ? &m.item->record.stats : nullptr);
  switch (m.what) {
    case starved:
      clock_.stood_still(m.in, took_us);
      steps_.measured(compute_line::kind::short_of_bytes, m.place, m.from, took_us);
      return;
    case exposed:
    case exposed_so_far:
      if (took_us <= 0 && m.what == exposed_so_far) return;
      clock_.stood_still(m.in, took_us);
      steps_.measured(compute_line::kind::standing_still, m.place, m.from, took_us);
      return;
    case recipe:
    case recipe_ahead:
      m.item->rebuild.us = took_us;
      break;
    case part_of_recipe:
      break;
  }
  clock_.recipe_took(m.in, took_us);
  steps_.measured(compute_line::kind::recipe, m.place, m.from, took_us);
}

void ledger::transferred(store::transfer const& ended) {
  if (store::entry* const e = store_.known(ended.owner.key)) e->record.moved_us += ended.result.moved_us;
  steps_.transferred(ended);
}

void ledger::waited_for_bytes(store::entry const* blamed, double us) {
  effects_.room_was_short = true;
  totals_.host_waited_us += us;
  steps_.waited_for_bytes(blamed, us);
}

void ledger::held_back(double us) {
  totals_.run_ahead_us += us;
  steps_.held_back(us);
}

void ledger::begin_step(plan const* followed, std::uint64_t first_open) {
  if (!steps_.on()) return;
  steps_.begin_step(totals_.steps, followed);
  first_open = std::min(first_open, totals_.steps);
  for (auto const& m : measurements_) first_open = std::min(first_open, m.place.step);
  steps_.flush(first_open);
}

/// What has been timed and not taken in yet.
void ledger::add_what_is_over(session_stats& now) const {
  for (auto const& m : measurements_) {
    auto const took_us = lasted_us(m, device_.query(m.to.ref()));
    if (!took_us) continue;
    auto const item = m.item == nullptr ? now.items.end() : std::ranges::find(now.items, m.item->key, &item_stats::key);
    add(m.what, *took_us, now, item == now.items.end() ? nullptr : &*item);
  }
}

session_stats ledger::stats(decide::link_view const& link, config const& settings,
                            known_elsewhere const& others) const {
  session_stats now = totals_;
  now.plans = others.plans;
  now.plan_changes = others.plan_changes;
  now.device = store_.device_tier().stats();
  now.pinned = store_.pinned_tier().stats();
  now.in_flight = store_.in_flight().stats();
  now.adopted_bytes = store_.device_tier().adopted_bytes();
  auto const figures = [&](copy_direction direction) {
    auto const& from = link.counters(direction);
    return link_stats{from.transfers, from.abandoned,          from.failed, from.chunks, from.bytes,
                      from.busy_us,   from.bytes_per_us / 1000};
  };
  now.device_to_host = figures(copy_direction::device_to_host);
  now.host_to_device = figures(copy_direction::host_to_device);
  now.items.reserve(store_.entries().size());
  for (auto const& [key, e] : store_.entries()) now.items.push_back({e.record.stats, key});
  add_what_is_over(now);
  auto entry = store_.entries().begin();
  for (auto& item : now.items) {
    item.hidden_us = std::max(0.0, (entry++)->second.record.moved_us - item.exposed_us);
    now.hidden_us += item.hidden_us;
  }
  std::ranges::sort(now.items, [](item_stats const& a, item_stats const& b) {
    return std::tie(a.key.micro_batch, a.key.segment, a.key.name) <
           std::tie(b.key.micro_batch, b.key.segment, b.key.name);
  });
  auto effects = effects_;
  effects.placed_by_function = others.placed_by_function;
  effects.weighed |= others.weighed;
  effects.planned = others.planned;
  now.settings_without_effect = settings_without_effect(now, settings, effects);
  now.settings = used_settings(settings);
  return now;
}

}  // namespace ferry::observe
