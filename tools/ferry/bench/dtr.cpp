// Dynamic tensor rematerialisation, as its eviction would go in this step: whenever the next segment does not fit, the
// item with the least cost / (bytes x staleness) goes, where cost is its recipe with those of the evicted items that it
// would have to be rebuilt from, and staleness the time since it was last read or written.
#include <algorithm>
#include <limits>
#include <vector>

#include "bench/peers.hpp"
#include "bench/plan_sketch.hpp"
#include "plan/item_index.hpp"

namespace ferry::command {

namespace {

class eviction {
 public:
  eviction(profile const& step, std::size_t budget_bytes) : step_(step), budget_(budget_bytes), sketch_(step) {
    planning::item_index index;
    for (std::uint32_t i = 0; i < step.segments.size(); ++i) {
      first_.push_back(items_.size());
      for (auto const& one : step.segments[i].items) {
        index.add(i, one.name, items_.size());
        items_.push_back({.of = &one, .segment = i});
      }
    }
    first_.push_back(items_.size());
    index.settle();
    for (auto& one : items_) {
      for (auto const& input : one.of->inputs) one.inputs.push_back(*index.find(input.segment, input.name));
    }
  }

  plan run() && {
    auto const segments = static_cast<std::uint32_t>(step_.segments.size());
    for (std::uint32_t i = 0; i < segments; ++i) forward(i);
    for (std::uint32_t i = segments; i-- > 0;) backward(i);
    return std::move(sketch_).finish();
  }

 private:
  struct one_item {
    profile_item const* of;
    std::uint32_t segment;
    std::vector<std::size_t> inputs{};
    bool resident = false;
    double touched_us = 0;
  };

  [[nodiscard]] std::size_t bytes_of_segment(std::uint32_t i) const {
    std::size_t sum = 0;
    for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) sum += items_[k].of->bytes;
    return sum;
  }

  void forward(std::uint32_t i) {
    auto const& segment = step_.segments[i];
    // The next segment's input is made before that segment is entered.
    bool const last = i + 1 == step_.segments.size();
    std::size_t const next = last ? 0 : step_.segments[i + 1].items[sketch_.input_of(i + 1)].bytes;
    std::size_t const scratch = last ? segment.forward_scratch_bytes : segment.forward_scratch_bytes + next;
    std::uint32_t const held_from = i == 0 ? 0 : i - 1;  // what the segment reads
    make_room(bytes_of_segment(i) + scratch, held_from,
              [&](std::size_t k) { sketch_.drop_before_forward(i, items_[k].segment, k - first_[items_[k].segment]); });
    for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) put(k);
    now_us_ += segment.forward_us;
    for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) items_[k].touched_us = now_us_;
  }

  void backward(std::uint32_t i) {
    std::vector<std::size_t> missing;
    for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) gather(k, missing);
    std::size_t bytes = step_.segments[i].backward_scratch_bytes;
    for (std::size_t const k : missing) bytes += items_[k].of->bytes;
    make_room(bytes, i, [&](std::size_t k) {
      sketch_.drop_before_backward(i, items_[k].segment, k - first_[items_[k].segment]);
    });
    for (std::size_t const k : missing) {
      put(k);
      now_us_ += items_[k].of->recipe_us.value_or(0);
      items_[k].touched_us = now_us_;
    }
    now_us_ += step_.segments[i].backward_us;
    for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) take(k);
  }

  void put(std::size_t k) {
    if (items_[k].resident) return;
    items_[k].resident = true;
    used_ += items_[k].of->bytes;
  }
  void take(std::size_t k) {
    if (!items_[k].resident) return;
    items_[k].resident = false;
    used_ -= items_[k].of->bytes;
  }

  /// The item and whatever it has to be rebuilt from, inputs first.
  void gather(std::size_t k, std::vector<std::size_t>& into) const {
    if (items_[k].resident || std::ranges::find(into, k) != into.end()) return;
    for (std::size_t const input : items_[k].inputs) gather(input, into);
    into.push_back(k);
  }

  [[nodiscard]] double cost_us(std::size_t k) const {
    double sum = items_[k].of->recipe_us.value_or(0);
    std::vector<std::size_t> missing;
    for (std::size_t const input : items_[k].inputs) gather(input, missing);
    for (std::size_t const m : missing) sum += items_[m].of->recipe_us.value_or(0);
    return sum;
  }

  /// Of segments before `held_from`; tells `evicted` of each that goes.
  template <typename Evicted>
  void make_room(std::size_t bytes, std::uint32_t held_from, Evicted const& evicted) {
    while (used_ + bytes > budget_) {
      std::size_t worst = items_.size();
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < first_[held_from]; ++k) {
        auto const& one = items_[k];
        if (!one.resident || !one.of->recipe_us || one.of->bytes == 0) continue;
        double const staleness = std::max(now_us_ - one.touched_us, 1e-3);
        double const value = cost_us(k) / (static_cast<double>(one.of->bytes) * staleness);
        if (value < least) {
          least = value;
          worst = k;
        }
      }
      if (worst == items_.size()) return;  // the session will say that it does not fit
      take(worst);
      evicted(worst);
    }
  }

  profile const& step_;
  std::size_t budget_;
  plan_sketch sketch_;
  std::vector<std::size_t> first_;
  std::vector<one_item> items_;
  std::size_t used_ = 0;
  double now_us_ = 0;
};

}  // namespace

plan evict_and_rebuild(profile const& step, std::size_t budget_bytes) { return eviction(step, budget_bytes).run(); }

}  // namespace ferry::command
