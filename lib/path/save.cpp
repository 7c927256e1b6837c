// save: a block, or memory of the trainer's, becomes an item; the policy says what is to become of it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"
#include "support/stage.hpp"

namespace ferry::path {

namespace {

void require_rows(item_key const& key, std::size_t bytes, recipe const& how) {
  if (!how || (how.rows > 0 && bytes % how.rows == 0)) return;
  throw invalid_argument(
      fmt::format("save of {}: its {} bytes are not {} equal rows; give the recipe a number of rows "
                  "that divides them, or 1",
                  to_string(key), bytes, how.rows));
}

}  // namespace

lease session_core::save(item_key const& key, block&& memory, stream_ref stream, recipe&& how) {
  require_step("save");
  require_own(stream);
  if (!memory) throw invalid_argument(fmt::format("save of {}: the block is empty", to_string(key)));
  if (memory.core_ != this) {
    throw invalid_argument(fmt::format("save of {}: the block belongs to another session", to_string(key)));
  }
  require_rows(key, memory.bytes(), how);
  infer_segment(pass::forward, key, stream);
  if (checks_.on()) {
    check_recipe({key, memory.address_, memory.bytes_, scratch_.region(memory.slot_).in_place, true}, stream, how);
  }
  auto ready = store_.events().record(stream);  // if that fails, the block is still the caller's
  entry& e = store_.admit(key);
  auto const call = tape_.note(asked::of_item(asked::what::save, e, memory.slot_), stream);
  auto region = scratch_.take_out(memory.slot_);
  if (recorder_.on() && scratch_.is_newest(memory.slot_)) recorder_.scratch_saved(scratch_.bytes());
  memory.core_ = nullptr;
  memory.address_ = nullptr;
  --holders_.count;  // never the last: the caller's session holds it too
  lease held = evaluating() ? hold_for_now(e, std::move(region), std::move(ready), stream, {})
                            : settle_in(e, std::move(region), std::move(ready), stream, {}, std::move(how));
  tape_.saved(call, e.course.where, e.rebuild.possible);
  return held;
}

lease session_core::save(item_key const& key, device_view memory, stream_ref stream, release_callback on_release,
                         recipe&& how) {
  require_step("save");
  require_own(stream);
  if (memory.address == nullptr || memory.bytes == 0) {
    throw invalid_argument(fmt::format("save of {}: the memory to adopt is {}", to_string(key),
                                       memory.address == nullptr ? "a null pointer" : "of zero bytes"));
  }
  require_rows(key, memory.bytes, how);
  infer_segment(pass::forward, key, stream);
  if (checks_.on()) check_recipe({key, memory.address, memory.bytes, nullptr, false}, stream, how);
  auto ready = store_.events().record(stream);
  entry& e = store_.admit(key);
  auto const call = tape_.note(asked::adopting(e, memory.bytes), stream);
  auto region = room_.make_for(key, memory, stream);
  lease held = evaluating()
                   ? hold_for_now(e, std::move(region), std::move(ready), stream, std::move(on_release))
                   : settle_in(e, std::move(region), std::move(ready), stream, std::move(on_release), std::move(how));
  tape_.saved(call, e.course.where, e.rebuild.possible);
  return held;
}

/// With FERRY_VERIFY=recipes: before anything has changed hands, so a save that throws has done nothing.
void session_core::check_recipe(recipe_checks::subject const& item, stream_ref stream, recipe& how) {
  if (!evaluating() && how && store_.find(item.key) == nullptr) checks_.at_save(item, stream, how);
}

/// In an evaluation: the item goes with its last lease.
lease session_core::hold_for_now(entry& e, device_region&& region, event_handle ready, stream_ref stream,
                                 release_callback on_release) {
  ledger_.met(item_event::saved, e);
  store_.make_resident(e, std::move(region), std::move(ready));
  if (on_release) e.on_release = std::move(on_release);
  e.course.where = placement::keep;
  e.course.may_drop = false;
  e.course.restored = false;
  e.course.release_asked = true;
  lease held = lend(e, stream);
  see_to_others("save");
  return held;
}

lease session_core::settle_in(entry& e, device_region&& region, event_handle ready, stream_ref stream,
                              release_callback on_release, recipe&& how) {
  support::stage const here("ferry save");
  ledger_.met(item_event::saved, e);
  store_.make_resident(e, std::move(region), std::move(ready));
  if (how) {
    e.rebuild.possible = true;
    if (e.rebuild.how == nullptr) e.rebuild.how = std::make_unique<recipe>();
    bool const known = e.rebuild.inputs_known && std::ranges::equal(e.rebuild.how->inputs.keys(), how.inputs.keys());
    *e.rebuild.how = std::move(how);
    if (!known) checks_.look_for_inputs(e);
  }
  if (on_release) e.on_release = std::move(on_release);
  e.rebuild.was_possible = e.rebuild.possible;
  clock_.called();
  e.course.restored = false;
  e.failure.clear();
  e.saved_in_step = ledger_.totals().steps;
  e.record.stats.bytes = e.bytes;
  ++e.record.stats.saves;
  ++ledger_.totals().saves;

  if (recorder_.on()) recorder_.saved(e);
  ledger_.steps().saved(e);

  auto const [where, why] = decide(e);
  e.course.where = where;
  e.course.may_drop = e.rebuild.possible && !(where == placement::keep && policy_.keep_is_firm());
  ledger_.count(why, e);

  lease held = lend(e, stream);
  try {
    if (where == placement::offload) offload(e);
  } catch (error const& problem) {  // the item is saved all the same
    log_.warning("after the save of {}: {}", to_string(e.key), problem.what());
    next_choice(e, reason::dropped_after_failed_offload, reason::kept_after_failed_offload);
  }
  see_to_others("save");
  return held;
}

}  // namespace ferry::path
