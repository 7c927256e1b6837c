#include "decide/link_view.hpp"

#include "support/pause.hpp"

namespace ferry::decide {

double link_view::bytes_per_us_now(copy_direction direction) const noexcept {
  auto const other =
      direction == copy_direction::device_to_host ? copy_direction::host_to_device : copy_direction::device_to_host;
  bool const beside = counters(other).in_flight_bytes.load(std::memory_order_relaxed) > 0;
  return bytes_per_us(direction) * (beside ? counters(direction).share_beside.load(std::memory_order_relaxed) : 1);
}

std::optional<link_view::chunk_times> link_view::chunk_under_way(copy_direction direction) const {
  auto const& link = counters(direction);
  auto const since = std::chrono::nanoseconds(link.copying_since_ns.load(std::memory_order_relaxed));
  double const speed = bytes_per_us_now(direction);
  if (since == std::chrono::nanoseconds(0) || speed <= 0) return std::nullopt;
  double const bytes_us = static_cast<double>(link.copying_bytes.load(std::memory_order_relaxed)) / speed;
  return chunk_times{microseconds_of(device_.now() - since), bytes_us,
                     link.latency_us.load(std::memory_order_relaxed) + bytes_us};
}

double link_view::standstill_us(copy_direction direction) const {
  auto const chunk = chunk_under_way(direction);
  return chunk ? std::max(0.0, chunk->so_far_us - 2 * chunk->usual_us - wake_up_us()) : 0;
}

double link_view::us_for(copy_direction direction, std::size_t bytes) const {
  double const speed = bytes_per_us_now(direction);
  if (speed <= 0) return unknown_us;
  double const all_us = static_cast<double>(bytes) / speed;
  auto const chunk = chunk_under_way(direction);
  if (!chunk) return counters(direction).latency_us.load(std::memory_order_relaxed) + all_us;
  return std::max(0.0, all_us - std::min(chunk->so_far_us, chunk->bytes_us)) + standstill_us(direction);
}

}  // namespace ferry::decide
