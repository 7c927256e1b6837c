// How one saved tensor is remembered until backward asks for it: as it was, as an item of a session, or as a tensor
// that a checkpointed function makes again. Move-only; any thread, one at a time, as LibTorch's saved variables.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <variant>

#include "torch/form.hpp"
#include "torch/state.hpp"

namespace ferry::torch::detail {

class frame;

/// One of the tensors that a frame dropped; the frame forgets it with this.
class recorded {
 public:
  recorded(std::shared_ptr<frame> of, std::size_t index) noexcept : frame_(std::move(of)), index_(index) {}
  recorded(recorded&&) noexcept = default;
  recorded& operator=(recorded&& other) noexcept {
    frame_.swap(other.frame_);
    std::swap(index_, other.index_);
    return *this;
  }
  ~recorded();
  [[nodiscard]] at::Tensor value() const;

 private:
  std::shared_ptr<frame> frame_;
  std::size_t index_;
};

class saved {
 public:
  /// Remembers nothing: for graphs that nobody goes through.
  saved() noexcept = default;

  [[nodiscard]] static saved kept(at::Tensor const& tensor);
  [[nodiscard]] static saved stored(item_handle as, at::Tensor const& tensor);
  [[nodiscard]] static saved dropped(std::shared_ptr<frame> by, std::size_t index, at::Tensor const& tensor);

  /// Throws: LibTorch's error if the tensor has been modified in place since; as `state::restore` and `frame::value`.
  [[nodiscard]] at::Tensor unpack() const;
  void check_version() const;

  /// The item, if that is how it is remembered.
  [[nodiscard]] item const* stored_item() const noexcept;
  /// Unpacking it calls neither session nor frame.
  [[nodiscard]] bool is_kept() const noexcept { return std::holds_alternative<at::Tensor>(how_); }
  [[nodiscard]] form const& shape() const noexcept { return shape_; }

 private:
  explicit saved(at::Tensor const& tensor);

  form shape_;
  c10::VariableVersion counter_;
  std::uint32_t version_ = 0;
  std::variant<std::monostate, at::Tensor, item_handle, recorded> how_;
};

}  // namespace ferry::torch::detail
