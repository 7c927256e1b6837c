// The tiered store: every item the session knows, the memory of each tier, and the moves between them that
// change who owns bytes. Copies are the transfer engine's business and decisions the session's; the store
// sees to it that bytes go back exactly once, after their last use, to where they came from.
//
// Tiers now are the device and pinned host memory. A disk tier joins as another slab-like owner in `entry`
// with the states spilling, on disk and loading beside `hosted`. Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "store/device_pool.hpp"
#include "store/entry.hpp"
#include "store/slab.hpp"

namespace ferry::store {

struct store_limits {
  std::size_t device_bytes = 0;
  std::size_t pinned_bytes = 0;
  std::size_t in_flight_bytes = 0;
};

class tiered_store {
 public:
  using live_list =
      boost::intrusive::list<entry, boost::intrusive::member_hook<entry, list_hook, &entry::in_save_order>,
                             boost::intrusive::constant_time_size<false>>;

  tiered_store(device& owner, store_limits const& limits);
  tiered_store(tiered_store const&) = delete;
  tiered_store& operator=(tiered_store const&) = delete;
  ~tiered_store();

  /// A live item, or null.
  [[nodiscard]] entry* find(item_key const& key);
  [[nodiscard]] entry const* find(item_key const& key) const;
  /// A live item or one that was released and is remembered; or null.
  [[nodiscard]] entry* known(item_key const& key);
  /// The entry to save an item in. Throws: `duplicate_key` if it is live.
  [[nodiscard]] entry& admit(item_key const& key);
  /// The item's bytes are in `region`, written by work up to `ready`.
  void make_resident(entry& e, device_region&& region, event_handle ready);

  /// Device bytes for an item to come back to; nothing if there is no room. Whoever writes is ordered after whatever
  /// used them before.
  [[nodiscard]] std::optional<device_region> bytes_for(entry const& e, stream_ref user = {}) {
    return e.lives_at != nullptr ? device_pool_.take(*e.lives_at) : device_pool_.allocate(e.bytes, e.key.name, user);
  }

  /// resident -> dropped. Requires: idle, with a recipe.
  void drop(entry& e);
  /// resident or offloading -> hosted. Requires: idle, host copy good.
  void evict(entry& e);
  /// Gives back the device bytes of an item that is not to be read there any more. Requires: idle.
  void vacate(entry& e);
  /// Forgets the item; what a transfer still touches goes to the transfer. Requires: no lease.
  void release(entry& e);
  /// Frees what `release` left to a transfer that has now ended.
  void free_orphans(transfer& ended);

  /// Nobody uses the item for the time being: marks the ends of its uses now.
  void mark_uses(entry& e);

  /// Tells trainers about adopted memory that is no longer used.
  void notify_releases() {
    if (!releases_.empty()) tell_releases();
  }
  /// Drops what is remembered of items not saved since step `oldest`. Requires: nobody holds an entry.
  std::size_t forget_unused(std::uint64_t oldest);

  [[nodiscard]] live_list& live() noexcept { return live_; }
  [[nodiscard]] auto const& entries() const noexcept { return entries_; }
  [[nodiscard]] device_pool& device_tier() noexcept { return device_pool_; }
  [[nodiscard]] device_pool const& device_tier() const noexcept { return device_pool_; }
  [[nodiscard]] slab& pinned_tier() noexcept { return pinned_; }
  [[nodiscard]] slab const& pinned_tier() const noexcept { return pinned_; }
  [[nodiscard]] budget& in_flight() noexcept { return in_flight_; }
  [[nodiscard]] budget const& in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] event_pool& events() noexcept { return events_; }

 private:
  struct adopted_release {
    release_callback tell;
    boost::container::small_vector<event_handle, 2> uses;
  };
  void give_back(device_region&& region, release_callback&& on_release, std::span<event_handle const> uses);
  void tell_releases();
  bool tell_if_unused(adopted_release& waiting);
  /// Marks the ends of whatever may still touch the item's device bytes. Valid until the next call.
  [[nodiscard]] std::span<event_handle const> take_marks(entry& e);

  device& device_;
  event_pool events_;
  device_pool device_pool_;
  slab pinned_;
  budget in_flight_;
  std::unordered_map<item_key, entry> entries_;
  live_list live_;
  entry* likely_ = nullptr;  // a live entry that is probably asked for next
  std::uint64_t saves_ = 0;
  std::vector<adopted_release> releases_;
  std::vector<event_handle> marks_;
};

}  // namespace ferry::store
