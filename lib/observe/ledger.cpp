#include "observe/ledger.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "support/pause.hpp"

namespace ferry::observe {

using store::event_handle;

ledger::ledger(device& on, config const& settings, support::logger const& log, store::tiered_store& store,
               decide::step_clock& clock)
    : device_(on), listener_(on.order()), store_(store), clock_(clock), steps_(on, settings, log, store) {
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
    if (status == event_status::pending) return false;
    if (status == event_status::failed || device_.query(m.from.ref()) == event_status::failed) return true;
    if (auto const took_us = store::elapsed_us(device_, m.from, m.to)) charge(m, *took_us);
    return true;
  });
}

void ledger::charge(measurement const& m, double took_us) {
  using enum measurement::kind;
  switch (m.what) {
    case starved:
      totals_.exposed_us += took_us;
      totals_.waited_for_bytes_us += took_us;
      if (m.item != nullptr) {
        m.item->stats.exposed_us += took_us;
        m.item->stats.waited_for_bytes_us += took_us;
      }
      clock_.stood_still(m.in, took_us);
      steps_.measured(compute_line::kind::short_of_bytes, m.place, m.from, took_us);
      return;
    case exposed:
    case exposed_so_far:
      if (took_us <= 0 && m.what == exposed_so_far) return;
      m.item->stats.exposed_us += took_us;
      totals_.exposed_us += took_us;
      clock_.stood_still(m.in, took_us);
      steps_.measured(compute_line::kind::standing_still, m.place, m.from, took_us);
      return;
    case recipe:
    case recipe_ahead:
      m.item->stats.recipe_us = m.item->recipe_us = took_us;
      if (m.what == recipe_ahead) totals_.recomputed_ahead_us += took_us;
      break;
    case part_of_recipe:
      break;
  }
  clock_.recipe_took(m.in, took_us);
  m.item->stats.recompute_us += took_us;
  totals_.recompute_us += took_us;
  steps_.measured(compute_line::kind::recipe, m.place, m.from, took_us);
}

void ledger::transferred(store::transfer const& ended) {
  if (store::entry* const e = store_.known(ended.key)) e->moved_us += ended.moved_us;
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

session_stats ledger::stats(decide::link_view const& link, config const& settings) const {
  session_stats now = totals_;
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
  for (auto const& [key, e] : store_.entries()) {
    now.items.push_back(e.stats);
    auto& item = now.items.back();
    item.hidden_us = std::max(0.0, e.moved_us - item.exposed_us);
    now.hidden_us += item.hidden_us;
  }
  std::ranges::sort(now.items, [](item_stats const& a, item_stats const& b) {
    return std::tie(a.key.micro_batch, a.key.segment, a.key.name) <
           std::tie(b.key.micro_batch, b.key.segment, b.key.name);
  });
  now.settings_without_effect = settings_without_effect(now, settings, effects_);
  now.settings = used_settings(settings);
  return now;
}

}  // namespace ferry::observe
