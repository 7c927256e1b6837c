// Statuses, the last failure of each thread, and strings that are given back.
#include "capi/status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_set>

#include "ferry/cuda_device.hpp"
#include "ferry/device.hpp"
#include "ferry/version.hpp"

namespace ferry::capi {

namespace {

/// In place and without a destructor: noting a failure allocates nothing, and works while a thread is ending.
struct failure {
  std::array<char, 2048> text;
  std::size_t length;
  std::size_t count;
  std::uint64_t needed_bytes;
  std::uint64_t limit_bytes;
};
thread_local constinit failure last{};

void append(std::string_view text) noexcept {
  std::size_t const room = last.text.size() - 1 - last.length;
  std::size_t const taken = std::min(room, text.size());
  std::copy_n(text.data(), taken, last.text.data() + last.length);
  last.length += taken;
  last.text[last.length] = '\0';
}

ferry_status note(ferry_status status, std::string_view text) noexcept {
  append(text);
  return status;
}

ferry_status note(ferry_status status, out_of_memory const& problem) noexcept {
  last.needed_bytes = problem.needed_bytes();
  last.limit_bytes = problem.limit_bytes();
  return note(status, problem.what());
}

/// Refusals name the function, as they are about its arguments; the library's own messages speak for themselves.
ferry_status note(char const* call, refusal const& problem) noexcept {
  append(call);
  append(": ");
  return note(problem.status(), problem.what());
}

struct named_status {
  ferry_status status;
  char const* name;
};
#define FERRY_NAMED(status) \
  named_status { status, #status }
constexpr std::array status_names{FERRY_NAMED(FERRY_OK),
                                  FERRY_NAMED(FERRY_ERROR_INVALID_ARGUMENT),
                                  FERRY_NAMED(FERRY_ERROR_INVALID_HANDLE),
                                  FERRY_NAMED(FERRY_ERROR_BUSY),
                                  FERRY_NAMED(FERRY_ERROR_IN_USE),
                                  FERRY_NAMED(FERRY_ERROR_WRONG_STATE),
                                  FERRY_NAMED(FERRY_ERROR_SETTING),
                                  FERRY_NAMED(FERRY_ERROR_OUT_OF_DEVICE_MEMORY),
                                  FERRY_NAMED(FERRY_ERROR_OUT_OF_PINNED_MEMORY),
                                  FERRY_NAMED(FERRY_ERROR_OUT_OF_HOST_MEMORY),
                                  FERRY_NAMED(FERRY_ERROR_INFEASIBLE_BUDGET),
                                  FERRY_NAMED(FERRY_ERROR_FORMAT),
                                  FERRY_NAMED(FERRY_ERROR_PLAN_MISMATCH),
                                  FERRY_NAMED(FERRY_ERROR_DUPLICATE_KEY),
                                  FERRY_NAMED(FERRY_ERROR_UNKNOWN_KEY),
                                  FERRY_NAMED(FERRY_ERROR_RECIPE),
                                  FERRY_NAMED(FERRY_ERROR_STREAM),
                                  FERRY_NAMED(FERRY_ERROR_TRANSFER),
                                  FERRY_NAMED(FERRY_ERROR_DEADLOCK),
                                  FERRY_NAMED(FERRY_ERROR_NO_CUDA),
                                  FERRY_NAMED(FERRY_ERROR_CUDA),
                                  FERRY_NAMED(FERRY_ERROR_NOT_AVAILABLE),
                                  FERRY_NAMED(FERRY_ERROR_INTERNAL),
                                  FERRY_NAMED(FERRY_ERROR_FUNCTION)};
#undef FERRY_NAMED

/// Strings that callers have and have not freed: so one that is freed twice is recognised. Never destroyed, as handles.
struct given_texts {
  std::mutex mutex;
  std::unordered_set<char const*> texts;
};
given_texts& given() {
  static given_texts& only = *new given_texts;
  return only;
}

}  // namespace

ferry_status note_failure(char const* call) noexcept {
  last.length = 0;
  last.needed_bytes = last.limit_bytes = 0;
  ++last.count;
  try {
    throw;
  } catch (refusal const& problem) {
    return note(call, problem);
  } catch (invalid_argument const& problem) {
    return note(FERRY_ERROR_INVALID_ARGUMENT, problem.what());
  } catch (setting_error const& problem) {
    return note(FERRY_ERROR_SETTING, problem.what());
  } catch (infeasible_budget const& problem) {
    return note(FERRY_ERROR_INFEASIBLE_BUDGET, problem);
  } catch (out_of_pinned_memory const& problem) {
    return note(FERRY_ERROR_OUT_OF_PINNED_MEMORY, problem);
  } catch (out_of_memory const& problem) {
    return note(FERRY_ERROR_OUT_OF_DEVICE_MEMORY, problem);
  } catch (format_error const& problem) {
    return note(FERRY_ERROR_FORMAT, problem.what());
  } catch (plan_mismatch const& problem) {
    return note(FERRY_ERROR_PLAN_MISMATCH, problem.what());
  } catch (duplicate_key const& problem) {
    return note(FERRY_ERROR_DUPLICATE_KEY, problem.what());
  } catch (key_error const& problem) {
    return note(FERRY_ERROR_UNKNOWN_KEY, problem.what());
  } catch (recipe_error const& problem) {
    return note(FERRY_ERROR_RECIPE, problem.what());
  } catch (stream_error const& problem) {
    return note(FERRY_ERROR_STREAM, problem.what());
  } catch (transfer_error const& problem) {
    return note(FERRY_ERROR_TRANSFER, problem.what());
  } catch (deadlock_error const& problem) {
    return note(FERRY_ERROR_DEADLOCK, problem.what());
  } catch (no_cuda const& problem) {
    return note(FERRY_ERROR_NO_CUDA, problem.what());
  } catch (cuda_error const& problem) {
    return note(FERRY_ERROR_CUDA, problem.what());
  } catch (internal_error const& problem) {
    return note(FERRY_ERROR_INTERNAL, problem.what());
  } catch (error const& problem) {
    return note(FERRY_ERROR_WRONG_STATE, problem.what());
  } catch (std::bad_alloc const&) {
    append(call);
    return note(FERRY_ERROR_OUT_OF_HOST_MEMORY, ": the process has no memory left; free some and call again");
  } catch (std::exception const& problem) {
    append(call);
    append(": a bug in Ferry, please report it: ");
    return note(FERRY_ERROR_INTERNAL, problem.what());
  } catch (...) {
    append(call);
    return note(FERRY_ERROR_INTERNAL, ": a bug in Ferry, please report it: an exception of no known type");
  }
}

std::size_t failure_count() noexcept { return last.count; }
std::string_view last_failure() noexcept { return {last.text.data(), last.length}; }

void refuse_null(char const* argument) {
  throw refusal(FERRY_ERROR_INVALID_ARGUMENT, fmt::format("'{}' is null; it must point to something", argument));
}

void require_size(char const* argument, std::size_t size, std::size_t least) {
  constexpr std::size_t most = 4096;  // more is not a struct of Ferry's, but a member that was never set
  if (size >= least && size <= most) return;
  throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                fmt::format("'{}' says that its size is {}, which no version of it has; set .size to sizeof the struct",
                            argument, size));
}

void require_zeros(char const* argument, void const* from, std::size_t known, std::size_t size) {
  auto const* const bytes = static_cast<char const*>(from);
  if (size > known && std::any_of(bytes + known, bytes + size, [](char byte) { return byte != 0; })) {
    throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                  fmt::format("'{}' uses members that version {} of the library does not have; leave them zero, or "
                              "take a newer library",
                              argument, ferry_version()));
  }
}

