// The table of handles. A slot's word holds the generation and kind of its valid handle and how many use it; one
// compare-and-swap on it checks a handle and takes it into use.
#include "capi/handles.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>
#include <vector>

namespace ferry::capi::handles {

namespace {

static_assert(sizeof(void*) == sizeof(std::uint64_t), "a handle needs 64 bits");

// A handle: generation (32), kind (8), slot (24). A word: the same generation and kind, and users (24) for the slot.
// The highest bit of a generation is always set: no address that a program has is such a number. A stale handle is
// mistaken for a valid one only after its slot was used two thousand million times.
constexpr unsigned generation_shift = 32;
constexpr unsigned kind_shift = 24;
constexpr std::uint64_t low_mask = (std::uint64_t{1} << kind_shift) - 1;
constexpr std::uint64_t handle_bit = std::uint64_t{1} << 63;
constexpr std::uint32_t first_generation = std::uint32_t{1} << 31;

constexpr std::size_t slots_per_page = 4096;
constexpr std::size_t most_pages = (low_mask + 1) / slots_per_page;

struct slot {
  std::atomic<std::uint64_t> word{std::uint64_t{first_generation} << generation_shift};
  void* object = nullptr;  // written while no handle is valid
};
using page = std::array<slot, slots_per_page>;

// Without destructors, so that handles can be used, and refused, until the process ends.
constinit std::array<std::atomic<page*>, most_pages> pages{};

struct idle_slots {
  std::mutex mutex;
  std::vector<slot_index> slots;
  std::size_t pages = 0;
};

idle_slots& idle() {
  static idle_slots& only = *new idle_slots;
  return only;
}

slot* slot_at(std::uint64_t index) noexcept {
  page* const found = pages[index / slots_per_page].load(std::memory_order_acquire);
  return found != nullptr ? &(*found)[index % slots_per_page] : nullptr;
}

std::uint64_t number_of(void const* handle) noexcept { return reinterpret_cast<std::uintptr_t>(handle); }

constexpr std::array<std::string_view, 10> kind_names{"nothing",   "settings", "a device", "a stream", "an event",
                                                      "a session", "a block",  "a lease",  "a plan",   "segments"};
std::string_view name_of(std::uint64_t kind) noexcept {
  return kind < kind_names.size() ? kind_names[kind] : std::string_view("unknown");
}

thread_local constinit bool working = false;

[[noreturn]] void refuse_work(char const* argument) {
  throw refusal(FERRY_ERROR_BUSY,
                fmt::format("'{}' is used by work on a stream, which would wait for itself; enqueue from "
                            "the trainer's thread or from a recipe",
                            argument));
}

[[noreturn]] void refuse(void const* handle, handle_kind kind, char const* argument) {
  std::string_view const wanted = name_of(static_cast<std::uint64_t>(kind));
  if (handle == nullptr) {
    throw refusal(FERRY_ERROR_INVALID_HANDLE,
                  fmt::format("'{}' is null; pass {} that Ferry gave out, and check the status of the call that should "
                              "have made it",
                              argument, wanted));
  }
  std::uint64_t const number = number_of(handle);
  std::uint64_t const found = (number & ~(~std::uint64_t{0} << generation_shift)) >> kind_shift;
  bool const known =
      looks_like_one(handle) && found > 0 && found < kind_names.size() && slot_at(number & low_mask) != nullptr;
  if (!known) {
    throw refusal(FERRY_ERROR_INVALID_HANDLE,
                  fmt::format("'{}' is no handle of Ferry's; pass {} that Ferry gave out", argument, wanted));
  }
  if (found != static_cast<std::uint64_t>(kind)) {
    throw refusal(FERRY_ERROR_INVALID_HANDLE, fmt::format("'{}' is {}; pass {}", argument, name_of(found), wanted));
  }
  throw refusal(FERRY_ERROR_INVALID_HANDLE,
                fmt::format("'{}' is gone: it was destroyed, ended or used up; set pointers to null when that happens",
                            argument));
}

}  // namespace

at_work::at_work() noexcept { working = true; }
at_work::~at_work() { working = false; }

bool looks_like_one(void const* value) noexcept { return (number_of(value) & handle_bit) != 0; }

slot_index reserve() {
  idle_slots& of = idle();
  std::lock_guard const lock(of.mutex);
  if (of.slots.empty()) {
    if (of.pages == most_pages) {
      throw refusal(
          FERRY_ERROR_OUT_OF_HOST_MEMORY,
          fmt::format("{} handles are in use, the most there are; destroy what is no longer needed", low_mask + 1));
    }
    of.slots.reserve((of.pages + 1) * slots_per_page);  // giving one back never allocates
    pages[of.pages].store(new page, std::memory_order_release);
    ++of.pages;
    for (std::size_t i = of.pages * slots_per_page; i-- > (of.pages - 1) * slots_per_page;) {
      of.slots.push_back(static_cast<slot_index>(i));
    }
  }
  slot_index const taken = of.slots.back();
  of.slots.pop_back();
  return taken;
}

void give_back(slot_index index) noexcept {
  idle_slots& of = idle();
  std::lock_guard const lock(of.mutex);
  of.slots.push_back(index);
}

void* publish(slot_index index, handle_kind kind, void* object) noexcept {
  slot& place = *slot_at(index);
  place.object = object;
  std::uint64_t const unused = place.word.load(std::memory_order_relaxed);
  std::uint64_t const valid = unused | (static_cast<std::uint64_t>(kind) << kind_shift);
  place.word.store(valid, std::memory_order_release);
  // Never followed: a pointer only in its type. NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(valid | index));
}

void* acquire(void* handle, handle_kind kind, char const* argument) {
  std::uint64_t const number = number_of(handle);
  slot* const place = looks_like_one(handle) ? slot_at(number & low_mask) : nullptr;
  bool const right_kind = ((number >> kind_shift) & 0xFF) == static_cast<std::uint64_t>(kind);
  if (place == nullptr || !right_kind) refuse(handle, kind, argument);
  if (working && kind != handle_kind::settings && kind != handle_kind::plan) refuse_work(argument);
  std::uint64_t word = place->word.load(std::memory_order_relaxed);
  do {
    if ((word & ~low_mask) != (number & ~low_mask)) refuse(handle, kind, argument);
  } while (!place->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire, std::memory_order_relaxed));
  return place->object;
}

void release(void* handle) noexcept {
  slot_at(number_of(handle) & low_mask)->word.fetch_sub(1, std::memory_order_release);
}

bool retire(void* handle, std::uint32_t own_uses) noexcept {
  std::uint64_t const number = number_of(handle);
  slot& place = *slot_at(number & low_mask);
  std::uint64_t expected = (number & ~low_mask) | own_uses;
  std::uint32_t const next = (static_cast<std::uint32_t>(number >> generation_shift) + 1) | first_generation;
  return place.word.compare_exchange_strong(expected, std::uint64_t{next} << generation_shift,
                                            std::memory_order_acq_rel, std::memory_order_relaxed);
}

}  // namespace ferry::capi::handles
