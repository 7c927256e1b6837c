// The items: what forward saves for backward, and what it costs to rebuild each of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ferry/export.h"
#include "ferry/item.hpp"
#include "ferry/nn/shape.hpp"

namespace ferry::nn {

/// The tensors of a block that backward needs, in the order in which forward makes them.
enum class item : std::uint8_t {
  x,      ///< the block's input
  ln1,    ///< LayerNorm of x
  qkv,    ///< queries, keys and values
  att,    ///< attention probabilities; only with `attention_form::whole`
  heads,  ///< what the heads gathered; with `attention_form::tiled` followed by the probabilities' row statistics
  mid,    ///< x plus the attention's contribution
  ln2,    ///< LayerNorm of mid
  fc,     ///< the hidden layer before GELU
  act,    ///< and after
  count_
};
inline constexpr std::size_t item_count = static_cast<std::size_t>(item::count_);
[[nodiscard]] FERRY_API label name_of(item what) noexcept;

/// One kind of item of a model: its size, and what rebuilding it takes.
struct item_description {
  item what{};
  std::string shape;       ///< "(B, T, 3C)"
  std::size_t floats = 0;  ///< 0 if this model does not save it
  std::string recipe;      ///< in words
  double flops = 0;        ///< of one rebuilding
  double bytes = 0;        ///< read and written by it
};

/// One per item, in order. FLOPs count a multiply-add as two, and of attention only what a query sees. A block's input
/// is described for the blocks after the first; the first one's is the embedding.
[[nodiscard]] FERRY_API std::vector<item_description> describe_items(gpt_shape const& shape, int batch);

/// FLOPs of one forward and backward pass without any rebuilding.
[[nodiscard]] FERRY_API double flops_of_pass(gpt_shape const& shape, int batch);

/// How often recipes ran; one that made some of an item's rows counts as that part of a run.
class recompute_counts {
 public:
  /// Where the runs of one item's recipe are counted; the first block's input is counted apart.
  [[nodiscard]] double* counter(item what, std::uint32_t segment) noexcept {
    return what == item::x && segment == 0 ? &embeddings_ : &runs_[static_cast<std::size_t>(what)];
  }
  [[nodiscard]] double runs(item what) const noexcept { return runs_[static_cast<std::size_t>(what)]; }
  [[nodiscard]] double embeddings() const noexcept { return embeddings_; }

 private:
  std::array<double, item_count> runs_{};
  double embeddings_ = 0;
};

/// What rebuilding comes to.
struct recompute_work {
  double flops = 0;
  double bytes = 0;
};
[[nodiscard]] FERRY_API recompute_work work_of(recompute_counts const& counts,
                                               std::vector<item_description> const& items);

}  // namespace ferry::nn
