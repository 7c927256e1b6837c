// The shared memory of a running block, which sees who touches what between two barriers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cudasim {

/// Who accesses, and when: barriers of the block and of the thread's warp are counted.
struct access_time {
  int thread = 0;
  int warp = 0;
  std::uint64_t block_epoch = 0;
  std::uint64_t warp_epoch = 0;
};

namespace detail {

class shared_storage {
 public:
  shared_storage(std::string name, std::size_t element_bytes, std::size_t count);

  /// What is wrong with the access, or nothing.
  std::string read(std::size_t index, void* to, access_time const& now);
  std::string write(std::size_t index, void const* from, access_time const& now);
  /// A new block begins: the bytes are anything.
  void poison();

 private:
  /// The last write of an element, and its reads since the last barrier of the block.
  struct history {
    access_time write;
    access_time read;
    bool written = false;
    bool read_at_all = false;
    bool several_readers = false;  // in the warp and the epoch of `read`
    bool several_warps = false;
  };

  [[nodiscard]] std::string out_of_range(std::size_t index, char const* verb, access_time const& now) const;
  [[nodiscard]] std::string race(std::size_t index, char const* verb, access_time const& now, int other,
                                 char const* what_it_did) const;

  std::string name_;
  std::size_t element_bytes_;
  std::vector<std::byte> bytes_;
  std::vector<history> histories_;
};

}  // namespace detail

class shared_memory {
 public:
  detail::shared_storage& find(void const* declaration, std::size_t element_bytes, std::size_t count, char const* name);
  void poison();

 private:
  std::map<void const*, detail::shared_storage> arrays_;
};

}  // namespace cudasim
