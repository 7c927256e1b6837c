// Weights in files that Python reads too: the safetensors format. A file is the header's length (8 bytes,
// little-endian), the header (JSON: each tensor's type, shape and place, and texts about the whole), then the
// tensors' bytes without gaps.
//
// A file from elsewhere is not trusted: what is read here has been checked to lie within the file.
// Threads: any may read an open file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/export.h"
#include "ferry/nn/mapped_file.hpp"

namespace ferry::nn {

/// A tensor in a file.
struct stored_tensor {
  std::string name;
  std::string dtype;  ///< as the format spells it: F32, BF16 and so on
  std::vector<std::size_t> shape;
  std::span<std::byte const> bytes;  ///< inside the file, at any alignment; lives as long as it is open
};

/// A file that has been opened and checked.
class safetensors_file {  // owns the mapping that its tensors lie in
 public:
  /// Throws: `file_error` if the file cannot be read or is not a whole file of this format.
  FERRY_API explicit safetensors_file(std::filesystem::path const& file);

  [[nodiscard]] std::map<std::string, std::string> const& metadata() const noexcept { return metadata_; }
  /// In the order of their bytes.
  [[nodiscard]] std::vector<stored_tensor> const& tensors() const noexcept { return tensors_; }
  /// Null if there is none of that name.
  [[nodiscard]] FERRY_API stored_tensor const* find(std::string_view name) const noexcept;
  /// What is stored in 16 bits becomes fp32, exactly.
  /// Throws: `file_error` if `tensor` is not of type F32, F16 or BF16 or has not as many numbers as `values`.
  FERRY_API void copy_floats(stored_tensor const& tensor, std::span<float> values) const;

 private:
  std::filesystem::path path_;
  mapped_file file_;
  std::map<std::string, std::string> metadata_;
  std::vector<stored_tensor> tensors_;
};

/// A tensor on its way into a file.
struct tensor_to_write {
  std::string name;
  std::vector<std::size_t> shape;
  std::span<float const> data;  ///< as many as the shape has
};

/// Saves `tensors` in their order, replacing the file only once all of it is on the disk. `metadata` gets
/// "format": "pt", which transformers asks for, unless it has a format.
/// Throws: `file_error` if it cannot be saved; `invalid_argument` if a name is used twice or is not UTF-8, or data
/// and shape differ.
FERRY_API void write_safetensors(std::filesystem::path const& file, std::span<tensor_to_write const> tensors,
                                 std::map<std::string, std::string> const& metadata = {});

}  // namespace ferry::nn
