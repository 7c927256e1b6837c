// What a session's budgets come to, and whether they can be had. Threads: any.
#pragma once

#include <cstddef>

#include "ferry/config.hpp"
#include "ferry/device.hpp"
#include "store/tiered_store.hpp"
#include "support/available_memory.hpp"

namespace ferry::path {

/// Throws: `invalid_argument` for nothing, `out_of_device_memory` for more than the device has; `name` is the budget's.
[[nodiscard]] std::size_t budget_bytes(device_capabilities const& on, byte_amount budget, char const* name);

/// Throws: as `budget_bytes` and `require_available`, and `out_of_pinned_memory` for more than the device can pin.
[[nodiscard]] store::store_limits limits_of(device_capabilities const& on, config const& settings);

struct asked_budgets {
  byte_amount budget{};
  byte_amount host_budget{};
  char const* budget_name = "FERRY_BUDGET";
};
/// What is asked for in bytes can be had of the machine: pinned memory is its memory, and so is that of the host
/// device. Shares are those of a device that was made before. Throws: `out_of_device_memory`, `out_of_pinned_memory`.
void require_available(device_capabilities const& on, asked_budgets const& asked,
                       support::available_memory const& there);
/// The same, of this machine.
void require_available(device_capabilities const& on, asked_budgets const& asked);

}  // namespace ferry::path
