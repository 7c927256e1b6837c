// books: what the session did, added up; and the hand-over to the journal.
#include <algorithm>
#include <tuple>
#include <utility>

#include "path/session_core.hpp"
#include "support/explain.hpp"
#include "support/pause.hpp"

namespace ferry::path {

void session_core::tell_listener(item_event what, entry const& e) const {
  listener_->met("item", to_string(e.state()), to_string(what), store::evidence_name(e.device, e.host));
}

/// Where no mark can be recorded nothing is measured: what was done is none the worse for it.
void session_core::measure(measurement::kind what, entry* e, event_handle from, stream_ref stream) noexcept {
  auto place = journal_.place_of(e);
  using enum measurement::kind;
  if (what == exposed_so_far || what == starved) place.decision = no_line;  // the next one is about something else
  try {
    auto to = store_.events().record_if_possible(stream, event_timing::on);
    if (from && to) measurements_.push_back({what, e, std::move(from), std::move(to), pace_.here(), place});
  } catch (std::bad_alloc const&) {
    return;
  }
}

void session_core::take_measurements(bool wait) {
  patience waiting(device_);
  std::erase_if(measurements_, [&](measurement const& m) {
    auto status = device_.query(m.to.ref());
    while (wait && status == event_status::pending) {
      waiting.wait();
      status = device_.query(m.to.ref());
    }
    if (status == event_status::pending) return false;
    if (status == event_status::failed || device_.query(m.from.ref()) == event_status::failed) return true;
    if (auto const took_us = store::elapsed_us(device_, m.from, m.to)) account(m, *took_us);
    return true;
  });
}

void session_core::account(measurement const& m, double took_us) {
  using enum measurement::kind;
  switch (m.what) {
    case starved:
      totals_.exposed_us += took_us;
      totals_.waited_for_bytes_us += took_us;
      if (m.item != nullptr) {
        m.item->stats.exposed_us += took_us;
        m.item->stats.waited_for_bytes_us += took_us;
      }
      pace_.stood_still(m.in, took_us);
      journal_.measured(compute_line::kind::short_of_bytes, m.place, m.from, took_us);
      return;
    case exposed:
    case exposed_so_far:
      if (took_us <= 0 && m.what == exposed_so_far) return;
      m.item->stats.exposed_us += took_us;
      totals_.exposed_us += took_us;
      pace_.stood_still(m.in, took_us);
      journal_.measured(compute_line::kind::standing_still, m.place, m.from, took_us);
      return;
    case recipe:
    case recipe_ahead:
      m.item->stats.recipe_us = m.item->recipe_us = took_us;
      if (m.what == recipe_ahead) totals_.recomputed_ahead_us += took_us;
      break;
    case part_of_recipe:
      break;
  }
  pace_.recipe_took(m.in, took_us);
  m.item->stats.recompute_us += took_us;
  totals_.recompute_us += took_us;
  journal_.measured(compute_line::kind::recipe, m.place, m.from, took_us);
}

void session_core::account(transfer const& ended) {
  if (entry* const e = store_.known(ended.key)) e->moved_us += ended.moved_us;
  journal_.transferred(ended);
}

/// The host has waited for device bytes, until now. What of that compute felt is measured.
void session_core::waited_for_bytes(entry const* blamed, double us) {
  felt_.room_was_short = true;
  totals_.host_waited_us += us;
  journal_.waited_for_bytes(blamed, us);
}

void session_core::held_back(double us) {
  totals_.run_ahead_us += us;
  journal_.held_back(us);
}

/// Would a bound of one segment, the default, have held the host back here?
void session_core::note_run_ahead() {
  auto const entered = pace_.stretches();
  if (felt_.ran_further_ahead || settings_.run_ahead == 1 || entered.size() < 2) return;
  event_handle const& one_before = entered[entered.size() - 2].from;
  felt_.ran_further_ahead = device_.query(one_before.ref()) == event_status::pending;
}

/// A step begins: those before it are written, as far as their work is over.
void session_core::write_journal() {
  if (!journal_.on()) return;
  journal_.begin_step(totals_.steps, followed());
  std::uint64_t first_open = totals_.steps;
  for (auto const& m : measurements_) first_open = std::min(first_open, m.place.step);
  for (auto const& t : transfers_.records()) {
    if (t->submitted) first_open = std::min(first_open, t->saved_in_step);
  }
  journal_.flush(first_open);
}

/// At the session's end: a setting that does nothing would else go unnoticed. Of a step that broke off nothing can be
/// told.
void session_core::name_idle_settings() noexcept {
  if (totals_.steps == 0 || in_step_ || settings_.given.empty()) return;
  try {
    for (auto const& one : stats().settings_without_effect) log_.info("{} had no effect: {}", one.variable, one.why);
  } catch (std::exception const& problem) {
    log_.info("which settings had no effect is not known: {}", problem.what());
  }
}

void session_core::finish_journal() noexcept {
  if (!journal_.on()) return;
  try {
    // While nobody holds a block or lease any more, transfers are waited for in any case. The rest of the device's work
    // is the trainer's, who may never let it end.
    constexpr double long_enough_us = 1e6;
    if (holders_ == 1) wait_for_all_transfers();
    patience waiting(device_);
    for (take_measurements(false); !measurements_.empty() || !journal_.marks_passed(); take_measurements(false)) {
      if (holders_ > 1 || waiting.waited_us() > long_enough_us) break;
      waiting.wait();
    }
  } catch (std::exception const& problem) {
    log_.info("what the last step took is not known in full: {}", problem.what());
  }
  try {
    journal_.finish(stats());
  } catch (std::exception const& problem) {
    log_.error("the last statistics are lost: {}", problem.what());
  }
}

std::string session_core::explain() { return support::explain_losses(stats(), settings_); }

session_stats session_core::stats() {
  progress();
  take_measurements(false);
  session_stats now = totals_;
  now.device = store_.device_tier().stats();
  now.pinned = store_.pinned_tier().stats();
  now.in_flight = store_.in_flight().stats();
  now.adopted_bytes = store_.device_tier().adopted_bytes();
  auto const link = [this](copy_direction direction) {
    auto const& from = transfers_.link().counters(direction);
    return link_stats{from.transfers, from.abandoned,          from.failed, from.chunks, from.bytes,
                      from.busy_us,   from.bytes_per_us / 1000};
  };
  now.device_to_host = link(copy_direction::device_to_host);
  now.host_to_device = link(copy_direction::host_to_device);
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
  felt_.placed_by_function = policy_.has_function();
  felt_.weighed |= forecast_.has_weighed();
  now.settings_without_effect = settings_without_effect(now, settings_, felt_);
  now.settings = used_settings(settings_);
  return now;
}

}  // namespace ferry::path
