// A file's bytes, mapped read-only into memory: pages are read when they are first touched.
// The file may be replaced or removed meanwhile (the mapping keeps the old one), but must not be cut short in place.
// Threads: any may read the bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "ferry/export.h"

namespace ferry::nn {

/// A file that is mapped into memory.
class mapped_file {  // owns the mapping; lends its bytes, which stay where they are when it is moved
 public:
  /// Throws: `file_error` if there is no such file, it may not be read, or it is no regular file.
  FERRY_API explicit mapped_file(std::filesystem::path const& file);
  FERRY_API mapped_file(mapped_file&& other) noexcept;
  FERRY_API mapped_file& operator=(mapped_file&& other) noexcept;
  FERRY_API ~mapped_file();

  /// Empty for an empty file.
  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return bytes_; }

 private:
  std::span<std::byte const> bytes_;
};

}  // namespace ferry::nn
