#include "observe/step_log.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "ferry/error.hpp"
#include "observe/stats_line.hpp"
#include "support/pause.hpp"

namespace ferry::observe {

namespace {

/// Clocks drift, and the distance of two events is exact only while it is short.
constexpr double base_lasts_us = 10e6;

/// Two writers would mix their lines; a device such as /dev/null has nobody to read them.
void require_different_files(config const& settings) {
  if (settings.trace_file.empty() || settings.stats_file.empty()) return;
  std::error_code unknown;
  bool const same = std::filesystem::equivalent(settings.trace_file, settings.stats_file, unknown) ||
                    settings.trace_file == settings.stats_file;
  if (same && std::filesystem::is_regular_file(settings.trace_file, unknown)) {
    throw setting_error(fmt::format("FERRY_TRACE='{}': FERRY_STATS names the same file; choose another for one of them",
                                    settings.trace_file));
  }
}

double known(double us) { return std::isfinite(us) ? us : 0; }

}  // namespace

step_log::step_log(device& on, config const& settings, support::logger const& log, store::tiered_store& store)
    : device_(on),
      origin_(on.now()),
      store_(store),
      budgets_{&store.device_tier().bytes(), &store.pinned_tier().bytes(), &store.in_flight()},
      stats_file_("FERRY_STATS", settings.stats_file, log) {
  if (!settings.trace_file.empty()) {
    require_different_files(settings);
    trace_.emplace(settings.trace_file, log, on.capabilities().name, settings.stall_tolerance_us);
    trace_->settings(settings, budgets_);
    clock_.emplace(on, stream_kind::copy, "ferry clock");
  }
  if (!trace_ && !stats_file_.is_open()) return;
  open_book(0);  // for what happens before the first step
  now_->ended = true;
  for (auto* bytes : {&store.device_tier().bytes(), &store.pinned_tier().bytes(), &store.in_flight()}) {
    bytes->tell(this);
  }
}

step_log::~step_log() {
  for (auto* bytes : {&store_.device_tier().bytes(), &store_.pinned_tier().bytes(), &store_.in_flight()}) {
    bytes->tell(nullptr);
  }
}

void step_log::begin_step(std::uint64_t number, plan const* followed) {
  if (!on()) return;
  if (trace_) tie_clocks();
  open_book(number);
  now_->began_us = now_->ended_us = now_us();
  first_mark_ = {};
  now_->planned_us = followed != nullptr ? followed->step_us : 0;
  last_stream_ = {};
}

void step_log::end_step(double out_gbps, double in_gbps) {
  if (!on()) return;
  end_stretch({});
  now_->links[0].gbps = out_gbps;
  now_->links[1].gbps = in_gbps;
  now_->ended_us = now_us();
  now_->ended = true;
}

void step_log::open_book(std::uint64_t number) {
  if (spare_.empty()) spare_.push_back(std::make_unique<step_record>());
  open_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  now_ = open_.back().get();
  now_->number = number;
  now_->base = base_;
  now_->base_us = base_us_;
  for (std::size_t i = 0; i < tier_count; ++i) now_->peak_bytes[i] = budgets_[i]->used_bytes();
}

/// Records an event on an idle stream and looks at the clock before and after: it passed in between.
void step_log::tie_clocks() {
  if (base_ && now_us() - base_us_ < base_lasts_us) return;
  constexpr int attempts = 5;
  constexpr double close_enough_us = 5;
  double closest_us = std::numeric_limits<double>::infinity();
  for (int i = 0; i < attempts && closest_us > close_enough_us; ++i) {
    double const before_us = now_us();
    auto mark = store_.events().record_if_possible(*clock_, event_timing::on);
    if (!mark) continue;
    wait_until_over(device_, mark.ref());
    double const after_us = now_us();
    if (after_us - before_us >= closest_us) continue;
    closest_us = after_us - before_us;
    base_ = std::move(mark);
    base_us_ = (before_us + after_us) / 2;
  }
}

void step_log::allocated(stream_ref stream) {
  if (!on() || now_->ended || first_mark_ || !now_->stretches.empty()) return;
  first_mark_ = store_.events().record_if_possible(stream, event_timing::on);
}

void step_log::entered(pass which, item_key const& key, stream_ref stream) {
  if (!on()) return;
  if (!trace_ && !now_->stretches.empty()) {
    last_stream_ = stream;  // without a trace, only the step's beginning and end are asked for
    return;
  }
  end_stretch(stream);
  auto& entered = now_->stretches.emplace_back();
  entered.which = which;
  entered.micro_batch = key.micro_batch;
  entered.segment = key.segment;
  entered.lane = lane_of(*now_, stream);
  bool const from_the_start = first_mark_ && first_mark_.stream() == stream;
  entered.from = from_the_start ? first_mark_ : store_.events().record_if_possible(stream, event_timing::on);
  first_mark_ = {};
  if (now_->stretches.size() > 1 && !std::prev(now_->stretches.end(), 2)->to) {
    std::prev(now_->stretches.end(), 2)->to = entered.from;
  }
  last_stream_ = stream;
}

/// Marks the end of the last stretch, unless it is where the next one begins on the same stream. If the trainer has
/// destroyed that, the end is not known.
void step_log::end_stretch(stream_ref next) {
  if (now_->stretches.empty() || now_->stretches.back().to || last_stream_ == next) return;
  now_->stretches.back().to = store_.events().record_if_possible(last_stream_, event_timing::on);
}

std::uint32_t step_log::lane_of(step_record& book, stream_ref stream) {
  auto const found = std::ranges::find(book.streams, stream);
  auto const lane = static_cast<std::uint32_t>(found - book.streams.begin());
  if (found == book.streams.end()) book.streams.push_back(stream);
  return lane;
}

void step_log::saved(store::entry& e) {
  if (!on()) return;
  e.record.log_line = static_cast<std::uint32_t>(now_->items.size());
  auto& line = now_->items.emplace_back();
  line.key = e.key;
  line.bytes = e.bytes;
  line.saved_us = now_us();
}

void step_log::needed(store::entry const& e) {
  if (!on()) return;
  ++now_->restores;
  item_line* const line = line_of(e);
  if (line == nullptr || line->needed_us >= 0) return;
  line->needed_us = now_us();
  line->needed_in = static_cast<std::uint32_t>(now_->stretches.size()) - 1;
}

void step_log::decided(store::entry const& e, reason why, outlook const& seen) noexcept {
  if (!on()) return;
  auto const kind = static_cast<std::size_t>(why);
  ++now_->counts[kind];
  now_->bytes[kind] += e.bytes;
  try {
    decision_record const record{e.key, e.bytes, why, {known(seen.transfer_us), known(seen.recipe_us)}, now_us(), 0};
    now_->decisions.push_back({record, index_of(e)});
  } catch (std::bad_alloc const&) {
    return;  // a note less
  }
}

void step_log::transferred(store::transfer const& ended) {
  if (!on()) return;
  auto const outcome = ended.phase.load(std::memory_order_acquire);
  std::size_t const arrived = ended.arrived_bytes.load(std::memory_order_relaxed);
  bool const completed = outcome == store::transfer_phase::completed;
  step_record* const its_own = book_of(ended.owner.saved_in_step);
  step_record& book = its_own != nullptr ? *its_own : *now_;
  auto& link = book.links[static_cast<std::size_t>(ended.job.direction)];
  ++(completed ? link.transfers : outcome == store::transfer_phase::abandoned ? link.abandoned : link.failed);
  link.bytes += arrived;

  bool const began = ended.issued_bytes > 0;
  if (!began && outcome == store::transfer_phase::abandoned) return;
  double const from_us = arrived > 0 ? us_of(ended.result.copying_since)
                         : began     ? us_of(ended.progress.began)
                                     : now_us();
  double const to_us = arrived > 0 ? us_of(ended.result.copying_until) : now_us();
  std::uint32_t const index = its_own != nullptr ? ended.owner.log_line : no_line;
  if (trace_) {
    book.copies.push_back(
        {ended.job.direction, outcome, ended.job.name, index, ended.job.bytes, arrived, from_us, to_us});
  }
  if (!book.has(index)) return;
  auto& line = book.items[index];
  line.moved_us += ended.result.moved_us;
  if (!completed) return;
  bool const out = ended.job.direction == copy_direction::device_to_host;
  (out ? line.offload_began_us : line.fetch_began_us) = from_us;
  (out ? line.offload_ended_us : line.arrived_us) = to_us;
}

void step_log::waited_for_bytes(store::entry const* blamed, double us) {
  if (!on() || us <= 0) return;
  now_->host_waited_us += us;
  double const to_us = now_us();
  auto const index = blamed != nullptr ? index_of(*blamed) : no_line;
  now_->waits.push_back({host_line::kind::waiting_for_bytes, index, to_us - us, to_us});
}

void step_log::held_back(double us) {
  if (!on() || us <= 0) return;
  now_->run_ahead_us += us;
  double const to_us = now_us();
  now_->waits.push_back({host_line::kind::held_back, no_line, to_us - us, to_us});
}

step_log::place step_log::place_of(store::entry const* e) const noexcept {
  if (!on()) return {};
  std::uint32_t const item = e != nullptr ? index_of(*e) : no_line;
  return {now_->number, item, static_cast<std::uint32_t>(now_->decisions.size())};
}

void step_log::measured(compute_line::kind what, place const& at, store::event_handle const& from, double took_us) {
  if (!on()) return;
  step_record* const book = book_of(at.step);
  if (book == nullptr) return;
  bool const recipe = what == compute_line::kind::recipe;
  if (recipe) ++book->recomputes;
  if (what == compute_line::kind::short_of_bytes) book->waited_for_bytes_us += took_us;
  (recipe ? book->recompute_us : book->exposed_us) += took_us;
  if (book->has(at.item)) (recipe ? book->items[at.item].recipe_us : book->items[at.item].exposed_us) += took_us;
  auto& decisions = book->decisions;
  auto const is_its = [&](std::uint32_t i) { return i < decisions.size() && decisions[i].item == at.item; };
  if (is_its(at.decision)) decisions[at.decision].record.took_us = took_us;
  if (!trace_ || !book->base) return;
  auto const since_base_us = store::elapsed_us(device_, book->base, from);
  if (!since_base_us) return;
  double const from_us = book->base_us + *since_base_us;
  book->compute.push_back({what, lane_of(*book, from.stream()), at.item, from_us, from_us + took_us});
}

void step_log::changed(store::budget const& what) noexcept {
  auto const found = std::ranges::find(budgets_, &what);
  auto const index = static_cast<std::size_t>(found - budgets_.begin());
  now_->peak_bytes[index] = std::max(now_->peak_bytes[index], what.used_bytes());
  if (!trace_) return;
  try {
    now_->tiers.push_back({static_cast<tier>(index), now_us(), what.used_bytes()});
  } catch (std::bad_alloc const&) {
    return;  // a note less
  }
}

void step_log::flush(std::uint64_t first_open) {
  if (!on()) return;
  while (open_.size() > 1 && open_.front()->number < first_open && marks_passed(*open_.front())) {
    write(*open_.front());
    open_.front()->clear();
    spare_.push_back(std::move(open_.front()));
    open_.erase(open_.begin());
  }
}

void step_log::finish(session_stats const& totals) noexcept {
  if (!on()) return;
  try {
    for (auto const& book : open_) write(*book);
    stats_file_.append(to_json(totals, -1) + '\n');
  } catch (std::exception const&) {
    // No memory for the text: the files end with the steps they have.
  }
  if (trace_) trace_->finish();
  now_ = nullptr;
  for (auto* bytes : {&store_.device_tier().bytes(), &store_.pinned_tier().bytes(), &store_.in_flight()}) {
    bytes->tell(nullptr);
  }
}

bool step_log::marks_passed() const {
  return std::ranges::all_of(open_, [this](auto const& book) { return marks_passed(*book); });
}

bool step_log::marks_passed(step_record const& book) const {
  auto const passed = [this](store::event_handle const& mark) {
    return !mark || device_.query(mark.ref()) != event_status::pending;
  };
  return std::ranges::all_of(book.stretches, [&](auto const& one) { return passed(one.from) && passed(one.to); });
}

void step_log::time_stretches(step_record& book) const {
  auto const complete = [this](store::event_handle const& mark) {
    return mark && device_.query(mark.ref()) == event_status::complete;
  };
  // Without a base, on a clock that begins with the step.
  auto const base = book.base ? book.base : book.stretches.empty() ? store::event_handle() : book.stretches[0].from;
  if (!complete(base)) return;
  auto const time_of = [&](store::event_handle const& mark) {
    auto const since_base_us = complete(mark) ? store::elapsed_us(device_, base, mark) : std::nullopt;
    return since_base_us ? book.base_us + *since_base_us : never_us;
  };
  for (auto& one : book.stretches) {
    one.from_us = time_of(one.from);
    one.to_us = time_of(one.to);
  }
}

void step_log::write(step_record& book) {
  if (!book.ended) book.ended_us = now_us();
  time_stretches(book);
  if (trace_) trace_->write(book);
  if (stats_file_.is_open() && book.number > 0) stats_file_.append(step_line(book));
}

double step_log::us_of(std::chrono::nanoseconds time) const noexcept { return microseconds_of(time - origin_); }
double step_log::now_us() const noexcept { return us_of(device_.now()); }

step_record* step_log::book_of(std::uint64_t step) noexcept {
  for (auto const& book : open_) {
    if (book->number == step) return book.get();
  }
  return nullptr;
}

std::uint32_t step_log::index_of(store::entry const& e) const noexcept {
  return e.saved_in_step == now_->number ? e.record.log_line : no_line;
}

item_line* step_log::line_of(store::entry const& e) noexcept {
  std::uint32_t const index = index_of(e);
  return now_->has(index) ? &now_->items[index] : nullptr;
}

}  // namespace ferry::observe
