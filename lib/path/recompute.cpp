// recompute: a recipe rebuilds an item from others on the consumer's stream. Its inputs are brought back
// first, in whatever way each of them needs, and are lent to the recipe for as long as it is enqueued.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

namespace {

/// Inputs lent to a recipe: given back however the recipe ends.
class borrowed_inputs {
 public:
  template <typename GiveBack>
  explicit borrowed_inputs(GiveBack give_back) : give_back_(std::move(give_back)) {}
  borrowed_inputs(borrowed_inputs const&) = delete;
  borrowed_inputs& operator=(borrowed_inputs const&) = delete;
  ~borrowed_inputs() {
    for (std::size_t i = 0; i < size_; ++i) give_back_(*inputs_[i]);
  }
  void add(entry& e) {
    ++e.leases;
    inputs_[size_++] = &e;
  }
  [[nodiscard]] std::span<entry* const> all() const noexcept { return {inputs_.data(), size_}; }

 private:
  std::array<entry*, item_list::max_items> inputs_{};
  std::size_t size_ = 0;
  unique_function<void(entry&)> give_back_;
};

}  // namespace

void session_core::recompute(entry& e, stream_ref stream, reason why, outlook const& seen, std::size_t rows_there) {
  item_state const before = e.state() == item_state::dropped ? item_state::dropped : item_state::hosted;
  e.advance(item_state::recomputing);
  rebuilding_.push_back(&e);
  try {
    borrowed_inputs inputs([&](entry& input) {
      input.add_use(stream);
      if (--input.leases == 0) let_be(input);
    });
    for (auto const& key : e.how->inputs.keys()) {
      entry* const input = store_.find(key);
      if (input == nullptr) {
        throw recipe_error(fmt::format("the recipe of {} needs {}, which is not saved{}", to_string(e.key),
                                       to_string(key), "; save it first and release it last"));
      }
      inputs.add(*input);
      bring_back(*input, stream);
      input->restored = true;  // it stays for whoever asks next, as long as there is room
    }
    if (!e.device) {
      e.device = make_room(e.bytes, e.key.name);
    }
    store_.device_tier().order_after_uses(e.device, stream);
    // Bytes that a failed way back left behind may still have readers.
    for (auto const user : e.users) {
      auto const mark = user != stream ? store_.events().record_if_alive(user) : event_handle();
      if (mark) device_.wait(stream, mark.ref());
    }
    for (auto const& use : e.uses) {
      if (use.stream() != stream) device_.wait(stream, use.ref());
    }
    run_recipe(e, stream, inputs.all(), rows_there);
  } catch (...) {
    rebuilding_.pop_back();
    if (e.device) e.add_use(stream);  // the recipe may have enqueued part of its work
    e.advance(before);
    let_be(e);
    throw;
  }
  rebuilding_.pop_back();
  e.advance(item_state::resident);
  ++e.stats.recomputes;
  ++totals_.recomputes;
  count(why, e, seen);
}

void session_core::run_recipe(entry& e, stream_ref stream, std::span<entry* const> inputs, std::size_t rows_there) {
  std::array<void const*, item_list::max_items> addresses{};
  for (std::size_t i = 0; i < inputs.size(); ++i) addresses[i] = inputs[i]->device.address();
  auto from = store_.events().record(stream, event_timing::on);
  try {
    e.how->enqueue(
        {stream, e.device.address(), e.bytes, {addresses.data(), inputs.size()}, rows_there, e.how->rows - rows_there});
  } catch (error const&) {
    throw;
  } catch (std::exception const& cause) {
    throw recipe_error(fmt::format("the recipe of {} failed: {}", to_string(e.key), cause.what()));
  }
  e.ready = store_.events().record(stream);
  auto const what = rows_there == 0 ? measurement::kind::recipe : measurement::kind::part_of_recipe;
  measure(what, e, std::move(from), stream);
  pace_.will_take(std::max(0.0, e.recipe_us));
}

/// The stream is about to stand still for so long: recipes whose results are needed next run meanwhile, if bytes are
/// free beside what the step allocates. How much of the time that takes.
double session_core::recompute_ahead(stream_ref stream, double idle_us) {
  double left_us = idle_us - settings_.stall_tolerance_us;
  if (left_us <= 0 || !order_.in_backward()) return 0;
  double taken_us = 0;
  auto& tier = store_.device_tier();
  order_.visit_next([&](entry& e) {
    if (left_us <= 0) return false;
    if (!could_be_rebuilt_now(e) || e.recipe_us > left_us) return true;
    std::size_t const reserve = scratch_reserve_bytes_ > scratch_bytes_ ? scratch_reserve_bytes_ - scratch_bytes_ : 0;
    if (tier.bytes().free_bytes() < e.bytes + reserve) return false;
    auto region = tier.allocate(e.bytes, e.key.name);
    if (!region) return false;
    e.device = std::move(*region);
    try {
      recompute(e, stream, reason::recomputed_ahead, {idle_us, e.recipe_us});
    } catch (stream_error const&) {
      throw;
    } catch (error const& cause) {  // nobody has asked for it yet; whoever does will hear
      log_.info("{} is not rebuilt ahead: {}", to_string(e.key), cause.what());
      return false;
    }
    e.restored = true;  // it stays until its use
    left_us -= e.recipe_us;
    taken_us += e.recipe_us;
    return true;
  });
  totals_.recomputed_ahead_us += taken_us;
  return taken_us;
}

/// Dropped, and its recipe waits for nothing.
bool session_core::could_be_rebuilt_now(entry const& e) const {
  if (e.state() != item_state::dropped || e.device || !e.has_recipe || e.recipe_us < 0) return false;
  return std::ranges::all_of(e.how->inputs.keys(), [this](item_key const& key) {
    entry const* const input = store_.find(key);
    return input != nullptr && input->on_device();
  });
}

void session_core::idle_hint(double us) {
  require_step("idle_hint");
  if (!(us >= 0)) throw invalid_argument(fmt::format("idle_hint: {} microseconds; pass how long the stream idles", us));
  progress();
  if (pace_.stream()) recompute_ahead(pace_.stream(), us);
}

void session_core::throw_cycle(entry const& e) const {
  std::string chain;
  for (auto const* waiting : rebuilding_) chain += to_string(waiting->key) + " <- ";
  throw recipe_error(fmt::format("recipes need each other in a circle: {}{}; save one of them without a recipe", chain,
                                 to_string(e.key)));
}

}  // namespace ferry::path
