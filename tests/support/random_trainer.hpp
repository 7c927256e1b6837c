// A trainer of segments by chance: sizes, recipes, scratch memory and how long it holds what, from a seed. It computes
// nothing; whoever drives it looks at what it was refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ferry/session.hpp"
#include "support/random_chains.hpp"

namespace ferry::testing {

class random_trainer {
 public:
  explicit random_trainer(std::uint64_t seed) {
    random_source roll(seed);
    micro_batches_ = roll.with(0.3) ? 2 : 1;
    auto const bytes = [&](double most) { return static_cast<std::size_t>(roll.spread(300, most)); };
    segments_.resize(roll.count(1, 6));
    for (auto& one : segments_) {
      one.items.resize(roll.count(1, 6));
      for (std::size_t i = 0; i < one.items.size(); ++i) {
        auto& made = one.items[i];
        made.bytes = bytes(40'000);
        made.has_recipe = roll.with(0.7) && (i > 0 || &one != &segments_.front());
        made.from_before = i == 0;
        made.reads_two = i > 1 && roll.with(0.4);
        made.recipe_scratch = roll.with(0.2) ? bytes(10'000) : 0;
      }
      one.forward_scratch = roll.with(0.5) ? bytes(20'000) : 0;
      one.backward_scratch = roll.with(0.5) ? bytes(30'000) : 0;
      one.holds_all = roll.with(0.3);
    }
  }

  /// Throws: as the session.
  void step(session& on, stream_ref stream) {
    calls_ = 0;
    session::step_scope in_step(on);
    for (std::uint32_t m = 0; m < micro_batches_; ++m) {
      for (std::uint32_t s = 0; s < segments_.size(); ++s) forward(on, stream, m, s);
      for (auto s = static_cast<std::uint32_t>(segments_.size()); s-- > 0;) backward(on, stream, m, s);
    }
    in_step.end();
  }
  /// Calls of the last step that were answered.
  [[nodiscard]] std::size_t calls() const noexcept { return calls_; }

  /// More than it could ever take.
  [[nodiscard]] std::size_t all_bytes() const {
    std::size_t sum = 0;
    for (auto const& one : segments_) {
      for (auto const& item : one.items) sum += micro_batches_ * (item.bytes + 512) + item.recipe_scratch + 512;
      sum += one.forward_scratch + one.backward_scratch + 1024;
    }
    return 2 * sum;
  }

 private:
  struct made_item {
    std::size_t bytes = 0;
    bool has_recipe = false;
    bool from_before = false;  // from the last item of the segment before
    bool reads_two = false;
    std::size_t recipe_scratch = 0;
  };
  struct segment {
    std::vector<made_item> items;
    std::size_t forward_scratch = 0;
    std::size_t backward_scratch = 0;
    bool holds_all = false;  // what it has saved, to its end
  };

  [[nodiscard]] static item_key key(std::uint32_t m, std::uint32_t s, std::size_t i) {
    return {m, s, "i" + std::to_string(i)};
  }
  [[nodiscard]] item_list inputs_of(std::uint32_t m, std::uint32_t s, std::size_t i) const {
    if (!segments_[s].items[i].from_before) {
      return segments_[s].items[i].reads_two ? item_list{key(m, s, i - 1), key(m, s, i - 2)}
                                             : item_list{key(m, s, i - 1)};
    }
    if (s == 0) return {};
    return {key(m, s - 1, segments_[s - 1].items.size() - 1)};
  }

  void forward(session& on, stream_ref stream, std::uint32_t m, std::uint32_t s) {
    auto const& one = segments_[s];
    block scratch;
    if (one.forward_scratch > 0) scratch = answered(on.allocate(one.forward_scratch, stream));
    std::vector<lease> held;
    for (std::size_t i = 0; i < one.items.size(); ++i) {
      auto const& item = one.items[i];
      block memory = answered(on.allocate(item.bytes, stream));
      stream.owner()->launch(stream, "forward", {}, [] {});
      recipe how;
      if (item.has_recipe) {
        how.enqueue = [](recipe_context const& to) { to.stream.owner()->launch(to.stream, "recipe", {}, [] {}); };
        how.inputs = inputs_of(m, s, i);
        how.scratch_bytes = item.recipe_scratch;
      }
      held.push_back(answered(on.save(key(m, s, i), std::move(memory), stream, std::move(how))));
      if (!one.holds_all && held.size() > 2) held.erase(held.begin());
    }
  }

  void backward(session& on, stream_ref stream, std::uint32_t m, std::uint32_t s) {
    auto const& one = segments_[s];
    {
      std::vector<lease> held;
      for (std::size_t i = one.items.size(); i-- > 0;) held.push_back(answered(on.restore(key(m, s, i), stream)));
      block scratch;
      if (one.backward_scratch > 0) scratch = answered(on.allocate(one.backward_scratch, stream));
      stream.owner()->launch(stream, "backward", {}, [] {});
    }
    for (std::size_t i = one.items.size(); i-- > 0;) on.release(key(m, s, i));
  }

  template <typename Held>
  Held answered(Held held) noexcept {
    ++calls_;
    return held;
  }

  std::uint32_t micro_batches_ = 1;
  std::vector<segment> segments_;
  std::size_t calls_ = 0;
};

}  // namespace ferry::testing
