// recompute: a recipe rebuilds an item from others on the consumer's stream. Its inputs are brought back
// first, in whatever way each of them needs, and are lent to the recipe for as long as it is enqueued.
#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <span>
#include <string>
#include <utility>

#include "ferry/error.hpp"
#include "path/recipe_checks.hpp"
#include "path/session_core.hpp"
#include "support/stage.hpp"

namespace ferry::path {

namespace {

/// Inputs lent to a recipe, each at its place: given back however the recipe ends.
class borrowed_inputs {
 public:
  template <typename GiveBack>
  borrowed_inputs(std::size_t size, GiveBack give_back) : inputs_(size, nullptr), give_back_(std::move(give_back)) {}
  borrowed_inputs(borrowed_inputs const&) = delete;
  borrowed_inputs& operator=(borrowed_inputs const&) = delete;
  ~borrowed_inputs() {
    for (entry* const e : all()) {
      if (e != nullptr) give_back_(*e);
    }
  }
  void put(std::size_t place, entry& e) {
    ++e.leases;
    inputs_[place] = &e;
  }
  [[nodiscard]] bool has(std::size_t place) const noexcept { return inputs_[place] != nullptr; }
  [[nodiscard]] std::span<entry* const> all() const noexcept { return {inputs_.data(), inputs_.size()}; }

