#include "plan/lower_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace ferry::planning {

namespace {

/// The dual of the split at the start of B(cut).
class dual {
 public:
  dual(chain const& c, std::uint32_t cut) : c_(c), cut_(cut) {
    auto const stages = c.stages();
    double forward = 0;
    double before = 0;
    double after = 0;
    for (std::size_t i = 0; i < stages; ++i) {
      forward += c.forward_s[i];
      (i > cut ? before : after) += c.backward_s[i];
    }
    room_ = c.device_bytes - c.saved_bytes[cut] - c.backward_bytes(cut);
    // Nothing can go out before the first stage has run, and nothing is of use after the last backward has begun.
    out_window_ = std::max(0.0, c.d2h_bytes_per_s * (forward + before - c.forward_s[0]));
    in_window_ = std::max(0.0, c.h2d_bytes_per_s * (after - c.backward_s[0]));
    out_limit_ = c.d2h_bytes_per_s > 0 ? 1 / c.d2h_bytes_per_s : 0;
    in_limit_ = c.h2d_bytes_per_s > 0 ? 1 / c.h2d_bytes_per_s : 0;
    slowed_s_ = c.slowed_s_a_byte();
    gather_pieces();
  }

  /// Seconds above the ideal time, for prices per byte of memory, of going out and of coming in.
  [[nodiscard]] double value(std::array<double, 3> const& price) const {
    double const memory = price[0];
    double const out = price[1];
    double const in = price[2];
    bool const link = out_limit_ > 0 && in_limit_ > 0;
    // Going out is paid by the link up to its rate, and beyond that by host bytes, if they are limited.
    double const on_link = std::min(out, out_limit_);
    double total = -memory * room_ - on_link * out_window_ - in * in_window_;
    if (out > on_link) total -= (out - on_link) * c_.host_bytes;
    double const again = 1 - in * c_.h2d_bytes_per_s;
    auto const add = [&](double bytes, double rebuild_s, double count) {
      double least = memory * bytes;
      if (rebuild_s < chain::unlimited) least = std::min(least, again * rebuild_s);
      if (link) least = std::min(least, (out + in + slowed_s_) * bytes);
      total += count * least;
    };
    for (auto const& [piece, count] : pieces_) add(piece.first, piece.second, count);
    return total;
  }

  [[nodiscard]] double best() const {
    double longest = 0;
    for (std::uint32_t i = 0; i < cut_; ++i) {
      if (c_.saved_bytes[i] > 0) longest = std::max(longest, c_.forward_s[i] / c_.saved_bytes[i]);
    }
    bool const host_limited = c_.host_bytes < chain::unlimited;
    std::array<double, 3> const most{4 * longest, host_limited ? std::max(2 * out_limit_, longest) : out_limit_,
                                     in_limit_};
    double best = 0;
    // The dual is concave: search each price in turn, from several starts because its edges can stop such a search.
    for (int start = 0; start < 4; ++start) {
      std::array<double, 3> price{0.25 * most[0], start % 2 == 0 ? 0 : most[1], start / 2 == 0 ? 0 : most[2]};
      for (int round = 0; round < 4; ++round) {
        for (std::size_t d : {0U, 1U, 0U, 2U}) best = std::max(best, search(price, d, most[d]));
      }
    }
    return best;
  }

 private:
  /// What the stages before the cut save: most are alike, and equal pieces are priced once.
  void gather_pieces() {
    auto const add = [this](double bytes, double rebuild_s) { ++pieces_[{bytes, rebuild_s}]; };
    for (std::uint32_t i = 0; i < cut_; ++i) {
      if (c_.pieces.empty()) {
        add(c_.saved_bytes[i], c_.forward_s[i]);
      } else {
        for (auto const& piece : c_.pieces[i]) add(piece.bytes, piece.rebuild_s);
      }
    }
  }

  double search(std::array<double, 3>& price, std::size_t d, double most) const {
    double low = 0;
    double high = most;
    auto const at = [&](double p) {
      auto there = price;
      there[d] = p;
      return value(there);
    };
    for (int step = 0; step < 24; ++step) {
      double const a = low + (high - low) * 0.382;
      double const b = low + (high - low) * 0.618;
      bool const rises = at(a) < at(b);
      (rises ? low : high) = rises ? a : b;
    }
    double best_at = 0.5 * (low + high);
    for (double const p : {0.0, most}) {
      if (at(p) > at(best_at)) best_at = p;
    }
    price[d] = best_at;
    return value(price);
  }

  chain const& c_;
  std::uint32_t cut_;
  double room_ = 0;
  double out_window_ = 0;
  double in_window_ = 0;
  double out_limit_ = 0;
  double in_limit_ = 0;
  double slowed_s_ = 0;                                 // by a ferried byte
  std::map<std::pair<double, double>, double> pieces_;  // bytes and time to rebuild: how many
};

}  // namespace

double lower_bound_s(chain const& c) {
  double extra = 0;
  auto const last = static_cast<std::uint32_t>(c.stages()) - 1;
  for (std::uint32_t const eighths : {8U, 7U, 6U, 4U}) extra = std::max(extra, dual(c, last * eighths / 8).best());
  return c.ideal_s() + extra;
}

byte_floor floor_of(chain const& c) {
  byte_floor floor;
  auto const stages = static_cast<std::uint32_t>(c.stages());
  auto const raise = [&](double bytes, std::uint32_t stage, bool in_backward) {
    if (bytes > floor.bytes) floor = {bytes, stage, in_backward};
  };
  for (std::uint32_t i = 0; i < stages; ++i) {
    double const held = c.boundary_bytes[i] + c.saved_bytes[i];
    raise(held + c.forward_scratch_bytes[i] + c.waiting_gradient(i), i, false);
    raise(held + c.backward_bytes(i), i, true);
  }
  return floor;
}

}  // namespace ferry::planning
