// One saved tensor as the store knows it: where its bytes are, how it can be rebuilt, who is using it.
//
// The state machine of the path lives here: `advance` is the only way to change a state, and a transition
// that is not in the table throws. An entry outlives its item: released at the end of a step, it is saved
// again in the next one, so that a warm step allocates nothing and what was learnt of an item stays with it.
// Threads: the session's only.
#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "ferry/item.hpp"
#include "ferry/stats.hpp"
#include "store/copies.hpp"

namespace ferry::store {

/// True if the state machine has an arrow from one state to the other.
[[nodiscard]] bool legal(item_state from, item_state to) noexcept;

using list_hook = boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// How an item can be rebuilt.
struct item_rebuild {
  bool possible = false;        ///< `how` is in force
  bool was_possible = false;    ///< when it was last saved
  bool inputs_known = false;    ///< each of them is saved in the steps that save the item
  double us = -1;               ///< how long that takes; below zero if it is not known
  std::unique_ptr<recipe> how;  ///< on its own, for it is large and seldom looked at; kept for the next step
};

/// What the path wants with an item, in this step.
struct item_course {
  static constexpr std::uint32_t never = ~std::uint32_t{0};
  std::uint32_t first_need = never;  ///< position among the restores of the last step
  std::uint32_t last_need = never;
  placement where = placement::keep;
  bool may_drop = false;       ///< dropping it to make room is allowed
  bool restored = false;       ///< in this step
  bool release_asked = false;  ///< done with, as soon as the last lease ends
};

/// What observers have noted of an item.
struct item_record {
  item_counts stats;    ///< of all steps
  double moved_us = 0;  ///< time its transfers took, hidden or not
  static constexpr std::uint32_t no_line = ~std::uint32_t{0};
  std::uint32_t log_line = no_line;  ///< its place in the log of the step that saved it
};

struct entry {
  explicit entry(item_key const& name) : key(name) {}
  entry(entry const&) = delete;
  entry& operator=(entry const&) = delete;

  // What every save, restore and release looks at stands first, close together: with many items it is what they cost.
  item_key key;
  std::size_t bytes = 0;
  std::uint32_t leases = 0;

 private:
  item_state state_ = item_state::released;

 public:
  /// The transfer that touches this item's bytes; they may not go before it has ended.
  transfer* moving = nullptr;
  device_copy device;
  home* lives_at = nullptr;  ///< where its bytes come back to; null: anywhere in the slab
  item_course course;
  item_rebuild rebuild;
  std::uint64_t save_order = 0;  ///< position among all saves
  std::uint64_t saved_in_step = 0;
  list_hook in_save_order;
  /// Streams that have used the device bytes since. They are marked only when the bytes go, so a use costs
  /// nothing; a mark may then stand later than the use, which is safe.
  boost::container::small_vector<stream_ref, 2> users;
  /// Uses that are over in the host's order, marked where they ended: of an item on its way out, whose bytes would
  /// otherwise seem in use by whatever the host enqueues until the copy is complete.
  boost::container::small_vector<event_handle, 2> uses;
  item_record record;
  release_callback on_release;  ///< with adopted memory
  host_copy host;
  list_hook awaiting_offload;  ///< linked while FERRY_MAX_IN_FLIGHT holds it back
  std::string failure;         ///< why the last way back from the host failed

  [[nodiscard]] item_state state() const noexcept { return state_; }
  /// Throws: `internal_error` for a transition that the path does not have.
  void advance(item_state to);

  [[nodiscard]] bool on_device() const noexcept {
    return state_ == item_state::resident || state_ == item_state::offloading;
  }
  /// Nobody uses the device bytes and no transfer touches them.
  [[nodiscard]] bool idle() const noexcept { return leases == 0 && moving == nullptr; }
  /// Its recipe, if it has one, makes it again: it was dropped, or is to be as soon as it can.
  [[nodiscard]] bool to_be_rebuilt() const noexcept {
    return state_ == item_state::dropped || course.where == placement::recompute;
  }
  /// Its recipe reads other segments. Requires: it has one.
  [[nodiscard]] bool reaches_beyond_segment() const;
  void add_use(stream_ref stream);
};

}  // namespace ferry::store
