// recompute: a recipe rebuilds an item from others on the consumer's stream. Its inputs are brought back
// first, in whatever way each of them needs, and are lent to the recipe for as long as it is enqueued.
#include <fmt/format.h>

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

void session_core::recompute(entry& e, stream_ref stream, reason why, outlook const& seen) {
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
    run_recipe(e, stream, inputs.all());
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

void session_core::run_recipe(entry& e, stream_ref stream, std::span<entry* const> inputs) {
  std::array<void const*, item_list::max_items> addresses{};
  for (std::size_t i = 0; i < inputs.size(); ++i) addresses[i] = inputs[i]->device.address();
  auto from = store_.events().record(stream, event_timing::on);
  try {
    e.how->enqueue({stream, e.device.address(), e.bytes, {addresses.data(), inputs.size()}});
  } catch (error const&) {
    throw;
  } catch (std::exception const& cause) {
    throw recipe_error(fmt::format("the recipe of {} failed: {}", to_string(e.key), cause.what()));
  }
  e.ready = store_.events().record(stream);
  measure(measurement::kind::recipe, e, std::move(from), stream);
  if (recorder_.on()) recorder_.recipe_ran(e);
}

void session_core::throw_cycle(entry const& e) const {
  std::string chain;
  for (auto const* waiting : rebuilding_) chain += to_string(waiting->key) + " <- ";
  throw recipe_error(fmt::format("recipes need each other in a circle: {}{}; save one of them without a recipe", chain,
                                 to_string(e.key)));
}

}  // namespace ferry::path
