#include "path/recipe_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>

#include "ferry/error.hpp"
#include "support/pause.hpp"

namespace ferry::path {

using store::device_region;
using store::entry;

namespace {

/// Of a byte of a block, until somebody writes it: no value that arithmetic likes.
std::byte pattern(std::size_t at) noexcept { return static_cast<std::byte>(at * 167 + 13); }

std::span<device_view const> pieces_of(store::home const* place, device_view const& whole) {
  return place != nullptr ? std::span<device_view const>(place->pieces) : std::span(&whole, 1);
}

/// "byte 70 of 100 (byte 20 of its piece 2)"
std::string place_words(recipe_checks::subject const& item, std::size_t at) {
  auto text = fmt::format("byte {} of {}", at, item.bytes);
  if (item.place == nullptr || item.place->pieces.size() < 2) return text;
  std::size_t number = 1;
  for (auto const& piece : item.place->pieces) {
    if (at < piece.bytes) break;
    at -= piece.bytes;
    ++number;
  }
  return text + fmt::format(" (byte {} of its piece {})", at, number);
}

}  // namespace

/// Free memory for as long as a check takes.
class recipe_checks::borrowed {
 public:
  explicit borrowed(store::device_pool& from) noexcept : from_(from) {}
  borrowed(borrowed const&) = delete;
  borrowed& operator=(borrowed const&) = delete;
  /// Nothing touches it any more.
  ~borrowed() {
    if (region_) from_.free(std::move(*region_), {});
  }
  /// False if nothing is free.
  [[nodiscard]] bool take(std::size_t bytes, stream_ref writer, stream_ref copies) {
    region_ = from_.allocate(bytes, "recipe check");
    if (!region_) return false;
    from_.order_after_uses(*region_, writer);
    from_.order_after_uses(*region_, copies);
    return true;
  }
  [[nodiscard]] void* address() const noexcept { return region_ ? region_->address() : nullptr; }

