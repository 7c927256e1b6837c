// What an error for want of device memory says once it is known which budget is enough. Threads: any.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string_view>
#include <typeinfo>

#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "support/parse.hpp"

namespace ferry::support {

/// A session with this budget has thrown it: recipes, functions and sessions of others' may throw such errors too.
inline bool is_of_budget(out_of_device_memory const& problem, std::size_t budget_bytes) noexcept {
  return typeid(problem) == typeid(out_of_device_memory) && problem.limit_bytes() == budget_bytes;
}

/// The same error, with the budget that is enough for `what`.
inline out_of_device_memory with_enough(out_of_device_memory const& problem, std::size_t enough_bytes,
                                        std::size_t device_bytes, std::string_view what) {
  auto text = fmt::format("{}. FERRY_BUDGET={} is enough for {}", problem.what(), write_bytes(enough_bytes), what);
  if (enough_bytes > device_bytes) {
    text += fmt::format(", but the device has {} (FERRY_DEVICE_BYTES)", format_bytes(device_bytes));
  }
  return {text, problem.needed_bytes(), problem.limit_bytes(), enough_bytes};
}

}  // namespace ferry::support
