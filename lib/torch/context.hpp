// Who is asked, on a thread, how to remember what autograd saves: a stack of contexts, the innermost in force. Each
// lives in the scope of a function or a guard of that thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "ferry/torch.hpp"
#include "torch/saved.hpp"

namespace ferry::torch::detail {

class context {
 public:
  context() noexcept;
  context(context const&) = delete;
  context& operator=(context const&) = delete;
  virtual ~context();

  /// The innermost of this thread, or null.
  [[nodiscard]] static context* current() noexcept;

  [[nodiscard]] virtual saved pack(at::Tensor const& tensor) = 0;
  /// False where LibTorch is to save as it does without Ferry.
  [[nodiscard]] virtual bool wants_hooks() const noexcept { return true; }
  /// A checkpoint inside is just a call: what it would rebuild is kept, or not wanted.
  [[nodiscard]] virtual bool runs_plainly() const noexcept { return false; }
  /// Whose session it works for; null without one.
  [[nodiscard]] virtual std::shared_ptr<state> owner() const { return nullptr; }
  /// The guard, if this is one.
  [[nodiscard]] virtual guard_context* as_guard() noexcept { return nullptr; }

 protected:
  context* outer_;
};

/// Nothing goes through Ferry.
class pause_context final : public context {
 public:
  [[nodiscard]] saved pack(at::Tensor const& tensor) override { return saved::kept(tensor); }
  [[nodiscard]] bool wants_hooks() const noexcept override { return false; }
  [[nodiscard]] bool runs_plainly() const noexcept override { return true; }
};

/// The graph will not be used: nothing is remembered.
class discard_context final : public context {
 public:
  [[nodiscard]] saved pack(at::Tensor const&) override { return {}; }
  [[nodiscard]] bool runs_plainly() const noexcept override { return true; }
};

/// An output of a checkpointed function: where it came from, should it become an item.
struct product {
  weak_storage storage;
  std::uint32_t version = 0;
  std::weak_ptr<frame> from;
  std::size_t output = 0;
};

class guard_context final : public context {
 public:
  guard_context(std::shared_ptr<state> into, guard_options const& options) noexcept;

  [[nodiscard]] saved pack(at::Tensor const& tensor) override;
  [[nodiscard]] guard_context* as_guard() noexcept override { return this; }
  /// An input of a checkpointed function, with a recipe if one of the products made it.
  [[nodiscard]] saved pack_input(at::Tensor const& tensor);
  void add_products(std::shared_ptr<frame> const& from, tensor_list const& outputs);

  [[nodiscard]] std::shared_ptr<state> owner() const override { return state_; }

  place where;
  bool marked = false;  ///< the trainer marks segments, so checkpoints do not

 private:
  [[nodiscard]] saved pack(at::Tensor const& tensor, recipe how);
  [[nodiscard]] recipe recipe_for(at::Tensor const& tensor);

  std::shared_ptr<state> state_;
  double least_share_;
  std::vector<product> products_;
};

/// Makes autograd ask the contexts. Throws: `error` where another engine than LibTorch's own is in force.
void install_engine();

}  // namespace ferry::torch::detail
