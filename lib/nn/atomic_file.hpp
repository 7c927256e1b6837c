// Saving a file so that there is always a whole one: bytes go to a temporary file beside the target, which takes
// the target's place only once it is on the disk. Whatever fails before that leaves the old file as it was.
// Threads: one at a time for an object; several objects, even for one target, do not disturb each other.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace ferry::nn {

class atomic_file {  // owns the temporary file until it is committed
 public:
  /// Creates the temporary. A target that is a symbolic link stays one: what it points to is replaced.
  /// Throws: `file_error`, as all below, if a file cannot be saved there.
  explicit atomic_file(std::filesystem::path const& target);
  atomic_file(atomic_file const&) = delete;
  atomic_file& operator=(atomic_file const&) = delete;
  /// Without `commit`, removes the temporary.
  ~atomic_file();

  /// Appends. After a failure there is nothing left to commit.
  void write(std::span<std::byte const> bytes);
  /// Puts what was written in the target's place, for good. The last call to make.
  void commit();

 private:
  void create_temporary();
  [[noreturn]] void fail();
  void discard() noexcept;

  std::filesystem::path target_;     // where the links end
  std::filesystem::path temporary_;  // empty once it is gone
  int descriptor_ = -1;
};

/// Throws: `file_error` if `target` could not be saved now; for asking before the work, not after it.
void require_writable(std::filesystem::path const& target);

}  // namespace ferry::nn
