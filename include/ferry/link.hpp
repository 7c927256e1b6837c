// The link between the device and the host: how fast each direction is alone, and what is left of that, and of the
// computation, when they go on beside each other.
#pragma once

namespace ferry {

/// One direction of the link. `gbps` 0 means unpaced: as fast as the machine copies.
struct link_speed {
  double gbps = 0;  ///< 1e9 bytes a second
  double latency_us = 0;
  friend bool operator==(link_speed const&, link_speed const&) = default;
};

/// What is left of a speed while something else goes on beside it: shares above 0, 1 where nothing is lost.
struct contention {
  static constexpr double least = 0.01;

  double out_beside_back = 1;  ///< of the speed from device to host, while bytes come back too
  double back_beside_out = 1;
  double compute_beside_out = 1;  ///< of the computation's speed, while bytes go out
  double compute_beside_back = 1;
  double compute_beside_both = 1;

  [[nodiscard]] double of_compute(bool out, bool back) const noexcept {
    return out ? (back ? compute_beside_both : compute_beside_out) : (back ? compute_beside_back : 1);
  }
  [[nodiscard]] bool any() const noexcept { return *this != contention{}; }
  friend bool operator==(contention const&, contention const&) = default;
};

}  // namespace ferry
