// session: the steps, and the public face of the core.
#include "ferry/session.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "ferry/error.hpp"
#include "path/advice.hpp"
#include "path/budgets.hpp"
#include "path/session_core.hpp"
#include "support/enough_memory.hpp"
#include "support/explain.hpp"
#include "support/pause.hpp"

namespace ferry::path {

namespace {

constexpr std::uint64_t steps_remembered = 8;

/// The settings may name the device too, and `cuda` any GPU: which one, programs often take from their rank.
config for_device(device& on, config settings) {
  std::string_view const named = settings.device;
  std::string_view const given = on.capabilities().name;
  bool const same = named == "auto" || named == given || (named == "cuda" && given.starts_with("cuda:"));
  if (!same) {
    throw invalid_argument(
        fmt::format("the settings name the device {} (FERRY_DEVICE), but the session is given {}; make "
                    "the device by make_device(settings), or set config.device to auto",
                    named, given));
  }
  return settings;
}

}  // namespace

session_core::session_core(device& on, config settings)
    : device_(on),
      settings_(for_device(on, std::move(settings))),
      log_(settings_.log),
      store_(on, limits_of(on.capabilities(), settings_)),
      policy_(settings_),
      order_(store_),
      clock_(on),
      recorder_(clock_),
      ledger_(on, settings_, log_, store_, clock_),
      tape_(settings_.advise),
      checks_(on, settings_, store_, ledger_),
      transfers_(on, {settings_.chunk_bytes, verifies(settings_.verify, verify_mode::checksum)},
                 settings_.link_schedule),
      forecast_(on, store_, transfers_.link(), clock_, settings_),
      adaptation_({on, settings_, log_, store_, policy_, clock_, recorder_, transfers_.link(), follower_}),
      room_({on, settings_, store_, policy_, order_, clock_, recorder_, forecast_, scratch_, transfers_, follower_,
             adaptation_, ledger_},
            *this) {
  if (ledger_.wants_profile()) recorder_.record_always(true);
}

session_core::~session_core() {
  // Every block and lease has ended, so nothing new starts; what is under way must end before its memory goes.
  wait_for_all_transfers();
}

void session_core::close() noexcept {
  release_everything();
  name_shortcomings();
  name_idle_settings();
  write_profile();
  finish_log();
  drop_holder();
}

void session_core::release_everything() noexcept {
  transfers_.forget_deferred();
  auto& live = store_.live();
  for (auto e = live.begin(); e != live.end();) {
    entry& item = *e++;  // first, because releasing unlinks it
    ledger_.met(item_event::swept, item);
    item.course.release_asked = true;
    release_if_unused(item);
  }
}

/// At the session's end: whoever wanted recipes to be checked must not believe that they were.
void session_core::name_shortcomings() noexcept {
  auto const& checks = ledger_.totals().recipe_checks;
  if (!checks || checks->checked > 0 || ledger_.totals().steps == 0 || step_) return;
  try {
    log_.warning("{}", support::recipe_check_words(*checks));
  } catch (std::exception const&) {
    return;
  }
}

/// At the session's end: a setting that does nothing would else go unnoticed. Of a step that broke off nothing can be
/// told.
void session_core::name_idle_settings() noexcept {
  if (ledger_.totals().steps == 0 || step_ || settings_.given.empty()) return;
  try {
    progress();
    for (auto const& one : stats().settings_without_effect) log_.info("{} had no effect: {}", one.variable, one.why);
  } catch (std::exception const& problem) {
    log_.info("which settings had no effect is not known: {}", problem.what());
  }
}

void session_core::write_profile() noexcept {
  if (!ledger_.wants_profile()) return;
  try {
    ledger_.take_measurements(false);
    auto const& planned = adaptation_.measured();  // of the warm-up, where every recipe ran
    auto const step = planned ? planned : recorder_.take("recorded");
    if (step) {
      ledger_.write(*step);
    } else {
      log_.warning(
          "FERRY_PROFILE: the file stays empty, because no training step was measured to its end; synchronise "
          "the compute stream before the session ends, and do not interleave micro-batches");
    }
  } catch (std::exception const& problem) {
    log_.error("FERRY_PROFILE: {}", problem.what());
  }
}

void session_core::finish_log() noexcept {
  if (!ledger_.steps().on()) return;
  try {
    // While nobody holds a block or lease any more, transfers are waited for in any case. The rest of the device's work
    // is the trainer's, who may never let it end.
    constexpr double long_enough_us = 1e6;
    progress();
    if (holders_.count == 1) wait_for_all_transfers();
    patience waiting(device_);
    for (ledger_.take_measurements(false); !(ledger_.measured_all() && ledger_.steps().marks_passed());
         ledger_.take_measurements(false)) {
      if (holders_.count > 1 || waiting.waited_us() > long_enough_us) break;
      waiting.wait();
    }
  } catch (std::exception const& problem) {
    log_.info("what the last step took is not known in full: {}", problem.what());
  }
  try {
    ledger_.steps().finish(stats());
  } catch (std::exception const& problem) {
    log_.error("the last statistics are lost: {}", problem.what());
  }
}

std::optional<out_of_device_memory> session_core::advised(out_of_device_memory const& problem) noexcept {
  std::size_t const budget_bytes = store_.device_tier().bytes().limit_bytes();
  if (!support::is_of_budget(problem, budget_bytes) || !tape_.may_tell()) return std::nullopt;
  try {
    return with_advice(problem, {.settings = settings_,
                                 .tape = tape_,
                                 .device_bytes = device_.capabilities().device_bytes,
                                 .budget_bytes = budget_bytes,
                                 .pinned_bytes = store_.pinned_tier().bytes().limit_bytes(),
                                 .placed_by_others = adaptation_.follows_given_plan() || policy_.has_function()});
  } catch (std::exception const& cause) {
    log_.info("which budget is enough cannot be told: {}", cause.what());
    return std::nullopt;
  }
}

std::string session_core::explain() const {
  auto const missed = policy_.shortcoming();
  return support::explain_losses(stats(), settings_) + (missed.empty() ? missed : missed + '\n') +
         adaptation_.verdicts();
}

std::optional<profile> session_core::recorded_profile() {
  if (step_) throw error("recorded_profile: a step is under way; call it after end_step");
  if (auto const& measured = adaptation_.measured()) return measured;  // of the warm-up, where every recipe ran
  ledger_.take_measurements(true);
  return recorder_.take("recorded");
}

session_stats session_core::stats() const {
  return ledger_.stats(transfers_.link(), settings_,
                       {.plans = adaptation_.plans(),
                        .plan_changes = adaptation_.changes_in_steps(),
                        .planned = adaptation_.has_planned(),
                        .placed_by_function = policy_.has_function(),
                        .weighed = forecast_.has_weighed()});
}

void session_core::begin_step(step_kind kind) {
  if (step_) throw error("begin_step: the step before has not ended; call end_step first");
  progress();
  change_budget();
  bool const training = kind == step_kind::train;
  if (training) learn_before_step();
  recorder_.pause(!training);
  step_ = kind;
  ++(training ? ledger_.totals().steps : ledger_.totals().evaluations);
  if (training) ledger_.begin_step(followed(), transfers_.first_open_step());
  for (auto* bytes : {&store_.device_tier().bytes(), &store_.pinned_tier().bytes(), &store_.in_flight()}) {
    bytes->start_clock();
  }
  if (training) transfers_.begin_step();
  tape_.begin_step(ledger_.totals().steps, kind, held_bytes());
}

/// Of blocks and leases.
std::size_t session_core::held_bytes() noexcept {
  std::size_t held = scratch_.bytes();
  for (auto const& e : store_.live()) held += e.leases > 0 ? e.device.bytes() : 0;
  return held;
}

/// What the steps before have shown decides how the next one goes.
void session_core::learn_before_step() {
  transfers_.set_link_for(ledger_.totals().steps, log_);
  recorder_.pause(false);
  if (recorder_.on()) clock_.wait_until_over();  // what is planned for is measured to its end
  ledger_.take_measurements(policy_.measuring() || recorder_.on());
  adaptation_.plan_if_ready(ledger_.totals().steps);
  policy_.learn(store_, ledger_.totals().steps, room_.forced_peak_bytes());
  if (ledger_.measured_all() && ledger_.totals().steps > steps_remembered) {
    store_.forget_unused(ledger_.totals().steps - steps_remembered);
    tape_.forget_before(ledger_.totals().steps - steps_remembered);
  }
  order_.begin_step();
  clock_.begin_step();
  learn();
  adaptation_.between_steps();
  follower_.take_up();
  adaptation_.choose_plan();
  recorder_.begin_step(adaptation_.wants_a_record());
  follower_.begin_step();
  scratch_.begin_step();
}

void session_core::end_step() {
  require_step("end_step");
  progress();
  bool const restored = order_.restored_any();
  if (!evaluating() && restored) checks_.require_inputs();  // else the step goes on, or is abandoned
  if (!evaluating() && restored) clock_.end_step(store_.events());
  for (auto& e : store_.live()) {
    if (!evaluating() && !e.course.restored) ledger_.count(reason::unused_at_end_of_step, e);
    if (e.leases > 0) {
      log_.warning("{} is still leased at the end of the step; it is released when its lease ends", to_string(e.key));
    }
  }
  if (!evaluating() && restored) {
    order_.end_step();
    if (policy_.step_ended()) log_.warning("{}", policy_.shortcoming());
  } else if (!evaluating()) {
    if (clock_.knows_a_stretch()) ++ledger_.totals().evaluations;
    forget_step();
  }
  leave_step(!evaluating() && restored);
}

/// It has no end, no order of needs and no record: nothing is learnt from it.
void session_core::forget_step() noexcept {
  if (evaluating()) return;
  recorder_.abandon_step();
  order_.abandon_step();
}

void session_core::abandon_step() noexcept {
  if (!step_) return;
  forget_step();
  try {
    log_.info("step {} is abandoned", ledger_.totals().steps);
    see_to_others("abandon_step");
  } catch (std::exception const& problem) {
    log_.warning("abandon_step: {}", problem.what());
  }
  try {
    leave_step(false);
  } catch (std::exception const& problem) {
    log_.error("abandon_step: {}", problem.what());
  }
}

void session_core::leave_step(bool whole) {
  bool const training = *step_ == step_kind::train;
  tape_.end_step(whole);
  step_.reset();
  clock_.declare(false);
  release_everything();
  checks_.end_step();
  if (training) {
    ledger_.steps().end_step(transfers_.link().counters(copy_direction::device_to_host).bytes_per_us / 1000,
                             transfers_.link().counters(copy_direction::host_to_device).bytes_per_us / 1000);
    scratch_.end_step();
  }
  for (auto* bytes : {&store_.device_tier().bytes(), &store_.pinned_tier().bytes(), &store_.in_flight()}) {
    bytes->stop_clock();
  }
  transfers_.end_step();
}

void session_core::synchronize() {
  patience waiting(device_);
  for (progress(); transfers_.under_way() > 0 || transfers_.any_deferred(); progress()) waiting.wait();
  for (auto const& e : store_.live()) {
    if (auto const& work = e.device.work()) device_.synchronize(work.ref());
  }
  if (!step_) store_.device_tier().places().forget_unused();
}

block session_core::allocate(std::size_t bytes, stream_ref stream, label const& purpose) {
  require_own(stream);
  if (bytes == 0) throw invalid_argument(fmt::format("allocate of '{}': zero bytes", purpose.view()));
  progress();
  if (!evaluating()) ledger_.steps().allocated(stream);
  auto const call = tape_.note(asked::of_bytes(asked::what::allocate, bytes), stream);
  block made = hand_out(room_.make(bytes, purpose, stream), stream);
  tape_.answered_with(call, made.slot_);
  if (checks_.on()) checks_.fill(scratch_.region(made.slot_), stream);
  return made;
}

block session_core::allocate_at(std::span<device_view const> pieces, stream_ref stream, label const& purpose) {
  require_own(stream);
  progress();
  auto& places = store_.device_tier().places();
  while (auto* const other = places.holder_of(pieces)) {
    require_free(*other, purpose);
    if (other->taken || other->items > 0) break;
  }
  auto& place = places.at(pieces);
  if (!evaluating()) ledger_.steps().allocated(stream);
  auto const call = tape_.note(asked::of_bytes(asked::what::allocate_at, place.bytes), stream);
  block made = hand_out(room_.make_at(place, purpose, stream), stream);
  tape_.answered_with(call, made.slot_);
  if (checks_.on()) checks_.fill(scratch_.region(made.slot_), stream);
  return made;
}

/// Waits for a transfer that still has the bytes of an item that is gone.
void session_core::require_free(store::home const& place, label const& purpose) {
  for (auto const& e : store_.live()) {
    if (e.lives_at != &place) continue;
    throw invalid_argument(
        fmt::format("allocate_at: the memory for '{}' is that of {}; release it first, or give other memory",
                    purpose.view(), to_string(e.key)));
  }
  if (scratch_.has(place)) {
    throw invalid_argument(
        fmt::format("allocate_at: the memory for '{}' is that of a block that lives still", purpose.view()));
  }
  patience waiting(device_);
  for (; place.taken && transfers_.under_way() > 0; progress()) waiting.wait();
}

/// The region is a block's from now on, in the stream's order.
block session_core::hand_out(device_region&& region, stream_ref stream) {
  void* const address = region.address();
  std::size_t const bytes = region.bytes();
  scratch::slot slot = 0;
  try {
    store_.device_tier().order_after_uses(region, stream);
    slot = scratch_.hold(std::move(region));  // nothing is to be freed before this has gone well
  } catch (...) {
    store_.device_tier().free(std::move(region), {});
    throw;
  }
  block made;
  made.core_ = this;
  made.address_ = address;
  made.bytes_ = bytes;
  made.slot_ = slot;
  made.stream_ = stream;
  ++holders_.count;
  if (recorder_.on()) recorder_.scratch(scratch_.bytes());
  return made;
}

void session_core::release(item_key const& key) {
  require_step("release");
  if (evaluating()) return;  // it goes with its last lease
  entry& e = require(key);
  ledger_.met(item_event::release_asked, e);
  e.course.release_asked = true;
  tape_.released(e);
  release_if_unused(e);
  see_to_others("release");
}

outlook session_core::foresee(item_key const& key) {
  require_step("foresee");
  return forecast_.foresee(require(key));
}

std::optional<item_state> session_core::state(item_key const& key) const {
  entry const* const e = store_.find(key);
  if (e == nullptr) return std::nullopt;
  return e->state();
}

}  // namespace ferry::path

