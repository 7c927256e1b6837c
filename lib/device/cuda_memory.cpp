#include "device/cuda_memory.hpp"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "device/near_memory.hpp"
#include "ferry/config.hpp"

namespace ferry::cuda {

namespace {

/// Null for lack of room; any other failure is thrown.
void* taken(void* address, cudaError_t status, char const* call, health& state) {
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  state.require(status, call);
  return address;
}

class from_cuda final : public memory_source {
 public:
  from_cuda(int ordinal, health& state) : ordinal_(ordinal), state_(state) {}

  void* allocate(std::size_t bytes) override {
    current_device const current(ordinal_);
    void* address = nullptr;
    auto const status = cudaMalloc(&address, bytes);
    return taken(address, status, "cudaMalloc", state_);
  }
  void deallocate(void* address) noexcept override { state_.succeeded(cudaFree(address)); }

 private:
  int ordinal_;
  health& state_;
};

/// A pool hands out memory in the order of a stream: one of this source's own, which nothing else runs on.
class from_pool final : public memory_source {
 public:
  from_pool(int ordinal, cudaMemPool_t pool, health& state) : pool_(pool), state_(state) {
    current_device const current(ordinal);
    state.require(cudaStreamCreateWithPriority(&order_, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority");
  }
  ~from_pool() override {
    state_.succeeded(cudaStreamSynchronize(order_));
    state_.succeeded(cudaStreamDestroy(order_));
  }

  void* allocate(std::size_t bytes) override {
    void* address = nullptr;
    auto const status = cudaMallocFromPoolAsync(&address, bytes, pool_, order_);
    if (taken(address, status, "cudaMallocFromPoolAsync", state_) == nullptr) return nullptr;
    state_.require_known(cudaStreamSynchronize(order_), "cudaStreamSynchronize");  // now any stream may use it
    return address;
  }
  void deallocate(void* address) noexcept override { state_.succeeded(cudaFreeAsync(address, order_)); }

 private:
  cudaMemPool_t pool_;
  health& state_;
  cudaStream_t order_ = nullptr;
};

class from_trainer final : public memory_source {
 public:
  from_trainer(std::function<void*(std::size_t)> allocate, std::function<void(void*)> deallocate)
      : allocate_(std::move(allocate)), deallocate_(std::move(deallocate)) {}

  void* allocate(std::size_t bytes) override { return allocate_(bytes); }
  void deallocate(void* address) noexcept override { deallocate_(address); }

 private:
  std::function<void*(std::size_t)> allocate_;
  std::function<void(void*)> deallocate_;
};

class from_host final : public memory_source {
 public:
  from_host(int ordinal, int numa_node, health& state) : ordinal_(ordinal), numa_node_(numa_node), state_(state) {}

  void* allocate(std::size_t bytes) override {
    current_device const current(ordinal_);
    near_memory const here(numa_node_);
    void* address = nullptr;
    auto const status = cudaHostAlloc(&address, bytes, cudaHostAllocPortable);
    return taken(address, status, "cudaHostAlloc", state_);
  }
  void deallocate(void* address) noexcept override { state_.succeeded(cudaFreeHost(address)); }

 private:
  int ordinal_;
  int numa_node_;
  health& state_;
};

/// Cut from memory of the trainer's, which CUDA is told of.
class from_registered final : public memory_source {
 public:
  from_registered(int ordinal, std::span<std::byte> memory, health& state)
      : state_(state), memory_(memory), arena_(usable(memory).size()), base_(usable(memory).data()) {
    current_device const current(ordinal);
    state.require(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable), "cudaHostRegister");
  }
  ~from_registered() override { state_.succeeded(cudaHostUnregister(memory_.data())); }

  void* allocate(std::size_t bytes) override {
    auto const found = bytes <= arena_.capacity_bytes() ? arena_.allocate(bytes) : std::nullopt;
    if (!found) return nullptr;
    void* const address = base_ + found->offset;
    live_.emplace(address, *found);
    return address;
  }
  void deallocate(void* address) noexcept override {
    auto const found = live_.find(address);
    arena_.free(found->second);
    live_.erase(found);
  }

 private:
  /// What of it begins where any kernel can use it.
  static std::span<std::byte> usable(std::span<std::byte> memory) {
    std::size_t const misaligned = reinterpret_cast<std::uintptr_t>(memory.data()) % arena::alignment;
    std::size_t const skipped = misaligned == 0 ? 0 : arena::alignment - misaligned;
    if (memory.size() < skipped + arena::alignment) {
      throw invalid_argument(
          fmt::format("{} bytes of pinned memory were handed in, which hold nothing; give {} or more", memory.size(),
                      2 * arena::alignment));
    }
    return memory.subspan(skipped);
  }

  health& state_;
  std::span<std::byte> memory_;
  arena arena_;
  std::byte* base_;
  std::unordered_map<void*, arena::block> live_;
};

}  // namespace

std::unique_ptr<memory_source> make_device_source(cuda_device_options const& options, health& state) {
  bool const own = options.allocate != nullptr || options.deallocate != nullptr;
  if (own && (options.allocate == nullptr || options.deallocate == nullptr)) {
    throw invalid_argument("an allocator of the trainer's own needs both functions, allocate and deallocate");
  }
  if (own && options.pool != nullptr) {
    throw invalid_argument("device memory comes from an allocator or from a pool: give one of them");
  }
  if (own) return std::make_unique<from_trainer>(options.allocate, options.deallocate);
  if (options.pool != nullptr) return std::make_unique<from_pool>(options.ordinal, options.pool, state);
  return std::make_unique<from_cuda>(options.ordinal, state);
}

std::unique_ptr<memory_source> make_pinned_source(cuda_device_options const& options, int numa_node, health& state) {
  if (!options.pinned.empty()) return std::make_unique<from_registered>(options.ordinal, options.pinned, state);
  return std::make_unique<from_host>(options.ordinal, numa_node, state);
}

bounded_memory::~bounded_memory() {
  for (auto const& [address, bytes] : live_) source_->deallocate(address);
}

void* bounded_memory::allocate(std::size_t bytes) {
  char const* const words = space_ == memory_space::device ? "device memory" : "pinned memory";
  if (bytes == 0) throw invalid_argument(fmt::format("zero bytes of {} asked for; ask for at least one", words));
  std::lock_guard const lock(mutex_);
  if (bytes > limit_bytes_ - used_bytes_) throw_exhausted(bytes);
  void* const address = source_->allocate(bytes);
  if (address == nullptr) throw_exhausted(bytes);
  live_.emplace(address, bytes);
  used_bytes_ += bytes;
  return address;
}

bool bounded_memory::deallocate(void* address) noexcept {
  std::lock_guard const lock(mutex_);
  auto const found = live_.find(address);
  if (found == live_.end()) return false;
  source_->deallocate(address);
  used_bytes_ -= found->second;
  live_.erase(found);
  return true;
}

/// What is free by this device's own count; others on the GPU or the machine may have left less.
void bounded_memory::throw_exhausted(std::size_t bytes) const {
  std::size_t const free = limit_bytes_ - used_bytes_;
  auto const why = bytes > free ? "" : "; others use what it would have taken";
  if (space_ == memory_space::device) {
    throw out_of_device_memory(
        fmt::format("out of device memory on {}: {} needed, {} free of {}{}; lower FERRY_BUDGET, "
                    "or free memory of the GPU",
                    name_, format_bytes(bytes), format_bytes(free), format_bytes(limit_bytes_), why),
        bytes, limit_bytes_);
  }
  throw out_of_pinned_memory(
      fmt::format("out of pinned memory for {}: {} needed, {} free of {}{}; lower "
                  "FERRY_HOST_BUDGET, or raise FERRY_PINNED_BYTES or the limit on locked memory",
                  name_, format_bytes(bytes), format_bytes(free), format_bytes(limit_bytes_), why),
      bytes, limit_bytes_);
}

}  // namespace ferry::cuda
