#include "path/budgets.hpp"

#include <fmt/format.h>

#include "ferry/error.hpp"

namespace ferry::path {

namespace {

bool is_host(device_capabilities const& on) { return on.name == "host"; }
/// Neither of them is one whose memory is only counted.
bool takes_memory(device_capabilities const& on) { return is_host(on) || on.name.starts_with("cuda"); }

}  // namespace

std::size_t budget_bytes(device_capabilities const& on, byte_amount budget, char const* name) {
  std::size_t const bytes = budget.of(on.device_bytes);
  if (bytes == 0) throw invalid_argument(fmt::format("a session needs a budget: set {} above zero", name));
  if (bytes > on.device_bytes) {
    throw out_of_device_memory(fmt::format("{} asks for {}, but the device has {}; lower it", name, format_bytes(bytes),
                                           format_bytes(on.device_bytes)),
                               bytes, on.device_bytes);
  }
  return bytes;
}

store::store_limits limits_of(device_capabilities const& on, config const& settings) {
  store::store_limits limits;
  limits.device_bytes = budget_bytes(on, settings.budget, "FERRY_BUDGET");
  limits.pinned_bytes = settings.host_budget.of(on.pinned_bytes);
  limits.in_flight_bytes = settings.max_in_flight.of(limits.device_bytes);
  if (limits.pinned_bytes > on.pinned_bytes) {
    throw out_of_pinned_memory(fmt::format("FERRY_HOST_BUDGET asks for {}, but the device can pin {}; lower it",
                                           format_bytes(limits.pinned_bytes), format_bytes(on.pinned_bytes)),
                               limits.pinned_bytes, on.pinned_bytes);
  }
  require_available(on, {.budget = settings.budget, .host_budget = settings.host_budget});
  return limits;
}

void require_available(device_capabilities const& on, asked_budgets const& asked,
                       support::available_memory const& there) {
  if (!takes_memory(on)) return;
  auto const in_bytes = [](byte_amount amount) { return amount.fraction > 0 ? 0 : amount.bytes; };
  std::size_t const device_bytes = is_host(on) ? in_bytes(asked.budget) : 0;
  std::size_t const pinned_bytes = in_bytes(asked.host_budget);
  auto const has = fmt::format("of the memory of {} {} are available", there.of, format_bytes(there.bytes));
  if (device_bytes > there.bytes) {
    throw out_of_device_memory(
        fmt::format("{} asks for {}, but {}; lower it", asked.budget_name, format_bytes(device_bytes), has),
        device_bytes, there.bytes);
  }
  if (pinned_bytes > there.bytes) {
    throw out_of_pinned_memory(
        fmt::format("FERRY_HOST_BUDGET asks for {}, but {}; lower it", format_bytes(pinned_bytes), has), pinned_bytes,
        there.bytes);
  }
  if (device_bytes > there.bytes - pinned_bytes) {
    throw out_of_pinned_memory(
        fmt::format("{} and FERRY_HOST_BUDGET ask for {} and {}, but {}; lower one of them", asked.budget_name,
                    format_bytes(device_bytes), format_bytes(pinned_bytes), has),
        device_bytes + pinned_bytes, there.bytes);
  }
}

void require_available(device_capabilities const& on, asked_budgets const& asked) {
  if (takes_memory(on)) require_available(on, asked, support::memory_available());
}

}  // namespace ferry::path
