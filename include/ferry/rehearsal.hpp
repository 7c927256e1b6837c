// A rehearsal: what a trainer asks of a session, asked of another one whose device has addresses only and a clock that
// stands still, to find out which budget is enough. Nothing is computed and nothing is copied, so it takes
// milliseconds.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "ferry/config.hpp"
#include "ferry/export.h"
#include "ferry/session.hpp"
#include "ferry/sim_device.hpp"

namespace ferry {

/// What is rehearsed, and what a budget may be.
struct rehearsal_options {
  config settings{};             ///< all but the budget and the device apply; nothing is written or logged
  std::size_t most_bytes = 0;    ///< no larger budget is tried
  std::size_t unit_bytes = 0;    ///< budgets are multiples of it; 0: a thousandth of the most, 1 to 64 KiB
  std::size_t pinned_bytes = 0;  ///< what the device can pin; 0: as FERRY_PINNED_BYTES, or the host device's default
  /// Added to what is found, for timings that no rehearsal has seen; not where everything is kept.
  std::size_t margin_bytes = 0;
  /// A budget that was not enough. If the rehearsals find no larger one, what they give is this and the margin.
  std::size_t too_small_bytes = 0;
};

/// Owns the device that rehearsals run on. Whatever is allocated there beside the session, it has.
class FERRY_API rehearsal {
 public:
  explicit rehearsal(rehearsal_options how);
  rehearsal(rehearsal const&) = delete;
  rehearsal& operator=(rehearsal const&) = delete;
  ~rehearsal();

  [[nodiscard]] sim_device& on() noexcept { return *on_; }

  /// The smallest budget with which `steps` run to their end; 0 if there is none. They are run again and again, each
  /// time in a session of its own on this device, and enqueue nothing, or work that computes nothing. To be more than
  /// one step, because from the second on a session acts on what the first has shown. Throws: what `steps` throw, but
  /// for `out_of_memory`.
  [[nodiscard]] std::size_t smallest_budget(std::function<void(session&)> const& steps);

 private:
  [[nodiscard]] bool goes_through(std::size_t budget, std::function<void(session&)> const& steps);
  [[nodiscard]] bool is_enough(std::size_t budget, std::function<void(session&)> const& steps);

  rehearsal_options how_;
  std::unique_ptr<sim_device> on_;
};

}  // namespace ferry
