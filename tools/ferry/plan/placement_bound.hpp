// A lower bound for the exhaustive search: what has to happen around the start of a backward B(j), over every way to
// place what is needed later. At that time each S[i], i < j, is on the device beside what B(j) needs, or on the host
// only, or nowhere; the first has to fit, the second to be copied out before and back after, the third to be run again.
// Orders, other tensors and the times at which copies can run are relaxed, so the bound holds for every schedule.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "plan/chain.hpp"

namespace ferry::planning {

class placement_bound {
 public:
  /// Where S[0] ... S[j-1] and, as bit `j`, X[0] are now. The four sets do not overlap.
  struct whereabouts {
    std::uint32_t fresh = 0;   // on the device or still to be made before B(j): not on the host
    std::uint32_t hosted = 0;  // on the host only
    std::uint32_t both = 0;
    std::uint32_t paid = 0;  // has to be run in any case, so that not placing it costs nothing more
  };

  explicit placement_bound(chain const& problem) : c_(problem), tables_(problem.stages()) {
    backward_before_.assign(1, 0);
    for (double const s : c_.backward_s) backward_before_.push_back(backward_before_.back() + s);
  }

  /// When B(0) can end at the earliest if B(j) cannot start before `start_s`, and the engines of the link are not free
  /// before the other two times.
  double end_s(std::size_t j, whereabouts const& now, double start_s, double d2h_free_s, double h2d_free_s) {
    std::uint64_t const key = now.fresh | std::uint64_t{now.hosted} << 16U | std::uint64_t{now.both} << 32U;
    auto [found, is_new] = tables_[j].try_emplace(key);
    if (is_new) found->second = placements(j, now);
    double best = infinite;
    for (placement const& p : found->second) {
      double const after = std::max(start_s, d2h_free_s + p.copy_out_s) + p.after_start_s;
      best = std::min(best, std::max(after, h2d_free_s + p.after_link_s));
    }
    return best;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  struct placement {
    double copy_out_s = 0;     // D2H before B(j)
    double after_start_s = 0;  // from the start of B(j) to the end
    double after_link_s = 0;   // from when H2D is free to the end
  };

  struct sums {
    double device_bytes = 0;
    double host_bytes = 0;
    double again_s = 0;
    std::uint32_t fetch_after = 0;
    std::uint32_t fetch = 0;
    bool input_there = false;
  };

  static double over(double bytes, double rate) { return bytes > 0 ? bytes / rate : 0; }

  [[nodiscard]] std::vector<placement> placements(std::size_t j, whereabouts const& now) const {
    std::vector<placement> all;
    sums start;
    start.device_bytes = c_.saved_bytes[j] + c_.boundary_bytes[j] + c_.boundary_bytes[j + 1];
    if (!c_.backward_scratch_bytes.empty()) start.device_bytes += c_.backward_scratch_bytes[j];
    start.input_there = j == 0;
    if (j == 0) start.device_bytes += c_.boundary_bytes[0];
    place(j, j == 0 ? 1 : 0, now, start, 0, all);
    return all;
  }

  /// Tries all places for item `i` and those after it; item `j` is X[0], which nothing can make again.
  void place(std::size_t j, std::size_t i, whereabouts const& now, sums const& s, double copy_out_s,
             std::vector<placement>& all) const {
    if (i > j) {
      finish(j, s, copy_out_s, all);
      return;
    }
    std::uint32_t const bit = 1U << i;
    double const bytes = i == j ? c_.boundary_bytes[0] : c_.saved_bytes[i];
    if ((now.paid & bit) != 0) {
      sums next = s;
      next.again_s += c_.forward_s[i];
      place(j, i + 1, now, next, copy_out_s, all);
      return;
    }
    if (s.device_bytes + bytes <= c_.device_bytes * (1 + 1e-12)) {
      sums next = s;
      next.device_bytes += bytes;
      if ((now.hosted & bit) != 0) next.fetch |= bit;
      next.input_there = s.input_there || i + 1 == j;
      place(j, i + 1, now, next, copy_out_s, all);
    }
    double const out_s = (now.fresh & bit) != 0 ? over(bytes, c_.d2h_bytes_per_s) : 0;
    double const back_s = over(bytes, c_.h2d_bytes_per_s);
    if (s.host_bytes + bytes <= c_.host_bytes * (1 + 1e-12) && out_s < infinite && back_s < infinite) {
      sums next = s;
      next.host_bytes += bytes;
      next.fetch_after |= bit;
      if ((now.hosted & bit) != 0) next.fetch |= bit;
      place(j, i + 1, now, next, copy_out_s + out_s, all);
    }
    if (i < j) {
      sums next = s;
      next.again_s += c_.forward_s[i];
      place(j, i + 1, now, next, copy_out_s, all);
    }
  }

  void finish(std::size_t j, sums const& s, double copy_out_s, std::vector<placement>& all) const {
    double const input_bytes = s.input_there ? 0 : c_.boundary_bytes[j];
    if (s.device_bytes + input_bytes > c_.device_bytes * (1 + 1e-12)) return;
    placement p;
    p.copy_out_s = copy_out_s;
    p.after_start_s = std::max(backward_before_[j + 1] + s.again_s, fetched_end_s(j, s.fetch_after));
    p.after_link_s = fetched_end_s(j, s.fetch);
    auto const better = [](placement const& a, placement const& b) {
      return a.copy_out_s <= b.copy_out_s && a.after_start_s <= b.after_start_s && a.after_link_s <= b.after_link_s;
    };
    if (std::any_of(all.begin(), all.end(), [&](placement const& other) { return better(other, p); })) return;
    std::erase_if(all, [&](placement const& other) { return better(p, other); });
    all.push_back(p);
  }

  /// The earliest end, from when the first of these copies can start: they come one after the other in the order in
  /// which the backward pass needs them, and the rest of the pass follows each.
  [[nodiscard]] double fetched_end_s(std::size_t j, std::uint32_t items) const {
    double link_s = 0;
    double result = 0;
    for (std::size_t k = j; k-- > 0;) {
      if ((items >> k & 1U) != 0) link_s += over(c_.saved_bytes[k], c_.h2d_bytes_per_s);
      if (k == 0 && (items >> j & 1U) != 0) link_s += over(c_.boundary_bytes[0], c_.h2d_bytes_per_s);
      if (link_s > 0) result = std::max(result, link_s + backward_before_[k + 1]);
    }
    return result;
  }

  chain const& c_;
  std::vector<double> backward_before_;  // of all stages before i
  std::vector<std::unordered_map<std::uint64_t, std::vector<placement>>> tables_;
};

}  // namespace ferry::planning
