// The device tier: a slab whose bytes are reused in stream order, and a count of memory adopted from the
// trainer under the same budget.
//
// Bytes are given back at once, in the host's order, together with the events after which they are really
// unused. Whoever is handed overlapping bytes next is ordered after those events: a stream is made to wait,
// a transfer starts only once they have passed. So the host never waits for reuse, and reuse is safe
// whatever the timing.
//
// Where the device has more addresses than bytes, addresses rest while their old bytes are in use, and new ones say
// nothing about whose bytes are behind them. There it is kept in mind how many bytes of each that was given back are
// in use still and handed to nobody. A stream takes first what its own work leaves, the latest first: it is in order
// anyway. Everybody else takes bytes that are idle, and then those that were given back first. So what is really in use
// never exceeds the budget.
// Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "store/event_pool.hpp"
#include "store/homes.hpp"
#include "store/slab.hpp"

namespace ferry::store {

/// Whose bytes a region got that were in use still: by the number of the last one given back. 0: of none.
struct earlier_uses {
  stream_ref stream;            ///< for whose work they were taken
  std::uint64_t on_stream = 0;  ///< of that stream's own
  std::uint64_t elsewhere = 0;
};

/// Device bytes of an item: a piece of the slab, or memory adopted from the trainer, for once or as its home. It goes
/// back by `device_pool::free`, with the marks of its uses.
struct device_region {
  slab_piece piece;
  bool adopted = false;
  home* in_place = nullptr;  ///< with adopted memory that the item comes back to
  earlier_uses after{};

  explicit operator bool() const noexcept { return static_cast<bool>(piece); }
  [[nodiscard]] void* address() const noexcept { return piece.address(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return piece.bytes(); }
};

class device_pool {
 public:
  device_pool(device& owner, std::size_t bytes);

  /// Nothing when the budget is used up or no gap is large enough. `user`: the stream whose work is the first to touch
  /// the bytes; none for a transfer.
  [[nodiscard]] std::optional<device_region> allocate(std::size_t bytes, label const& name, stream_ref user = {});
  /// Counts memory that is not in the slab against the budget.
  [[nodiscard]] std::optional<device_region> adopt(void* address, std::size_t bytes);

  /// The bytes of a home; nothing while it is taken or the budget is used up.
  [[nodiscard]] std::optional<device_region> take(home& wanted);
  [[nodiscard]] homes& places() noexcept { return homes_; }

  /// The region's bytes may be handed out again; `uses` mark the work that may still touch them.
  void free(device_region&& region, std::span<event_handle const> uses) noexcept;

  /// Orders later work of `stream` after whatever may still touch the region's bytes.
  void order_after_uses(device_region const& region, stream_ref stream);
  /// Appends the marks of what may still touch the region's bytes.
  void pending_uses(device_region const& region, std::vector<event_handle>& marks);
  /// True if nothing touches freed bytes any more.
  [[nodiscard]] bool uses_are_over();
  /// As `slab::resize`. Requires: the uses are over, nothing is handed out and nothing adopted.
  void resize(std::size_t bytes);
  /// Waits until nothing touches freed bytes any more. For shutdown.
  void wait_for_uses() noexcept;

  [[nodiscard]] budget& bytes() noexcept { return slab_.bytes(); }
  [[nodiscard]] budget const& bytes() const noexcept { return slab_.bytes(); }
  [[nodiscard]] std::size_t adopted_bytes() const noexcept { return adopted_bytes_; }
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept { return slab_.largest_free_bytes(); }
  [[nodiscard]] tier_stats stats() const { return slab_.stats(); }

 private:
  struct fence {
    std::size_t begin;
    std::size_t end;
    std::uint64_t free_order;  ///< marks of the same bytes share it
    event_handle mark;
  };
  /// Addresses whose bytes were given back and may be in use.
  struct resting {
    slab_piece piece;
    std::uint64_t free_order;
    stream_ref used_by;  ///< whose work alone may still touch them; none if there are several
    std::size_t bytes;
    std::size_t left;  ///< of these, handed to nobody yet
  };
  [[nodiscard]] bool pending(event_handle const& mark) { return device_.query(mark.ref()) == event_status::pending; }
  void forget_finished();
  /// Calls `visit` for the marks of what may still touch the bytes handed out as `region`, before `user` does.
  template <typename Visit>
  void for_earlier_uses(device_region const& region, stream_ref user, Visit visit);
  void return_addresses(bool all);
  [[nodiscard]] earlier_uses take_bytes(std::size_t bytes, stream_ref user);
  void leave_bytes(device_region const& unused) noexcept;

  device& device_;
  bool const by_address_;  // addresses are bytes
  slab slab_;
  homes homes_;
  std::size_t adopted_bytes_ = 0;
  std::vector<fence> fences_;
  std::vector<resting> resting_;  // empty where addresses are bytes
  std::uint64_t frees_ = 0;
  std::size_t prune_at_ = 64;
};

}  // namespace ferry::store
