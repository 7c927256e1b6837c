// What a tensor is apart from its bytes, so that it can be made again over other memory. A value; any thread.
#pragma once

#include <ATen/DimVector.h>
#include <ATen/core/Tensor.h>

namespace ferry::torch::detail {

struct form {
  at::DimVector sizes;
  at::DimVector strides;
  std::int64_t offset = 0;  ///< of the first element in its storage, in elements
  caffe2::TypeMeta type;
  c10::DispatchKeySet keys;  ///< with the conjugate and negative bits

  form() = default;
  explicit form(at::Tensor const& of)
      : sizes(of.sizes()),
        strides(of.strides()),
        offset(of.storage_offset()),
        type(of.dtype()),
        keys(of.unsafeGetTensorImpl()->key_set()) {}

  /// The tensor over a storage laid out as the first one's.
  [[nodiscard]] at::Tensor over(c10::Storage storage) const {
    auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, type);
    auto* const impl = made.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(at::IntArrayRef(sizes), at::IntArrayRef(strides));
    impl->set_storage_offset(offset);
    return made;
  }

  /// How many bytes of its storage lie between its first and its last element, both included.
  [[nodiscard]] static std::size_t span_bytes(at::Tensor const& of) {
    if (of.numel() == 0) return 0;
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < of.dim(); ++i) last += (of.size(i) - 1) * of.stride(i);
    return static_cast<std::size_t>(last + 1) * of.itemsize();
  }
};

/// A leaf that requires a gradient, or a view of one: the transposed weight that a linear layer saves.
inline bool is_parameter(at::Tensor const& tensor) {
  if (!tensor.requires_grad()) return false;
  if (tensor.is_leaf()) return true;
  if (!tensor.is_view()) return false;
  auto const& base = tensor._base();
  return base.is_leaf() && base.requires_grad();
}

/// Part of a storage without being a view, as `unsafe_chunk` makes them for an LSTM's gates: whoever writes to another
/// part changes no version that this tensor has, so a copy of the storage may be taken too early for the others.
inline bool is_part_of_its_own_count(at::Tensor const& tensor) {
  return !tensor.is_view() && static_cast<std::size_t>(tensor.numel()) * tensor.itemsize() < tensor.storage().nbytes();
}

}  // namespace ferry::torch::detail