 private:
  store::device_pool& from_;
  std::optional<device_region> region_;
};

recipe_checks::recipe_checks(device& on, config const& settings, store::tiered_store& store, observe::ledger& ledger)
    : device_(on), on_(verifies(settings.verify, verify_mode::recipes)), store_(store), ledger_(ledger) {
  if (on_) ledger_.totals().recipe_checks.emplace();
}

/// What the recipe names and this step has not saved; or null.
item_key const* recipe_checks::unknown_input(entry const& e) const {
  for (auto const& key : e.rebuild.how->inputs.keys()) {
    entry const* const input = store_.known(key);
    if (input == nullptr || input->saved_in_step != ledger_.totals().steps) return &key;
  }
  return nullptr;
}

void recipe_checks::look_for_inputs(entry& e) {
  e.rebuild.inputs_known = unknown_input(e) == nullptr;
  if (!e.rebuild.inputs_known) with_unknown_inputs_.push_back(&e);
}

void recipe_checks::require_inputs() {
  for (entry* const e : with_unknown_inputs_) {
    item_key const* const unknown = e->rebuild.was_possible ? unknown_input(*e) : nullptr;
    if (unknown == nullptr) continue;
    throw recipe_error(
        fmt::format("the recipe of {} names {} as an input, which this step has not saved; save that item, or name "
                    "what the recipe reads",
                    to_string(e->key), to_string(*unknown)));
  }
  for (entry* const e : with_unknown_inputs_) e->rebuild.inputs_known = e->rebuild.was_possible;
  with_unknown_inputs_.clear();
}

void recipe_checks::fill(device_region const& block, stream_ref stream) {
  if (!device_.capabilities().holds_bytes || !is_over(stream) || !has_stage()) return;
  device_view const whole{block.address(), block.bytes()};
  made_.resize(block.bytes());
  for (std::size_t i = 0; i < made_.size(); ++i) made_[i] = pattern(i);
  copy_in(pieces_of(block.in_place, whole), made_.data());
}

void recipe_checks::at_save(subject const& item, stream_ref stream, recipe& how) {
  std::uint64_t const step = ledger_.totals().steps;
  turn& its = turns_.try_emplace(item.key, turn{.due = step + turns_.size() % round_steps}).first->second;
  entry const* const known = store_.known(item.key);
  its.saved_in = step;
  its.recomputes = known != nullptr ? known->record.stats.recomputes : 0;
  its.was_filled = item.was_filled;
  its.open = step >= its.due;
  if (its.open) check(its, item, stream, how);
}

bool recipe_checks::wants(entry const& e) const {
  auto const found = turns_.find(e.key);
  if (found == turns_.end()) return false;
  turn const& its = found->second;
  return its.open && its.saved_in == e.saved_in_step && its.recomputes == e.record.stats.recomputes;
}

void recipe_checks::at_restore(entry& e, stream_ref stream) {
  if (e.lives_at != nullptr) {  // nobody else may look at it while the recipe runs there
    if (e.leases > 1) return;
    for (auto const user : e.users) {
      if (auto const mark = store_.events().record_if_alive(user)) wait_until_over(device_, mark.ref());
    }
    for (auto const& use : e.uses) wait_until_over(device_, use.ref());
  }
  turn& its = turns_.at(e.key);
  check(its, {e.key, e.device.address(), e.bytes, e.lives_at, its.was_filled}, stream, *e.rebuild.how);
}

void recipe_checks::check(turn& of, subject const& item, stream_ref stream, recipe& how) {
  of.open = false;  // one that differs has been looked at
  of.last = compare(item, stream, how);
  of.open = of.last != outcome::same;
  if (of.open) return;
  of.due = ledger_.totals().steps + round_steps;
  ++ledger_.totals().recipe_checks->checked;
}

void recipe_checks::end_step() noexcept {
  with_unknown_inputs_.clear();
  if (!on_) return;
  auto& counts = *ledger_.totals().recipe_checks;
  constexpr std::uint64_t steps_remembered = 8;
  std::erase_if(turns_,
                [&](auto const& one) { return one.second.saved_in + steps_remembered < ledger_.totals().steps; });
  for (auto& [key, its] : turns_) {
    if (!std::exchange(its.open, false)) continue;
    ++(its.last == outcome::inputs_away ? counts.inputs_away
       : its.last == outcome::no_room   ? counts.no_room
                                        : counts.not_comparable);
  }
}

/// Throws: `recipe_error` for a difference.
recipe_checks::outcome recipe_checks::compare(subject const& item, stream_ref stream, recipe& how) {
  if (!device_.capabilities().holds_bytes) return outcome::not_comparable;
  boost::container::small_vector<void const*, 8> inputs;
  for (auto const& key : how.inputs.keys()) {
    entry const* const input = store_.find(key);
    if (input == nullptr || !is_there(*input)) return outcome::inputs_away;
    inputs.push_back(input->device.address());
  }
  if (!is_over(stream)) return outcome::not_comparable;
  if (!has_stage()) return outcome::no_room;
  borrowed target(store_.device_tier());
  borrowed working(store_.device_tier());
  if (item.place == nullptr && !target.take(item.bytes, stream, *copies_)) return outcome::no_room;
  if (how.scratch_bytes > 0 && !working.take(how.scratch_bytes, stream, *copies_)) return outcome::no_room;

  device_view const whole{item.address, item.bytes};
  auto const original = pieces_of(item.place, whole);
  saved_.resize(item.bytes);
  made_.resize(item.bytes);
  copy_out(original, saved_.data());
  void* const output = item.place != nullptr ? item.address : target.address();
  try {
    recipe_context to{stream, output, item.bytes, {inputs.data(), inputs.size()}, 0, how.rows, working.address()};
    // First the later half of the rows alone, as after a transfer that was given up; at last all of them.
    for (std::size_t row = how.rows / 2;; row = 0) {
      to.first_row = row;
      to.rows = how.rows - row;
      run(item, how, to);
      if (row == 0) break;
    }
  } catch (...) {
    static_cast<void>(is_over(stream));
    if (item.place != nullptr) copy_in(original, saved_.data());
    throw;
  }
  return outcome::same;
}

void recipe_checks::run(subject const& item, recipe& how, recipe_context const& to) {
  device_view const whole{to.output, item.bytes};
  auto const target = pieces_of(item.place, whole);
  // Memory that Ferry did not hand out may hold anything: there all of it has to be written.
  auto const before = [&](std::size_t i) { return item.was_filled ? pattern(i) : ~saved_[i]; };
  for (std::size_t i = 0; i < item.bytes; ++i) made_[i] = before(i);
  copy_in(target, made_.data());
  call_recipe(item.key, how, to);
  event const done(device_);
  done.record(to.stream);
  try {
    done.synchronize();
  } catch (stream_error const& cause) {
    throw recipe_error(fmt::format("the recipe of {} failed: {}", to_string(item.key), cause.what()));
  }
  copy_out(target, made_.data());

  std::size_t const first = to.first_row * (item.bytes / how.rows);
  for (std::size_t i = 0; i < item.bytes; ++i) {
    if (made_[i] == (i < first ? before(i) : saved_[i])) continue;
    if (i < first) {
      throw recipe_error(
          fmt::format("the recipe of {} writes {}, which is before row {} of {}, the first that it was asked for "
                      "(FERRY_VERIFY=recipes); it may touch no other rows",
                      to_string(item.key), place_words(item, i), to.first_row, how.rows));
    }
    throw recipe_error(
        fmt::format("the recipe of {} does not give the item's bits: {} is 0x{:02x}, the item has 0x{:02x}{} "
                    "(FERRY_VERIFY=recipes); a recipe must be the very operation that made its item, from the same "
                    "inputs and random numbers",
                    to_string(item.key), place_words(item, i), std::to_integer<unsigned>(made_[i]),
                    std::to_integer<unsigned>(saved_[i]),
                    first > 0 ? fmt::format(", when it is asked for rows from {} on", to.first_row) : ""));
  }
}

bool recipe_checks::is_over(stream_ref stream) {
  event const mark(device_);
  mark.record(stream);
  wait_until_over(device_, mark);
  return device_.query(mark) == event_status::complete;
}

bool recipe_checks::is_there(entry const& e) {
  if (!e.on_device()) return false;
  if (auto const& work = e.device.work()) wait_until_over(device_, work.ref());
  return e.device.look(device_) == store::verdict::good;
}

/// Host memory that copies go through.
bool recipe_checks::has_stage() {
  constexpr std::size_t bytes = 256 << 10;
  if (!copies_) copies_.emplace(device_, stream_kind::copy, "recipe checks");
  if (!stage_.empty()) return true;
  try {
    pinned_ = memory(device_, memory_space::pinned, bytes);
    stage_ = {pinned_.as<std::byte>(), bytes};
  } catch (out_of_memory const&) {
    if (!device_.capabilities().host_addressable) return false;
    pageable_.resize(bytes);
    stage_ = pageable_;
  }
  return true;
}

template <typename Copy>
void recipe_checks::in_parts(std::span<device_view const> pieces, Copy copy) {
  std::size_t at = 0;
  for (auto const& piece : pieces) {
    for (std::size_t done = 0; done < piece.bytes;) {
      std::size_t const bytes = std::min(stage_.size(), piece.bytes - done);
      copy(static_cast<std::byte*>(piece.address) + done, at, bytes);
      done += bytes;
      at += bytes;
    }
  }
}

void recipe_checks::copy_out(std::span<device_view const> pieces, std::byte* to) {
  in_parts(pieces, [&](std::byte const* from, std::size_t at, std::size_t bytes) {
    device_.copy(*copies_, "recipe check", copy_direction::device_to_host, stage_.data(), from, bytes);
    copies_->synchronize();
    std::copy_n(stage_.data(), bytes, to + at);
  });
}

void recipe_checks::copy_in(std::span<device_view const> pieces, std::byte const* from) {
  in_parts(pieces, [&](std::byte* to, std::size_t at, std::size_t bytes) {
    std::copy_n(from + at, bytes, stage_.data());
    device_.copy(*copies_, "recipe check", copy_direction::host_to_device, to, stage_.data(), bytes);
    copies_->synchronize();
  });
}

}  // namespace ferry::path
