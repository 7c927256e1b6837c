#include "decide/profile_recorder.hpp"

#include <algorithm>
#include <utility>

namespace ferry::decide {

void profile_recorder::begin_step(bool wanted) {
  on_ = always_ || wanted;
  bytes_.clear();
  items_.clear();
  needs_.clear();
}

void profile_recorder::entered(pass which, item_key const& key) {
  bool const new_micro_batch = !bytes_.empty() && micro_batch_ != key.micro_batch;
  if (new_micro_batch && which == pass::forward) {
    items_.clear();
    needs_.clear();
  }
  micro_batch_ = key.micro_batch;
  bytes_.emplace_back();
  peak_before_ = 0;
}

void profile_recorder::saved(store::entry& e) { items_.push_back(&e); }

void profile_recorder::restored(store::entry const& e) {
  if (std::ranges::find(needs_, &e) == needs_.end()) needs_.push_back(&e);
}

void profile_recorder::scratch(std::size_t bytes) noexcept {
  if (bytes_.empty()) return;
  auto& peak = bytes_.back().scratch;
  peak_before_ = peak;
  peak = std::max(peak, bytes);
}

void profile_recorder::handed_out(std::size_t bytes, std::size_t scratch, store::tiered_store& store) {
  if (bytes_.empty()) return;
  auto const& now = times_.stretches().back();
  std::size_t sum = bytes + scratch;
  for (auto const& e : store.live()) {
    if (e.key.segment == now.segment && e.key.micro_batch == now.micro_batch && e.device) sum += e.device.bytes();
  }
  bytes_.back().at_once = std::max(bytes_.back().at_once, sum);
}

void profile_recorder::scratch_saved(std::size_t bytes_now) noexcept {
  if (bytes_.empty()) return;
  bytes_.back().scratch = std::max(peak_before_, bytes_now);
}

bool profile_recorder::interleaved() const {
  // Each micro-batch goes forward and then backward before the next one begins.
  auto const stretches = times_.stretches();
  for (std::size_t i = 1; i < stretches.size(); ++i) {
    auto const& before = stretches[i - 1];
    auto const& now = stretches[i];
    bool const next_one = now.micro_batch != before.micro_batch;
    bool const turned_back = now.which == pass::forward && before.which == pass::backward;
    if (next_one != turned_back) return true;
  }
  return false;
}

std::optional<profile> profile_recorder::take(std::string name) {
  bool const complete = on_ && times_.over() && bytes_.size() == times_.stretches().size() &&
                        times_.stretches().back().which == pass::backward;
  if (!complete || interleaved() || items_.empty()) return std::nullopt;
  profile step;
  step.name = std::move(name);
  add_items(step);
  for (std::size_t i = 0; i < bytes_.size(); ++i) add_stretch(step, i);
  complete_recipes(step);
  return step;
}

void profile_recorder::add_stretch(profile& step, std::size_t index) const {
  auto const& one = times_.stretches()[index];
  if (one.micro_batch != times_.stretches().back().micro_batch) return;
  double const us = times_.own_us(index);
  // A segment behind all items, a loss for instance, which the trainer has declared: it belongs to the last one.
  auto& segment = step.segments[std::min<std::size_t>(one.segment, step.segments.size() - 1)];
  auto const& bytes = bytes_[index];
  if (one.which == pass::forward) {
    segment.forward_us += us;
    segment.forward_scratch_bytes = std::max(segment.forward_scratch_bytes, bytes.scratch);
    return;
  }
  segment.backward_us += us;
  // Backward gives its items up one by one: what it needs is what it had at once, beyond all of them.
  std::size_t items = 0;
  for (auto const& item : segment.items) items += item.bytes;
  std::size_t const beyond = bytes.at_once > items ? bytes.at_once - items : 0;
  segment.backward_scratch_bytes = std::max(segment.backward_scratch_bytes, std::min(beyond, bytes.scratch));
}

void profile_recorder::add_items(profile& step) const {
  for (auto const* e : items_) {
    if (e->key.segment >= step.segments.size()) step.segments.resize(e->key.segment + 1);
    profile_item item;
    item.name = std::string(e->key.name.view());
    item.bytes = e->record.stats.bytes;
    if (e->rebuild.how != nullptr && e->rebuild.was_possible) {
      item.recipe_us = e->record.stats.recipe_us;
      for (auto const& input : e->rebuild.how->inputs.keys()) {
        item.inputs.push_back({input.segment, std::string(input.name.view())});
      }
    }
    step.segments[e->key.segment].items.push_back(std::move(item));
  }
  for (auto const* e : needs_) {
    if (e->key.micro_batch == items_.back()->key.micro_batch) {
      step.need_order.push_back({e->key.segment, std::string(e->key.name.view())});
    }
  }
}

/// A recipe that never ran takes what is left of the forward in which its item is made.
void profile_recorder::complete_recipes(profile& step) const {
  for (std::size_t i = 0; i < step.segments.size(); ++i) {
    std::vector<profile_item*> unknown;
    double known_us = 0;
    auto const visit = [&](profile_item& item) {
      if (!item.recipe_us) return;
      if (*item.recipe_us > 0) {
        known_us += *item.recipe_us;
      } else {
        unknown.push_back(&item);
      }
    };
    auto const made_before = [&](profile_item const& item, std::size_t segment) {
      return !item.inputs.empty() &&
             std::ranges::all_of(item.inputs, [&](item_name const& name) { return name.segment < segment; });
    };
    for (auto& item : step.segments[i].items) {
      if (!made_before(item, i)) visit(item);
    }
    if (i + 1 < step.segments.size()) {
      for (auto& item : step.segments[i + 1].items) {
        if (made_before(item, i + 1)) visit(item);
      }
    }
    double const left_us = std::max(step.segments[i].forward_us - known_us, 0.02 * step.segments[i].forward_us);
    for (auto* item : unknown) item->recipe_us = left_us / static_cast<double>(unknown.size());
  }
}

}  // namespace ferry::decide
