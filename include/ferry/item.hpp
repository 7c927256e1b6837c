// The words of the path: what an item is called, where it is placed, which states it goes through, and
// how it is rebuilt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/export.h"

namespace ferry {

/// Names a saved tensor: micro-batches may interleave, so nothing is keyed by "the current one".
struct item_key {
  std::uint32_t micro_batch = 0;
  std::uint32_t segment = 0;
  label name;

  friend bool operator==(item_key const&, item_key const&) noexcept = default;
};

/// "h (segment 3, micro-batch 0)"
[[nodiscard]] FERRY_API std::string to_string(item_key const& key);

/// Which way through the segments.
enum class pass : std::uint8_t { forward, backward };

/// What a step is for.
enum class step_kind : std::uint8_t {
  train,     ///< forward and backward
  evaluate,  ///< forward alone: an item is there as long as somebody holds a lease of it, and nothing is learnt
};

/// What is to become of an item between forward and backward.
enum class placement : std::uint8_t { keep, offload, recompute };
[[nodiscard]] FERRY_API std::string_view to_string(placement where) noexcept;

/// Where an item is on its path. See docs/architecture.md for the transitions.
enum class item_state : std::uint8_t {
  resident,     ///< its bytes are on the device
  offloading,   ///< on the device, a copy to pinned memory under way
  hosted,       ///< in pinned memory only
  prefetching,  ///< in pinned memory, a copy to the device under way
  dropped,      ///< nowhere; its recipe can rebuild it
  recomputing,  ///< its recipe is being enqueued
  released,     ///< no longer known to the session
};
[[nodiscard]] FERRY_API std::string_view to_string(item_state state) noexcept;

/// A list of keys: the first few in place, so that the lists of most recipes take no memory of their own.
class item_list {
 public:
  static constexpr std::size_t in_place = 4;

  item_list() noexcept = default;
  item_list(std::initializer_list<item_key> keys) : item_list(std::span(keys.begin(), keys.size())) {}
  FERRY_API explicit item_list(std::span<item_key const> keys);

  [[nodiscard]] std::span<item_key const> keys() const noexcept {
    return many_.empty() ? std::span(few_).first(size_) : std::span(many_);
  }
  [[nodiscard]] bool empty() const noexcept { return keys().empty(); }

 private:
  std::array<item_key, in_place> few_{};
  std::size_t size_ = 0;        // of `few_`
  std::vector<item_key> many_;  // all of them, if they are too many for `few_`
};

/// What a recipe is given to work with.
struct recipe_context {
  stream_ref stream;                    ///< enqueue on this stream
  void* output = nullptr;               ///< write the item here
  std::size_t bytes = 0;                ///< the item's size
  std::span<void const* const> inputs;  ///< where the items it named are, in that order
  /// Which of the recipe's rows to rebuild; no other may be touched. `output` and the inputs point to where they begin
  /// as a whole, whatever the first row is. A recipe of one row has nothing to look at here.
  std::size_t first_row = 0;
  std::size_t rows = 1;
  void* scratch = nullptr;  ///< as many bytes as the recipe asked for, for the work that it enqueues

  template <typename T>
  [[nodiscard]] T* output_as() const noexcept {
    return static_cast<T*>(output);
  }
  template <typename T>
  [[nodiscard]] T const* input_as(std::size_t i) const noexcept {
    return static_cast<T const*>(inputs[i]);
  }
};

/// Rebuilds an item from others by enqueueing work, the very kernels in the very shapes that made it.
/// It may run any number of times and must not call the session. FERRY_VERIFY=recipes runs it while its item is there,
/// and compares.
///
/// An operation with several outputs makes one item of them, which one run of its recipe brings back: one block that
/// has room for all of them, each at an offset that the trainer chooses; or memory of the trainer's own in several
/// pieces (`session::allocate_at`), of which `recipe_context::output` is where the first one begins: the recipe knows
/// the others, because they stay where they are.
struct recipe {
  unique_function<void(recipe_context const&)> enqueue;
  item_list inputs;  ///< any number of items that the same step saves, before this one or after it
  /// The item is so many equal rows, one after the other, and the recipe can rebuild any of them alone, to the same
  /// bits; 1: only as a whole. Divides the item's bytes.
  std::size_t rows = 1;
  std::size_t scratch_bytes = 0;  ///< memory to work in, inside the budget

  explicit operator bool() const noexcept { return static_cast<bool>(enqueue); }
};

/// Memory that belongs to the trainer.
struct device_view {
  void* address = nullptr;
  std::size_t bytes = 0;
};

/// Tells the trainer that Ferry needs its adopted memory no more: once `done` is complete the bytes may
/// go. The event is valid during the call: make a stream wait for it, or query it. Called on the session's
/// thread; must not call the session.
using release_callback = unique_function<void(event_ref done)>;

/// What a placement is decided from.
struct item_info {
  item_key key;
  std::size_t bytes = 0;
  bool has_recipe = false;
  bool boundary = false;  ///< no recipe, or one that reaches into another segment
  double recipe_us = 0;   ///< how long the recipe took last time; 0 if it never ran
};
using placement_function = std::function<placement(item_info const&)>;

}  // namespace ferry

template <>
struct std::hash<ferry::item_key> {
  // Not noexcept: so libstdc++ keeps the hash in the node, and a look-up touches no neighbour's key.
  std::size_t operator()(ferry::item_key const& key) const {
    std::size_t const name = std::hash<std::string_view>{}(key.name.view());
    std::uint64_t const place = (std::uint64_t{key.micro_batch} << 32) | key.segment;
    return name ^ (place * 0x9E3779B97F4A7C15ULL);
  }
};