std::string_view required_text(char const* text, char const* argument) { return &required(text, argument); }

char* give_text(std::string_view text) {
  std::unique_ptr<char, decltype(&std::free)> copy(static_cast<char*>(std::malloc(text.size() + 1)), &std::free);
  if (copy == nullptr) throw std::bad_alloc();
  std::copy_n(text.data(), text.size(), copy.get());
  copy.get()[text.size()] = '\0';
  given_texts& to = given();
  std::lock_guard const lock(to.mutex);
  to.texts.insert(copy.get());
  return copy.release();
}

}  // namespace ferry::capi

using namespace ferry::capi;

char const* ferry_status_name(int status) {
  auto const* const found =
      std::find_if(status_names.begin(), status_names.end(), [&](auto const& named) { return named.status == status; });
  return found != status_names.end() ? found->name : "unknown status";
}

char const* ferry_last_error(void) { return last.text.data(); }

void ferry_last_error_bytes(uint64_t* needed_bytes, uint64_t* limit_bytes) {
  if (needed_bytes != nullptr) *needed_bytes = last.needed_bytes;
  if (limit_bytes != nullptr) *limit_bytes = last.limit_bytes;
}

char const* ferry_version(void) { return ferry::version(); }

ferry_status ferry_string_free(char* text) {
  return guarded(__func__, [&] {
    if (text == nullptr) return;
    {
      given_texts& from = given();
      std::lock_guard const lock(from.mutex);
      if (from.texts.erase(text) == 0) {
        throw refusal(FERRY_ERROR_INVALID_HANDLE,
                      "'text' was freed before, or is no string that Ferry gave out; free each one once");
      }
    }
    std::free(text);
  });
}

void ferry_require(ferry_status status) {
  if (status == FERRY_OK) return;
  std::fprintf(stderr, "error: %s\n", ferry_last_error());
  std::exit(EXIT_FAILURE);
}
