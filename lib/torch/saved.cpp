#include "torch/saved.hpp"

#include "ferry/error.hpp"
#include "torch/frame.hpp"

namespace ferry::torch::detail {

recorded::~recorded() {
  if (frame_) frame_->forget(index_);
}

at::Tensor recorded::value() const { return frame_->value(index_); }

saved::saved(at::Tensor const& tensor)
    : counter_(tensor.unsafeGetTensorImpl()->version_counter()), version_(counter_.current_version()) {}

saved saved::kept(at::Tensor const& tensor) {
  saved made(tensor);
  // A leaf has no history that could lead back here; of anything else only the data may be held, or the graph would
  // own itself.
  made.how_ = tensor.is_leaf() ? tensor : tensor.tensor_data();
  return made;
}

saved saved::stored(item_handle as, at::Tensor const& tensor) {
  saved made(tensor);
  made.shape_ = form(tensor);
  made.how_ = std::move(as);
  return made;
}

saved saved::dropped(std::shared_ptr<frame> by, std::size_t index, at::Tensor const& tensor) {
  saved made(tensor);
  made.how_ = recorded(std::move(by), index);
  return made;
}

item const* saved::stored_item() const noexcept {
  auto const* const handle = std::get_if<item_handle>(&how_);
  return handle != nullptr ? handle->get().get() : nullptr;
}

/// LibTorch checks versions only of what it saves without hooks.
void saved::check_version() const {
  auto const now = counter_.current_version();
  TORCH_CHECK(
      now == version_,
      "one of the variables needed for gradient computation has been modified by an inplace operation: it is at "
      "version ",
      now, "; expected version ", version_, " instead");
}

at::Tensor saved::unpack() const {
  if (std::holds_alternative<std::monostate>(how_)) {
    throw recipe_error("backward through a graph that a checkpointed function made while it was run again");
  }
  check_version();
  if (auto const* const tensor = std::get_if<at::Tensor>(&how_)) return *tensor;
  if (auto const* const handle = std::get_if<item_handle>(&how_)) {
    return shape_.over(handle->owner().restore(handle->get()));
  }
  return std::get<recorded>(how_).value();
}

}  // namespace ferry::torch::detail
