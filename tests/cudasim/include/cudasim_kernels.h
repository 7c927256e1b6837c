// What the emulated kernel language is made of: launches by signature, shared memory that sees its accesses, and the
// calls by which a CUDA thread meets the others of its block.
#pragma once

#if !defined(FERRY_CUDASIM)
#error "the emulated CUDA headers are for tests: link the target cudasim, which defines FERRY_CUDASIM"
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"

namespace cudasim {

namespace detail {

// By a CUDA thread.
void block_barrier(char const* file, int line);
void warp_barrier(unsigned mask);
/// What lane `source` brings to the same shuffle.
std::uint64_t exchange(unsigned mask, std::uint64_t bits, int source);
[[nodiscard]] int lane();

template <typename T>
T shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, source);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

/// One shared array of the running block, made by the first thread that asks.
class shared_storage;
[[nodiscard]] shared_storage& shared_array_of_block(void const* declaration, std::size_t element_bytes,
                                                    std::size_t count, char const* name);
void read_shared(shared_storage& from, std::size_t index, void* to);
void write_shared(shared_storage& to, std::size_t index, void const* from);

/// A pointer among a kernel's arguments.
struct pointer_argument {
  void const* address = nullptr;
  bool read_only = false;
};

/// A kernel with its arguments, whatever its signature.
struct kernel_call {
  void (*kernel)() = nullptr;
  std::vector<pointer_argument> pointers{};
  /// With these addresses in place of the pointers: what each CUDA thread runs.
  std::function<std::function<void()>(std::vector<void*> const&)> thread_with{};
  /// The same for the kernel's serial form: what runs blocks [first, last).
  std::function<std::function<void(int, int)>(std::vector<void*> const&, void (*)())> blocks_with{};
};

template <typename T>
inline constexpr bool is_address = std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>;

template <typename T>
void note_pointer(std::vector<pointer_argument>& pointers, T const& value) {
  if constexpr (is_address<T>) pointers.push_back({value, std::is_const_v<std::remove_pointer_t<T>>});
}

template <typename T>
void put_address(std::vector<void*> const& addresses, std::size_t& next, T& value) {
  if constexpr (is_address<T>) value = static_cast<T>(addresses[next++]);
}

template <typename... Parameters>
kernel_call bound_kernel(void (*kernel)(Parameters...), Parameters... arguments) {
  using values = std::tuple<std::remove_cv_t<Parameters>...>;
  kernel_call result;
  result.kernel = reinterpret_cast<void (*)()>(kernel);
  (note_pointer(result.pointers, arguments), ...);
  auto const translated = [given = values(arguments...)](std::vector<void*> const& addresses) {
    values with = given;
    std::size_t next = 0;
    std::apply([&](auto&... each) { (put_address(addresses, next, each), ...); }, with);
    return with;
  };
  result.thread_with = [kernel, translated](std::vector<void*> const& addresses) -> std::function<void()> {
    return [kernel, with = translated(addresses)] { std::apply(kernel, with); };
  };
  result.blocks_with = [translated](std::vector<void*> const& addresses,
                                    void (*runner)()) -> std::function<void(int, int)> {
    auto const run = reinterpret_cast<void (*)(int, int, Parameters...)>(runner);
    return [run, with = translated(addresses)](int first, int last) {
      std::apply([&](auto const&... each) { run(first, last, each...); }, with);
    };
  };
  return result;
}

cudaError_t launch(cudaLaunchConfig_t const* config, kernel_call call);

}  // namespace detail

/// An element of a shared array: reading and writing it are seen.
template <typename T>
class shared_element {
 public:
  shared_element(detail::shared_storage& in, std::size_t index) : in_(&in), index_(index) {}

  operator T() const {
    T value;
    detail::read_shared(*in_, index_, &value);
    return value;
  }
  T operator=(T value) const {
    detail::write_shared(*in_, index_, &value);
    return value;
  }
  T operator=(shared_element const& other) const { return *this = static_cast<T>(other); }
  T operator+=(T value) const { return *this = static_cast<T>(*this) + value; }
  T operator-=(T value) const { return *this = static_cast<T>(*this) - value; }
  T operator*=(T value) const { return *this = static_cast<T>(*this) * value; }

 private:
  detail::shared_storage* in_;
  std::size_t index_;
};

template <typename T>
class shared_array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  shared_array(void const* declaration, std::size_t count, char const* name)
      : storage_(&detail::shared_array_of_block(declaration, sizeof(T), count, name)) {}

  template <typename Index>
  shared_element<T> operator[](Index index) const {
    return {*storage_, static_cast<std::size_t>(index)};
  }

 private:
  detail::shared_storage* storage_;
};

}  // namespace cudasim
