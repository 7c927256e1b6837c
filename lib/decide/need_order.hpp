// The order in which backward will ask for items.
//
// In the first step it is guessed: the reverse of the order of saving, micro-batch by micro-batch. From then
// on it is what the step before did, so interleaved schedules are learnt. A wrong guess only costs time.
// Threads: the session's only.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "store/tiered_store.hpp"

namespace ferry::decide {

class need_order {
 public:
  explicit need_order(store::tiered_store& store) : store_(store) {}

  void begin_step() noexcept {
    cursor_ = 0;
    latest_save_ = 0;
  }

  /// The item has been asked for: what is needed next comes after it.
  void restored(store::entry& e) {
    this_step_.push_back(&e);
    latest_save_ = e.save_order;
    latest_micro_batch_ = e.key.micro_batch;
    if (auto const position = next_need(e); position != never) cursor_ = position + 1;
  }

  /// Requires: no entry has been forgotten since the last call.
  void end_step() {
    for (auto* e : last_step_) e->course.first_need = e->course.last_need = store::item_course::never;
    std::swap(last_step_, this_step_);
    this_step_.clear();
    for (std::uint32_t i = 0; i < last_step_.size(); ++i) {
      auto& e = *last_step_[i];
      if (e.course.first_need == store::item_course::never) e.course.first_need = i;
      e.course.last_need = i;
    }
  }

  /// The order of the step before stays what is known.
  void abandon_step() noexcept { this_step_.clear(); }

  [[nodiscard]] bool restored_any() const noexcept { return !this_step_.empty(); }
  [[nodiscard]] bool in_backward() const noexcept { return latest_save_ != 0; }

  /// Calls `visit(entry)` for live items in the order they will be needed, until it returns false.
  template <typename Visit>
  void visit_next(Visit visit) {
    if (cursor_ > 0) {
      for (std::size_t i = cursor_; i < last_step_.size(); ++i) {
        auto& e = *last_step_[i];
        if (e.state() != item_state::released && !visit(e)) return;
      }
    } else {
      auto& live = store_.live();
      for (auto e = live.rbegin(); e != live.rend(); ++e) {
        if (e->save_order < latest_save_ && e->key.micro_batch == latest_micro_batch_ && !visit(*e)) return;
      }
    }
  }

  /// Smaller is sooner.
  [[nodiscard]] std::uint64_t rank(store::entry const& e) const noexcept {
    if (auto const position = next_need(e); position != never) return position;
    // Saved later is needed sooner; behind everything that is known.
    return never - e.save_order;
  }

 private:
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] std::uint64_t next_need(store::entry const& e) const noexcept {
    if (e.course.first_need != store::item_course::never && e.course.first_need >= cursor_) return e.course.first_need;
    if (e.course.last_need != store::item_course::never && e.course.last_need >= cursor_) return e.course.last_need;
    return never;
  }

  store::tiered_store& store_;
  std::vector<store::entry*> last_step_;
  std::vector<store::entry*> this_step_;
  std::uint64_t cursor_ = 0;
  std::uint64_t latest_save_ = 0;
  std::uint32_t latest_micro_batch_ = 0;
};

}  // namespace ferry::decide
