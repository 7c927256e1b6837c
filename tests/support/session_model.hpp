// The plain model that the session is compared with: what every item's bytes are, and how many device bytes are
// spoken for. Slow and obviously right.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "ferry/item.hpp"

namespace ferry::testing {

using content = std::vector<std::byte>;

inline std::uint64_t mixed(std::uint64_t value) noexcept {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

/// Some of an item's bytes.
struct byte_range {
  std::size_t from = 0;
  std::size_t to = 0;
};

/// The one kernel: an item's bytes, or some of them, from a seed and the bytes of others, the same wherever it runs.
inline void compute(std::span<std::byte> out, std::uint64_t seed, std::span<std::span<std::byte const> const> inputs,
                    byte_range which) {
  auto const first = static_cast<std::uint32_t>(mixed(seed));
  auto const stride = static_cast<std::uint32_t>(mixed(seed + 1)) | 1U;
  for (std::size_t i = which.from; i < which.to; ++i) {
    auto const value = first + static_cast<std::uint32_t>(i) * stride;
    out[i] = static_cast<std::byte>(value >> 24U);
  }
  for (auto const& input : inputs) {
    std::size_t const shared = std::min(which.to, input.size());
    for (std::size_t i = which.from; i < shared; ++i) {
      out[i] = static_cast<std::byte>(3 * static_cast<unsigned>(out[i]) + static_cast<unsigned>(input[i]));
    }
  }
}
inline void compute(std::span<std::byte> out, std::uint64_t seed, std::span<std::span<std::byte const> const> inputs) {
  compute(out, seed, inputs, {0, out.size()});
}

/// How an item is rebuilt, shared with the recipes and kernels that do it.
struct derivation {
  std::uint64_t seed = 0;
  std::size_t bytes = 0;
  std::size_t rows = 1;  ///< of equal size; any range of them can be rebuilt
  std::vector<std::size_t> input_bytes;
  std::atomic<int> refusals{0};  ///< how often the recipe is still going to throw
};

struct key_less {
  bool operator()(item_key const& a, item_key const& b) const noexcept {
    return std::tie(a.micro_batch, a.segment, a.name) < std::tie(b.micro_batch, b.segment, b.name);
  }
};

struct model_item {
  std::shared_ptr<content const> bytes;
  std::shared_ptr<derivation> how;
  std::vector<item_key> inputs;
  bool has_recipe = false;
  bool inputs_gone = false;  ///< an item that its recipe needs was released first
  bool can_drop = false;     ///< the session may rebuild it rather than hold it
  bool can_ferry = false;    ///< the session may send it to the host if there is room
  /// Set by the kernel that wrote it: false if that kernel was skipped on a failed stream.
  std::shared_ptr<std::atomic<bool>> produced;
};

class session_model {
 public:
  using item_map = std::map<item_key, model_item, key_less>;

  [[nodiscard]] bool has(item_key const& key) const { return items_.contains(key); }
  [[nodiscard]] model_item& at(item_key const& key) { return items_.at(key); }
  [[nodiscard]] std::vector<item_key> const& in_save_order() const noexcept { return order_; }

  void save(item_key const& key, model_item item) {
    items_.emplace(key, std::move(item));
    order_.push_back(key);
  }
  void release(item_key const& key) {
    items_.erase(key);
    std::erase(order_, key);
    for (auto& [other, item] : items_) item.inputs_gone |= std::ranges::count(item.inputs, key) > 0;
  }
  void end_step() {
    items_.clear();
    order_.clear();
  }

  /// Whether the recipe of another item reads this one.
  [[nodiscard]] bool is_needed(item_key const& key) const {
    return std::ranges::any_of(items_,
                               [&](auto const& other) { return std::ranges::count(other.second.inputs, key) > 0; });
  }

  /// The item and everything that rebuilding it may need, down to the last.
  [[nodiscard]] std::set<item_key, key_less> closure(item_key const& key) const {
    std::set<item_key, key_less> reached;
    reach(key, reached);
    return reached;
  }
  /// A recipe among these may throw, or may miss an input.
  [[nodiscard]] bool may_refuse(item_key const& key) const {
    auto const reached = closure(key);
    return std::ranges::any_of(reached, [&](item_key const& each) {
      auto const& item = items_.at(each);
      return item.inputs_gone || item.how->refusals.load() > 0;
    });
  }
  [[nodiscard]] std::vector<std::size_t> closure_bytes(item_key const& key) const {
    std::vector<std::size_t> sizes;
    for (auto const& each : closure(key)) sizes.push_back(items_.at(each).bytes->size());
    return sizes;
  }

 private:
  void reach(item_key const& key, std::set<item_key, key_less>& reached) const {
    auto const found = items_.find(key);
    if (found == items_.end() || !reached.insert(key).second || !found->second.has_recipe) return;
    for (auto const& input : found->second.inputs) reach(input, reached);
  }

  item_map items_;
  std::vector<item_key> order_;
};

/// Device bytes that nobody can make room in, and what must fit beside them all the same.
class room_model {
 public:
  explicit room_model(std::size_t budget_bytes) : budget_(budget_bytes / unit * unit) {}

  static std::size_t rounded(std::size_t bytes) noexcept { return (bytes + unit - 1) / unit * unit; }

  void force(std::size_t bytes) noexcept {
    forced_ += rounded(bytes);
    ++regions_;
  }

  /// True if regions of these sizes, all held at once, fit however the forced ones lie: n regions cut the rest
  /// of the slab into at most n + 1 gaps, so the largest gap has that share of it.
  [[nodiscard]] bool must_fit(std::vector<std::size_t> const& wanted) const noexcept {
    std::size_t largest = 0;
    std::size_t sum = forced_;
    for (auto const bytes : wanted) {
      largest = std::max(largest, rounded(bytes));
      sum += rounded(bytes);
    }
    if (sum > budget_) return false;
    std::size_t const gaps = regions_ + wanted.size();
    return largest <= (budget_ - (sum - largest)) / std::max<std::size_t>(gaps, 1) / unit * unit;
  }

 private:
  static constexpr std::size_t unit = 256;
  std::size_t budget_;
  std::size_t forced_ = 0;
  std::size_t regions_ = 0;
};

}  // namespace ferry::testing