namespace ferry {

namespace {

path::session_core& of_this_process(path::session_core* core) {
  if (core == nullptr) throw error("this session was moved from; use the one that it was moved to");
  core->made_in().require("the session");
  return *core;
}

/// A call that may find no room.
template <typename Call>
auto or_advice(path::session_core* of, Call call) {
  auto& core = of_this_process(of);
  try {
    return call(core);
  } catch (out_of_device_memory const& problem) {
    if (auto const told = core.advised(problem)) throw *told;
    throw;
  }
}

}  // namespace

void block::free() noexcept {
  if (address_ != nullptr && core_->made_in().is_this_process()) core_->free(*this);
}

void lease::end() noexcept {
  if (core_ != nullptr && core_->made_in().is_this_process()) core_->end(*this);
}

session::session(device& on, config settings) : core_(new path::session_core(on, std::move(settings))) {}
session::~session() {
  if (core_ != nullptr && core_->made_in().is_this_process()) core_->close();
}

void session::begin_step(step_kind kind) { of_this_process(core_).begin_step(kind); }
void session::end_step() { of_this_process(core_).end_step(); }
void session::abandon_step() noexcept {
  if (core_ != nullptr && core_->made_in().is_this_process()) core_->abandon_step();
}
void session::enter_segment(pass which, std::uint32_t segment, stream_ref stream, std::uint32_t micro_batch) {
  of_this_process(core_).enter_segment(which, {micro_batch, segment, {}}, stream);
}
void session::leave_segment() noexcept {
  if (core_ != nullptr && core_->made_in().is_this_process()) core_->leave_segment();
}
void session::synchronize() { of_this_process(core_).synchronize(); }
block session::allocate(std::size_t bytes, stream_ref stream, label const& purpose) {
  return or_advice(core_, [&](auto& core) { return core.allocate(bytes, stream, purpose); });
}
block session::allocate_at(std::span<device_view const> pieces, stream_ref stream, label const& purpose) {
  return or_advice(core_, [&](auto& core) { return core.allocate_at(pieces, stream, purpose); });
}
lease session::save(item_key const& key, block&& memory, stream_ref stream, recipe how) {
  return of_this_process(core_).save(key, std::move(memory), stream, std::move(how));
}
lease session::save(item_key const& key, device_view memory, stream_ref stream, release_callback on_release,
                    recipe how) {
  return or_advice(core_,
                   [&](auto& core) { return core.save(key, memory, stream, std::move(on_release), std::move(how)); });
}
lease session::restore(item_key const& key, stream_ref stream) {
  return or_advice(core_, [&](auto& core) { return core.restore(key, stream); });
}
void session::release(item_key const& key) { of_this_process(core_).release(key); }
std::optional<item_state> session::state(item_key const& key) const { return of_this_process(core_).state(key); }
void session::idle_hint(double us) { of_this_process(core_).idle_hint(us); }
outlook session::foresee(item_key const& key) const { return of_this_process(core_).foresee(key); }
void session::set_placement(placement_function choose) { of_this_process(core_).set_placement(std::move(choose)); }
void session::follow(plan planned) { of_this_process(core_).follow(std::move(planned)); }
plan const* session::followed() const noexcept { return core_ != nullptr ? core_->followed() : nullptr; }
void session::set_budget(byte_amount budget) { of_this_process(core_).set_budget(budget); }
void session::record_profile(bool on) { of_this_process(core_).record_profile(on); }
std::optional<profile> session::recorded_profile() { return of_this_process(core_).recorded_profile(); }
session_stats session::stats() const { return of_this_process(core_).stats(); }
std::string session::explain() const { return of_this_process(core_).explain(); }
config const& session::settings() const { return of_this_process(core_).settings(); }

}  // namespace ferry
