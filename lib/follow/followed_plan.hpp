// A plan in the form in which the session follows it.
//
// A plan is a list of operations in the host's order. Between two operations of the trainer's own (forward or backward
// of a segment) stand Ferry's: fetch, rebuild, drop. They are issued when the trainer enters the later one. That is all
// it takes to be safe: bytes are given out in the host's order, so what the plan found to fit at a position fits
// whatever the timing. Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ferry/item.hpp"
#include "ferry/plan.hpp"

namespace ferry::follow {

class followed_plan {
 public:
  struct directive {
    plan_operation::kind what;
    item_key item;  ///< of whichever micro-batch is at hand
  };
  struct planned_item {
    placement where;
    std::size_t bytes;
    std::optional<double> rebuild_us;
  };

  explicit followed_plan(plan planned);

  [[nodiscard]] plan const& followed() const noexcept { return plan_; }
  [[nodiscard]] std::size_t items() const noexcept { return items_.size(); }
  /// Null for an item that the plan does not know.
  [[nodiscard]] planned_item const* find(item_key const& key) const;

  /// The trainer enters a segment: what to do before it. Nothing if the plan has something else next.
  [[nodiscard]] std::span<directive const> enter(pass which, item_key const& key);
  void begin_step() noexcept { next_ = 0; }
  /// Goes on where another plan for the same step has got to.
  void go_on_from(followed_plan const& other) noexcept;
  /// Goes on behind that segment, which the trainer has entered.
  void go_on_in(pass which, std::uint32_t segment) noexcept;
  /// From the segment at hand until the backward of that one, as planned; nothing if that is over or unknown.
  [[nodiscard]] std::optional<double> until_backward_us(std::uint32_t segment) const;

 private:
  struct step {
    pass which;
    std::uint32_t segment;
    std::size_t first;  ///< of its directives
    std::size_t end;
    double start_us;
  };

  plan plan_;
  std::unordered_map<item_key, planned_item> items_;  // as of micro-batch 0
  std::vector<step> steps_;
  std::vector<directive> directives_;
  std::size_t next_ = 0;
};

}  // namespace ferry::follow
