#include "path/recorder.hpp"

#include <algorithm>
#include <utility>

namespace ferry::path {

void recorder::begin_step(bool on) {
  on_ = on;
  stretches_.clear();
  items_.clear();
  needs_.clear();
  end_ = {};
}

void recorder::end_step(store::event_pool& events) {
  if (on_ && stream_) end_ = events.record(stream_, event_timing::on);
}

void recorder::entered(pass which, item_key const& key, stream_ref stream, store::event_pool& events) {
  stream_ = stream;
  bool const new_micro_batch = !stretches_.empty() && stretches_.back().micro_batch != key.micro_batch;
  if (new_micro_batch && which == pass::forward) {
    items_.clear();
    needs_.clear();
  }
  stretches_.push_back({which, key.micro_batch, key.segment, events.record(stream, event_timing::on), 0, 0, 0, {}});
  peak_before_ = 0;
}

void recorder::saved(store::entry& e) { items_.push_back(&e); }

void recorder::restored(store::entry const& e) {
  if (std::ranges::find(needs_, &e) == needs_.end()) needs_.push_back(&e);
}

void recorder::recipe_ran(store::entry const& e) {
  if (!stretches_.empty()) stretches_.back().recipes.push_back(&e);
}

void recorder::stood_still(std::int32_t at, double us) {
  if (at >= 0 && static_cast<std::size_t>(at) < stretches_.size()) {
    stretches_[static_cast<std::size_t>(at)].still_us += us;
  }
}

void recorder::scratch(std::size_t bytes) noexcept {
  if (stretches_.empty()) return;
  auto& peak = stretches_.back().scratch_bytes;
  peak_before_ = peak;
  peak = std::max(peak, bytes);
}

void recorder::handed_out(std::size_t bytes, std::size_t scratch, store::tiered_store& store) {
  if (stretches_.empty()) return;
  auto& now = stretches_.back();
  std::size_t sum = bytes + scratch;
  for (auto const& e : store.live()) {
    if (e.key.segment == now.segment && e.key.micro_batch == now.micro_batch && e.device) sum += e.device.bytes();
  }
  now.peak_bytes = std::max(now.peak_bytes, sum);
}

void recorder::scratch_saved(std::size_t bytes_now) noexcept {
  if (stretches_.empty()) return;
  stretches_.back().scratch_bytes = std::max(peak_before_, bytes_now);
}

double recorder::lasted_us(std::size_t index) const {
  auto const& from = stretches_[index].from;
  auto const& to = index + 1 < stretches_.size() ? stretches_[index + 1].from : end_;
  return device_.elapsed_us(from.ref(), to.ref());
}

bool recorder::interleaved() const {
  // Each micro-batch goes forward and then backward before the next one begins.
  for (std::size_t i = 1; i < stretches_.size(); ++i) {
    auto const& before = stretches_[i - 1];
    auto const& now = stretches_[i];
    bool const next_one = now.micro_batch != before.micro_batch;
    bool const turned_back = now.which == pass::forward && before.which == pass::backward;
    if (next_one != turned_back) return true;
  }
  return false;
}

std::optional<profile> recorder::take(std::string name) {
  bool const complete = on_ && end_ && !stretches_.empty() && stretches_.back().which == pass::backward;
  if (!complete || interleaved() || items_.empty()) return std::nullopt;
  for (auto const& one : stretches_) {
    if (device_.query(one.from.ref()) != event_status::complete) return std::nullopt;
  }
  if (device_.query(end_.ref()) != event_status::complete) return std::nullopt;

  profile step;
  step.name = std::move(name);
  add_items(step);
  std::uint32_t const last = stretches_.back().micro_batch;
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    auto const& one = stretches_[i];
    if (one.micro_batch != last || one.segment >= step.segments.size()) continue;
    double us = lasted_us(i) - one.still_us;
    for (auto const* e : one.recipes) us -= e->stats.recipe_us;
    auto& segment = step.segments[one.segment];
    bool const forward = one.which == pass::forward;
    (forward ? segment.forward_us : segment.backward_us) += std::max(us, 0.0);
    if (forward) {
      segment.forward_scratch_bytes = std::max(segment.forward_scratch_bytes, one.scratch_bytes);
    } else {
      // Backward gives its items up one by one: what it needs is what it had at once, beyond all of them.
      std::size_t items = 0;
      for (auto const& item : segment.items) items += item.bytes;
      std::size_t const beyond = one.peak_bytes > items ? one.peak_bytes - items : 0;
      segment.backward_scratch_bytes = std::max(segment.backward_scratch_bytes, std::min(beyond, one.scratch_bytes));
    }
  }
  complete_recipes(step);
  return step;
}

void recorder::add_items(profile& step) const {
  for (auto const* e : items_) {
    if (e->key.segment >= step.segments.size()) step.segments.resize(e->key.segment + 1);
    profile_item item;
    item.name = std::string(e->key.name.view());
    item.bytes = e->stats.bytes;
    if (e->how != nullptr && e->had_recipe) {
      item.recipe_us = e->stats.recipe_us;
      for (auto const& input : e->how->inputs.keys()) {
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
void recorder::complete_recipes(profile& step) const {
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

}  // namespace ferry::path
