// Room: device bytes for a block, an item on its way back, or adopted memory. What gives way, in this order:
// items whose bytes can be had again for nothing or by a recipe, farthest need first; prefetches, farthest
// need first; then bytes already on their way out are waited for; then items go out a second time; at last
// what a policy would rather keep. Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decide/forecast.hpp"
#include "decide/need_order.hpp"
#include "decide/policy.hpp"
#include "decide/profile_recorder.hpp"
#include "follow/adaptation.hpp"
#include "follow/plan_follower.hpp"
#include "observe/ledger.hpp"
#include "path/scratch.hpp"
#include "path/transfers.hpp"
#include "store/tiered_store.hpp"

namespace ferry::path {

/// What whoever makes room asks of the path.
class room_path {
 public:
  /// Takes in what has ended, and sees to what waits for that.
  virtual void progress() = 0;
  /// The item's bytes go out, or are dropped or kept where they cannot.
  virtual void offload(store::entry& e) = 0;
  /// The device bytes go; if there is a host copy, the item can still come from there.
  virtual void give_up_device_bytes(store::entry& e) noexcept = 0;

 protected:
  ~room_path() = default;
};

class room {
 public:
  struct surroundings {
    device& on;
    config const& settings;
    store::tiered_store& store;
    decide::policy const& policy;
    decide::need_order const& order;
    decide::step_clock& clock;
    decide::profile_recorder& recorder;
    decide::forecast& forecast;
    scratch const& blocks;
    transfers& moving;
    follow::plan_follower const& plan;
    follow::adaptation const& adaptation;
    observe::ledger& ledger;
  };
  room(surroundings const& around, room_path& path);

  /// Bytes of the slab, for work on the stream. Throws: `out_of_device_memory`.
  [[nodiscard]] store::device_region make(std::size_t bytes, label const& name, stream_ref stream);
  /// The same for an item to come back to: rebuilt there, or by a transfer.
  [[nodiscard]] store::device_region make_for(store::entry const& e, stream_ref stream);
  [[nodiscard]] store::device_region make_to_fetch(store::entry const& e, stream_ref stream);
  /// A home's bytes.
  [[nodiscard]] store::device_region make_at(store::home& place, label const& name, stream_ref stream);
  /// Counts memory of the trainer's, which the stream has written. Throws: `out_of_device_memory`.
  [[nodiscard]] store::device_region make_for(item_key const& key, device_view memory, stream_ref stream);

  /// The item gives up bytes that the link still writes, if there are others; `firmly`: if what is needed later must
  /// make way. The transfer gives them back when it ends.
  [[nodiscard]] bool leave_behind(store::entry& e, bool firmly);
  /// An item on its way out of which nothing has been sent: it is dropped as soon as its transfer has been called off.
  void drop_unsent(store::entry& e);

  /// While somebody waits for bytes, nothing else may take them.
  [[nodiscard]] bool is_being_made() const noexcept { return being_made_; }
  /// The most that steps needed at once, whatever is kept; measured where policy `selective` wants to know.
  [[nodiscard]] std::size_t forced_peak_bytes() const noexcept { return forced_peak_bytes_; }

 private:
  enum class drop_result : std::uint8_t { dropped, not_yet, never };
  struct request {
    std::size_t bytes;
    label const& name;
    item_key const* item = nullptr;
  };
  struct drop_offer {
    store::entry* item;
    double cost_us;
  };

  template <typename Allocate>
  [[nodiscard]] store::device_region wait_for_room(request const& wanted, stream_ref stream, Allocate allocate);
  bool give_way(bool firmly);
  void let_the_smallest_go_first(std::size_t bytes);
  drop_result drop_instead_of_waiting(std::size_t bytes);
  [[nodiscard]] bool could_be_dropped(store::entry& e);
  void list_reaching();
  template <typename Visit>
  void for_each_rebuilt_from(store::entry const& e, Visit visit);
  [[nodiscard]] bool rebuilding_fits(store::entry const& e);
  [[nodiscard]] std::size_t bytes_from_outside(store::entry const& e, std::uint32_t segment, std::size_t limit) const;
  void list_droppable();
  void drop_for(drop_offer const& one, double wait_us);
  void list_leaving();
  bool ferry_again(bool firmly);
  [[nodiscard]] store::entry* oldest_offloading() noexcept;
  [[nodiscard]] bool bytes_are_coming();
  [[noreturn]] void throw_no_room(request const& wanted);
  void note_forced_bytes() noexcept;

  surroundings around_;
  room_path& path_;
  std::vector<drop_offer> droppable_;
  std::vector<store::entry const*> reaching_;  // see `list_reaching`
  std::vector<transfer*> leaving_;             // that give bytes back, in the order they will; see `list_leaving`
  bool being_made_ = false;
  std::size_t forced_peak_bytes_ = 0;
};

}  // namespace ferry::path