 private:
  boost::container::small_vector<entry*, 8> inputs_;
  unique_function<void(entry&)> give_back_;
};

}  // namespace

/// Throws: `recipe_error` for what is no error of Ferry's.
void call_recipe(item_key const& key, recipe& how, recipe_context const& to) {
  try {
    how.enqueue(to);
  } catch (error const&) {
    throw;
  } catch (std::exception const& cause) {
    throw recipe_error(fmt::format("the recipe of {} failed: {}", to_string(key), cause.what()));
  }
}

void session_core::recompute(entry& e, stream_ref stream, reason why, outlook const& seen, std::size_t rows_there) {
  support::stage const here("ferry recompute");
  ledger_.met(item_event::recipe_begun, e);
  item_state const before = e.state() == item_state::dropped ? item_state::dropped : item_state::hosted;
  e.advance(item_state::recomputing);
  try {
    auto const keys = e.rebuild.how->inputs.keys();
    borrowed_inputs inputs(keys.size(), [&](entry& input) {
      input.add_use(stream);
      if (--input.leases == 0) release_if_unused(input);
    });
    auto const bring = [&](std::size_t place, bool dropped_only) {
      entry* const input = inputs.has(place) ? nullptr : &require_input(e, keys[place]);
      if (input == nullptr || (dropped_only && input->state() != item_state::dropped)) return;
      inputs.put(place, *input);
      ledger_.met(item_event::needed_by_recipe, *input);
      bring_back(*input, stream);
      input->course.restored = true;  // it stays for whoever asks next, as long as there is room
    };
    // First what must be rebuilt itself: nothing else is held in memory meanwhile.
    for (std::size_t i = 0; i < keys.size(); ++i) bring(i, true);
    for (std::size_t i = 0; i < keys.size(); ++i) bring(i, false);
    if (!e.device) e.device.replace(room_.make_for(e, stream));
    store_.device_tier().order_after_uses(e.device.region(), stream);
    // Bytes that a failed way back left behind may still have readers.
    for (auto const user : e.users) {
      auto const mark = user != stream ? store_.events().record_if_alive(user) : event_handle();
      if (mark) device_.wait(stream, mark.ref());
    }
    for (auto const& use : e.uses) {
      if (use.stream() != stream) device_.wait(stream, use.ref());
    }
    block const working = e.rebuild.how->scratch_bytes > 0
                              ? hand_out(room_.make(e.rebuild.how->scratch_bytes, "recipe", stream), stream)
                              : block();
    run_recipe(e, stream, inputs.all(), working.data(), rows_there, why == reason::recomputed_ahead);
  } catch (...) {
    if (e.device) e.add_use(stream);  // the recipe may have enqueued part of its work
    ledger_.met(item_event::recipe_failed, e);
    e.device.disown();  // of what the link or the recipe has written, some may be missing
    e.advance(before);
    release_if_unused(e);
    throw;
  }
  ledger_.met(item_event::recipe_enqueued, e);
  e.advance(item_state::resident);
  ++e.record.stats.recomputes;
  ++ledger_.totals().recomputes;
  ledger_.count(why, e, seen);
}

entry& session_core::require_input(entry const& e, item_key const& key) {
  if (entry* const input = store_.find(key)) return *input;
  throw recipe_error(fmt::format("the recipe of {} needs {}, which is not saved; save it first and release it last",
                                 to_string(e.key), to_string(key)));
}

void session_core::run_recipe(entry& e, stream_ref stream, std::span<entry* const> inputs, void* working,
                              std::size_t rows_there, bool ahead) {
  boost::container::small_vector<void const*, 8> addresses;
  for (entry const* const input : inputs) addresses.push_back(input->device.address());
  e.device.disown();  // until the whole recipe is enqueued
  auto from = store_.events().record_if_possible(stream, event_timing::on);
  call_recipe(e.key, *e.rebuild.how,
              {stream,
               e.device.address(),
               e.bytes,
               {addresses.data(), addresses.size()},
               rows_there,
               e.rebuild.how->rows - rows_there,
               working});
  e.device.written_by(store_.events().record(stream));
  auto const whole = ahead ? measurement::kind::recipe_ahead : measurement::kind::recipe;
  ledger_.measure(rows_there == 0 ? whole : measurement::kind::part_of_recipe, &e, std::move(from), stream);
  if (e.rebuild.us > 0) clock_.will_take(forecast_.part_of_recipe_us(e, e.rebuild.how->rows - rows_there));
}

/// The stream is about to stand still for so long: recipes whose results are needed next run meanwhile, if bytes are
/// free beside what the step allocates and what its plan will fetch.
void session_core::recompute_ahead(stream_ref stream, double idle_us) {
  double left_us = idle_us - settings_.stall_tolerance_us;
  if (left_us <= 0 || !order_.in_backward()) return;
  auto& tier = store_.device_tier();
  order_.visit_next([&](entry& e) {
    if (left_us <= 0) return false;
    if (!forecast_.could_be_rebuilt_now(e) || e.rebuild.us > left_us) return true;
    std::size_t const own = e.bytes + e.rebuild.how->scratch_bytes;
    if (tier.bytes().free_bytes() < own + scratch_.still_to_come_bytes() + follower_.due_bytes()) return false;
    auto region = store_.bytes_for(e, stream);
    if (!region) return false;
    e.device.replace(std::move(*region));
    if (!rebuild_ahead(e, stream, reason::recomputed_ahead, {idle_us, e.rebuild.us})) return false;
    left_us -= e.rebuild.us;
    return true;
  });
}

/// Nobody has asked for the item yet: whoever does will hear why it cannot be rebuilt.
bool session_core::rebuild_ahead(entry& e, stream_ref stream, reason why, outlook const& seen) {
  if (!forecast_.can_be_rebuilt(e)) {
    release_if_unused(e);
    return false;
  }
  try {
    recompute(e, stream, why, seen);
  } catch (stream_error const&) {
    throw;  // whoever enqueued what has failed must hear of it
  } catch (error const& cause) {
    log_.info("{} is not rebuilt ahead: {}", to_string(e.key), cause.what());
    return false;
  }
  e.course.restored = true;  // it stays until its use
  return true;
}

void session_core::idle_hint(double us) {
  require_step("idle_hint");
  if (!(us >= 0)) throw invalid_argument(fmt::format("idle_hint: {} microseconds; pass how long the stream idles", us));
  progress();
  if (clock_.stream()) recompute_ahead(clock_.stream(), us);
}

/// The item is being rebuilt, and is needed for that itself: from one recipe that waits for its input to the next.
void session_core::throw_cycle(entry const& e) const {
  std::string chain = to_string(e.key);
  entry const* at = &e;
  do {
    auto const keys = at->rebuild.how->inputs.keys();
    auto const waited_for = std::ranges::find_if(keys, [&](item_key const& key) {
      auto const* const input = store_.find(key);
      return input != nullptr && input->state() == item_state::recomputing;
    });
    if (waited_for == keys.end()) break;
    at = store_.find(*waited_for);
    chain += " <- " + to_string(at->key);
  } while (at != &e);
  throw recipe_error(fmt::format("recipes need each other in a circle: {}; save one of them without a recipe", chain));
}

}  // namespace ferry::path
