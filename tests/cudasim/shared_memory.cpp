// The shared memory of a running block; see shared_memory.hpp.
#include "shared_memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace cudasim {

namespace {

/// Whether a barrier, of the block or of the warp that both belong to, lies between the two.
bool separated(access_time const& earlier, access_time const& now) {
  if (earlier.block_epoch != now.block_epoch) return true;
  return earlier.warp == now.warp && earlier.warp_epoch != now.warp_epoch;
}

}  // namespace

namespace detail {

shared_storage::shared_storage(std::string name, std::size_t element_bytes, std::size_t count)
    : name_(std::move(name)), element_bytes_(element_bytes), bytes_(element_bytes * count), histories_(count) {
  poison();
}

void shared_storage::poison() {
  std::fill(bytes_.begin(), bytes_.end(), std::byte{0xFF});  // not a number, to floating point
  std::fill(histories_.begin(), histories_.end(), history{});
}

std::string shared_storage::out_of_range(std::size_t index, char const* verb, access_time const& now) const {
  return fmt::format("out of range: thread {} {} {}[{}], which has {} elements", now.thread, verb, name_, index,
                     histories_.size());
}

std::string shared_storage::race(std::size_t index, char const* verb, access_time const& now, int other,
                                 char const* what_it_did) const {
  return fmt::format("missing __syncthreads: thread {} {} {}[{}], which thread {} {} since the last barrier",
                     now.thread, verb, name_, index, other, what_it_did);
}

std::string shared_storage::read(std::size_t index, void* to, access_time const& now) {
  if (index >= histories_.size()) {
    std::memset(to, 0xFF, element_bytes_);
    return out_of_range(index, "reads", now);
  }
  std::memcpy(to, bytes_.data() + index * element_bytes_, element_bytes_);
  history& past = histories_[index];
  bool const fresh = !past.read_at_all || past.read.block_epoch != now.block_epoch;
  if (fresh) past.several_readers = past.several_warps = false;
  if (!fresh && past.read.warp != now.warp) past.several_warps = true;
  past.several_readers = !fresh && past.read.warp == now.warp && past.read.warp_epoch == now.warp_epoch &&
                         (past.several_readers || past.read.thread != now.thread);
  past.read = now;
  past.read_at_all = true;
  bool const races = past.written && past.write.thread != now.thread && !separated(past.write, now);
  return races ? race(index, "reads", now, past.write.thread, "wrote") : std::string();
}

std::string shared_storage::write(std::size_t index, void const* from, access_time const& now) {
  if (index >= histories_.size()) return out_of_range(index, "writes", now);
  std::memcpy(bytes_.data() + index * element_bytes_, from, element_bytes_);
  history& past = histories_[index];
  history const before = past;
  past.write = now;
  past.written = true;
  if (before.written && before.write.thread != now.thread && !separated(before.write, now)) {
    return race(index, "writes", now, before.write.thread, "wrote");
  }
  if (!before.read_at_all || before.read.block_epoch != now.block_epoch) return {};
  bool const other_reader = before.read.thread != now.thread || before.several_readers;
  bool const races = before.several_warps || (other_reader && !separated(before.read, now));
  if (!races) return {};
  return before.read.thread != now.thread
             ? race(index, "writes", now, before.read.thread, "read")
             : fmt::format(
                   "missing __syncthreads: thread {} writes {}[{}], which other threads read since the last "
                   "barrier",
                   now.thread, name_, index);
}

}  // namespace detail

detail::shared_storage& shared_memory::find(void const* declaration, std::size_t element_bytes, std::size_t count,
                                            char const* name) {
  auto const found = arrays_.find(declaration);
  if (found != arrays_.end()) return found->second;
  return arrays_.try_emplace(declaration, name, element_bytes, count).first->second;
}

void shared_memory::poison() {
  for (auto& [declaration, each] : arrays_) each.poison();
}

}  // namespace cudasim
