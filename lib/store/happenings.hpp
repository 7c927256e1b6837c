// What can happen to an item and to a transfer, by name. Nothing depends on it: tests listen (`order_hooks::met`), and
// count which of it they have met in which state.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "store/copies.hpp"

namespace ferry::store {

enum class item_event : std::uint8_t {
  saved,
  needed,            ///< by the trainer
  needed_by_recipe,  ///< of another item
  lease_ended,       ///< the last lease has ended
  release_asked,
  swept,  ///< the step, or the session, has ended
  offload_begun,
  offload_deferred,
  offload_called_off,  ///< it is to be dropped instead
  offload_completed,
  offload_abandoned,
  offload_failed,
  fetch_begun,
  fetch_called_off,  ///< its bytes are needed
  fetch_completed,
  fetch_abandoned,
  fetch_failed,
  left_behind,  ///< it was given other bytes than those that the link writes
  recipe_begun,
  recipe_enqueued,
  recipe_failed,
  evicted,  ///< the device bytes go, the host copy stays
  dropped,
  found_lost,
};
inline constexpr std::array item_event_names{std::string_view("saved"),
                                             std::string_view("needed"),
                                             std::string_view("needed by a recipe"),
                                             std::string_view("lease ended"),
                                             std::string_view("release asked"),
                                             std::string_view("swept"),
                                             std::string_view("offload begun"),
                                             std::string_view("offload deferred"),
                                             std::string_view("offload called off"),
                                             std::string_view("offload completed"),
                                             std::string_view("offload abandoned"),
                                             std::string_view("offload failed"),
                                             std::string_view("fetch begun"),
                                             std::string_view("fetch called off"),
                                             std::string_view("fetch completed"),
                                             std::string_view("fetch abandoned"),
                                             std::string_view("fetch failed"),
                                             std::string_view("left behind"),
                                             std::string_view("recipe begun"),
                                             std::string_view("recipe enqueued"),
                                             std::string_view("recipe failed"),
                                             std::string_view("evicted"),
                                             std::string_view("dropped"),
                                             std::string_view("found lost")};

enum class transfer_event : std::uint8_t {
  accepted,
  producer_failed,  ///< what it was to copy was never written
  chunk_issued,
  last_chunk_issued,
  call_refused,  ///< the device would not take a chunk, or mark it
  chunk_arrived,
  last_chunk_arrived,
  chunk_failed,
  checksum_wrong,
  called_off_unsent,
  called_off_in_flight,
  drained,  ///< nothing of it is under way any more after a failure
};
inline constexpr std::array transfer_event_names{std::string_view("accepted"),
                                                 std::string_view("producer failed"),
                                                 std::string_view("chunk issued"),
                                                 std::string_view("last chunk issued"),
                                                 std::string_view("call refused"),
                                                 std::string_view("chunk arrived"),
                                                 std::string_view("last chunk arrived"),
                                                 std::string_view("chunk failed"),
                                                 std::string_view("checksum wrong"),
                                                 std::string_view("called off unsent"),
                                                 std::string_view("called off in flight"),
                                                 std::string_view("drained")};

[[nodiscard]] constexpr std::string_view to_string(item_event what) noexcept {
  return item_event_names[static_cast<std::size_t>(what)];
}
[[nodiscard]] constexpr std::string_view to_string(transfer_event what) noexcept {
  return transfer_event_names[static_cast<std::size_t>(what)];
}

/// Who has written an item's bytes, in a few words. Whether that went well is not asked: a listener changes nothing.
[[nodiscard]] inline std::string_view evidence_name(device_copy const& device, host_copy const& host) noexcept {
  if (!device) return host.is_good() ? "host copy" : "no bytes";
  switch (device.by()) {
    case device_copy::writer::nobody:
      return host.is_good() ? "unwritten, host copy" : "unwritten";
    case device_copy::writer::work:
      return host.is_good() ? "by work, host copy" : "by work";
    case device_copy::writer::link:
      return host.is_good() ? "by link, host copy" : "by link";
    case device_copy::writer::over:
      break;
  }
  return host.is_good() ? "arrived, host copy" : "arrived";
}

}  // namespace ferry::store
