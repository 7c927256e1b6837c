// The sim device's memory; see sim_memory.hpp for ownership and threads.
#include "device/sim_memory.hpp"

#include <cerrno>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <sys/mman.h>

#include "device/arena.hpp"
#include "device/memory_names.hpp"
#include "ferry/config.hpp"

namespace ferry {

namespace {

std::size_t rounded(std::size_t bytes) noexcept {
  return (bytes + arena::alignment - 1) / arena::alignment * arena::alignment;
}

[[noreturn]] void throw_out_of(memory_space space, std::string const& message, std::size_t needed, std::size_t limit) {
  if (space == memory_space::device) throw out_of_device_memory(message, needed, limit);
  throw out_of_pinned_memory(message, needed, limit);
}

}  // namespace

sim_memory::sim_memory(memory_space space, std::size_t bytes, std::size_t addresses_per_byte, bool backed)
    : space_(space),
      limit_bytes_(bytes / arena::alignment * arena::alignment),
      addresses_per_byte_(addresses_per_byte),
      backed_(backed) {
  if (limit_bytes_ == 0) {
    auto const names = names_of(space);
    throw invalid_argument(fmt::format("a sim device with {} bytes of {} holds nothing; raise {} to {} or more", bytes,
                                       names.words, names.variable, arena::alignment));
  }
}

sim_memory::~sim_memory() {
  for (auto const& [address, mapped] : live_) munmap(address, mapped.mapped_bytes);
}

void* sim_memory::allocate(std::size_t bytes) {
  if (bytes == 0) {
    throw invalid_argument(fmt::format("zero bytes of {} asked for; ask for at least one", names_of(space_).words));
  }
  std::lock_guard const lock(mutex_);
  // Compared before rounding up, so that no size can wrap around.
  if (bytes > limit_bytes_ - used_bytes_) throw_exhausted(bytes);
  std::size_t const charged = rounded(bytes);
  std::size_t const addresses = charged * addresses_per_byte_;
  void* const address = mmap(nullptr, addresses, backed_ ? PROT_READ | PROT_WRITE : PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw_not_mapped(addresses, errno);
  live_.emplace(address, mapping{charged, addresses});
  used_bytes_ += charged;
  return address;
}

bool sim_memory::deallocate(void* address) noexcept {
  std::lock_guard const lock(mutex_);
  auto const found = live_.find(address);
  if (found == live_.end()) return false;
  munmap(address, found->second.mapped_bytes);
  used_bytes_ -= found->second.charged_bytes;
  live_.erase(found);
  return true;
}

void sim_memory::throw_exhausted(std::size_t bytes) const {
  auto const names = names_of(space_);
  throw_out_of(
      space_,
      fmt::format("out of {}: {} needed, {} free of {}; raise {} or hold less", names.words, format_bytes(bytes),
                  format_bytes(limit_bytes_ - used_bytes_), format_bytes(limit_bytes_), names.variable),
      bytes, limit_bytes_);
}

void sim_memory::throw_not_mapped(std::size_t bytes, int cause) const {
  auto const names = names_of(space_);
  throw_out_of(space_,
               fmt::format("this machine cannot map {} of addresses for {} ({}); lower {}, or lift a limit on address "
                           "space (ulimit -v)",
                           format_bytes(bytes), names.words, std::generic_category().message(cause), names.variable),
               bytes, limit_bytes_);
}

}  // namespace ferry
