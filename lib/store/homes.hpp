// Homes: memory of the trainer's own whose items keep their addresses. What leaves a home comes back to it.
//
// A home is one piece of memory or several, which together hold one item. Its bytes count against the device's budget
// while an item or a block has them. When these are done with it, its pages stay for whoever takes it next, as long as
// there is room: a home that is taken makes others go that stand empty, the longest empty first, once nothing touches
// them any more. So what is resident never exceeds the budget, nor, but for what the device has yet to finish, the most
// that was ever held at once; and where everything fits, no page is ever given back. Pages of the slab that were
// touched stay beside them. Threads: the session's only.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ferry/item.hpp"
#include "store/event_pool.hpp"
#include "store/reservation.hpp"

namespace ferry::store {

struct home {
  std::vector<device_view> pieces;
  std::size_t bytes = 0;
  std::size_t items = 0;  ///< that live there, wherever their bytes are now
  bool taken = false;     ///< somebody has its bytes
  bool resident = false;  ///< its pages may hold something
  /// What may still touch its bytes of those who had it before.
  std::vector<event_handle> uses;
};

class homes {
 public:
  homes(device& on, budget& bytes) : device_(on), budget_(bytes) {}
  homes(homes const&) = delete;
  homes& operator=(homes const&) = delete;

  /// One that has memory among these pieces, for an item, a block or a transfer; or null.
  [[nodiscard]] home* holder_of(std::span<device_view const> pieces);
  /// The home that begins where the first piece does. What is known of others that overlap it is forgotten. Throws:
  /// `invalid_argument` for pieces of no bytes, and if somebody has or needs memory among them in other pieces.
  [[nodiscard]] home& at(std::span<device_view const> pieces);

  /// Its bytes, of the budget; nothing if it is taken, or while there is no room. Whoever writes is ordered after
  /// `uses`.
  [[nodiscard]] std::optional<reservation> take(home& wanted);
  /// Nobody needs what it holds; `by` marks the work that may still touch it. Its reservation has gone.
  void leave(home& left, std::span<event_handle const> by);
  /// So many more bytes are to be had of the budget: empty homes go if it takes that. False if they cannot yet.
  [[nodiscard]] bool make_way(std::size_t bytes);

  /// Nothing is known any more of homes that nobody has: their memory is the trainer's to free.
  void forget_unused() noexcept;

  /// Pages go once the device has finished what touches them.
  [[nodiscard]] bool any_leaving();
  /// Waits for that.
  void wait_for_uses() noexcept;

 private:
  void make_place_for(home& wanted);
  void forget_pages(home& empty) noexcept;
  [[nodiscard]] bool unused(home& empty);
  void discard(home& empty) noexcept;

  device& device_;
  budget& budget_;
  std::unordered_map<void const*, std::unique_ptr<home>> all_;  // by the address of the first piece
  std::vector<home*> empty_;                                    // resident and not taken, the longest empty first
  std::size_t empty_bytes_ = 0;
};

}  // namespace ferry::store
