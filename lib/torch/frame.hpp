// One run of a checkpointed function: what it takes to run it again, and the tensors that were dropped meanwhile.
//
// What autograd saves in the function is counted through, first when it runs and again when it is run anew: the n-th
// tensor of the one is the n-th of the other. The first time backward asks for one that was dropped, the function is
// run again and all of them are caught; each is handed over once, so that memory goes as backward proceeds.
//
// Owned by the saved tensors that it is to rebuild, and by recipes of items that its outputs became. Threads: any; its
// lock comes before the state's. A recipe runs under the state's lock and does not take this one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ferry/torch.hpp"
#include "torch/ambient.hpp"
#include "torch/context.hpp"
#include "torch/saved.hpp"

namespace ferry::torch::detail {

/// A share in a frame that may be given up under the state's lock: the frame then goes after it.
class frame_share {
 public:
  explicit frame_share(std::shared_ptr<frame> of) noexcept : frame_(std::move(of)) {}
  frame_share(frame_share&&) noexcept = default;
  frame_share(frame_share const&) = delete;
  ~frame_share();
  frame const* operator->() const noexcept { return frame_.get(); }

 private:
  std::shared_ptr<frame> frame_;
};

class frame : public std::enable_shared_from_this<frame> {
 public:
  frame(tensor_function compute, checkpoint_options options, tensor_list const& inputs, std::shared_ptr<state> in);

  /// Inputs are remembered by whoever is asked around the call.
  void add_input(saved how, at::Tensor const& tensor);
  /// The first run, on the inputs themselves.
  [[nodiscard]] tensor_list run(tensor_list const& inputs);

  /// A tensor that was dropped. Runs the function again unless that has been done for another one.
  /// Throws: `recipe_error` if the function saves other tensors than before.
  [[nodiscard]] at::Tensor value(std::size_t index);
  void forget(std::size_t index) noexcept;

  /// How to rebuild an output that is about to become an item; empty where that cannot be done into the item's bytes.
  [[nodiscard]] static recipe recipe_of(std::shared_ptr<frame> const& from, std::size_t output,
                                        at::Tensor const& tensor);

 private:
  friend class frame_share;
  class recording;
  class catching;
  struct stop_here {};  ///< thrown through the function once everything is caught

  struct slot {
    at::Tensor value;  ///< caught and not handed over yet
    at::DimVector sizes;
    at::ScalarType type = at::kFloat;
    bool dropped = false;
    bool wanted = true;  ///< somebody may still ask for it
  };
  struct input {
    saved how;
    bool defined = false;
    bool requires_grad = false;
  };

  void recompute();
  void run_again(tensor_list const& inputs);
  void catch_value(std::size_t index, at::Tensor const& tensor, std::size_t& missing);
  void rebuild(recipe_context const& into, std::size_t output, form const& shape) const;

  tensor_function compute_;
  checkpoint_options options_;
  std::shared_ptr<state> state_;  ///< null without a guard
  ambient ambient_;
  std::vector<input> inputs_;

  std::recursive_mutex mutex_;
  std::vector<slot> slots_;
};

}  // namespace ferry::torch::detail
