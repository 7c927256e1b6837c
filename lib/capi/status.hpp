// What every function of the C interface is made of: exceptions become statuses and words, arguments are checked,
// strings and structs are given back.
//
// Ownership: a thread's last failure is the thread's; strings are the caller's until `ferry_string_free`.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "ferry/error.hpp"
#include "ferry/ferry.h"

namespace ferry::capi {

/// A call that the C interface itself refuses.
class refusal : public error {
 public:
  refusal(ferry_status status, std::string const& why) : error(why), status_(status) {}
  [[nodiscard]] ferry_status status() const noexcept { return status_; }

 private:
  ferry_status status_;
};

/// Notes the exception at hand as this thread's last failure. `call` names the function that failed.
[[nodiscard]] ferry_status note_failure(char const* call) noexcept;

/// Runs a function's body: nothing that it throws gets past here.
template <typename Body>
[[nodiscard]] ferry_status guarded(char const* call, Body&& body) noexcept {
  try {
    body();
    return FERRY_OK;
  } catch (...) {
    return note_failure(call);
  }
}

/// The same for a function that returns a pointer: null is its failure.
template <typename Body>
[[nodiscard]] auto pointer_guarded(char const* call, Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    static_cast<void>(note_failure(call));
    return nullptr;
  }
}

/// This thread's failures so far, and what the last one said: so a callback's own failure can be told from older ones.
[[nodiscard]] std::size_t failure_count() noexcept;
[[nodiscard]] std::string_view last_failure() noexcept;

/// Throws: `refusal` for a null pointer.
template <typename Type>
[[nodiscard]] Type& required(Type* pointer, char const* argument);
[[nodiscard]] std::string_view required_text(char const* text, char const* argument);

/// Where a result is to go; null until there is one. Throws: `refusal` for a null pointer.
template <typename Type>
[[nodiscard]] Type*& result(Type** pointer, char const* argument) {
  Type*& place = required(pointer, argument);
  place = nullptr;
  return place;
}

/// A copy for the caller to free. Throws: `std::bad_alloc`.
[[nodiscard]] char* give_text(std::string_view text);

[[noreturn]] void refuse_null(char const* argument);
/// Throws: `refusal` for a size that no version of a struct has. `least` is that of the first.
void require_size(char const* argument, std::size_t size, std::size_t least);
/// Throws: `refusal` if a struct of a later version says something that this one does not know.
void require_zeros(char const* argument, void const* from, std::size_t known, std::size_t size);

template <typename Type>
Type& required(Type* pointer, char const* argument) {
  if (pointer == nullptr) refuse_null(argument);
  return *pointer;
}

/// Sizes in the first version of the interface: a shorter one is a mistake. These numbers never change.
template <typename Struct>
inline constexpr std::size_t first_size = 0;
template <>
inline constexpr std::size_t first_size<ferry_device_info> = 56;
template <>
inline constexpr std::size_t first_size<ferry_recipe> = 56;
template <>
inline constexpr std::size_t first_size<ferry_stats> = 336;
template <>
inline constexpr std::size_t first_size<ferry_plan_options> = 56;
template <>
inline constexpr std::size_t first_size<ferry_plan_summary> = 136;

/// A struct that may be shorter or longer than it is today. Throws: `refusal`.
template <typename Struct>
[[nodiscard]] Struct read_struct(Struct const* given, char const* argument) {
  static_assert(first_size<Struct> > 0 && first_size<Struct> <= sizeof(Struct));
  std::size_t const size = required(given, argument).size;
  require_size(argument, size, first_size<Struct>);
  require_zeros(argument, given, sizeof(Struct), size);
  Struct known{};
  std::memcpy(&known, given, size < sizeof(Struct) ? size : sizeof(Struct));
  known.size = sizeof(Struct);
  return known;
}

/// The same for a result. The caller's size stays as it is.
template <typename Struct>
void write_struct(Struct* into, Struct made, char const* argument) {
  static_assert(first_size<Struct> > 0 && first_size<Struct> <= sizeof(Struct));
  std::size_t const size = required(into, argument).size;
  require_size(argument, size, first_size<Struct>);
  made.size = size;
  std::size_t const known = size < sizeof(Struct) ? size : sizeof(Struct);
  std::memcpy(into, &made, known);
  std::memset(reinterpret_cast<char*>(into) + known, 0, size - known);
}

}  // namespace ferry::capi
