// What an error for want of device memory says at its end. Threads: any.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "ferry/config.hpp"
#include "support/parse.hpp"

namespace ferry::support {

inline std::string enough_words(std::size_t budget_bytes, std::size_t device_bytes, std::string_view what) {
  auto text = fmt::format("FERRY_BUDGET={} is enough for {}", write_bytes(budget_bytes), what);
  if (budget_bytes > device_bytes) {
    text += fmt::format(", but the device has {} (FERRY_DEVICE_BYTES)", format_bytes(device_bytes));
  }
  return text;
}

}  // namespace ferry::support
