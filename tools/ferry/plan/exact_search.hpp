// The optimum of a short chain, by exhaustive search: it finds what no plan of the local search's form can say, or
// proves that there is nothing better.
//
// A best-first search (A*) over chain_states. A state is dominated by one with the same tensors on the device, at least
// the same on the host, and the same operations under way that end no later. The bound is what compute still has to do,
// or placement_bound's for any of the coming backwards. Of states with the same bound the one that is further on is
// first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/chain.hpp"
#include "plan/chain_states.hpp"
#include "plan/placement_bound.hpp"

namespace ferry::planning {

struct exact_limits {
  std::size_t max_nodes = 20'000'000;
  /// Only schedules that are faster are looked for.
  double upper_bound_s = std::numeric_limits<double>::infinity();
  /// False: without all that makes the search fast, to check it.
  bool reduced = true;
};

struct exact_result {
  bool finished = false;  ///< false: the limit on nodes was met
  bool feasible = false;  ///< a schedule was found
  double makespan_s = std::numeric_limits<double>::infinity();
  /// No schedule is faster than this; equal to the makespan when one was found.
  double lower_bound_s = 0;
  std::vector<scheduled> schedule;
  std::size_t nodes = 0;
};

class exact_search {
 public:
  explicit exact_search(chain const& problem, exact_limits limits = {})
      : c_(problem), limits_(limits), states_(problem, limits.reduced), placements_(problem) {}

  exact_result solve() {
    exact_result result;
    add(states_.first(), none);
    while (!open_.empty() && nodes_.size() <= limits_.max_nodes) {
      auto const [bound_s, now_s, id] = open_.top();
      open_.pop();
      if (nodes_[id].dominated) continue;
      result.lower_bound_s = bound_s;
      state const here = nodes_[id].here;
      if (here.next < 0) {
        result.feasible = true;
        result.makespan_s = here.now_s;
        result.schedule = schedule_to(id);
        break;
      }
      states_.expand(here, [&, from = id](state const&, state const& after) { add(after, from); });
    }
    result.finished = result.feasible || open_.empty();
    if (open_.empty() && !result.feasible) result.lower_bound_s = limits_.upper_bound_s;
    result.nodes = nodes_.size();
    return result;
  }

 private:
  using state = chain_states::state;
  using mask = chain_states::mask;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct node {
    state here;
    std::uint32_t parent;
    bool dominated;
  };
  struct key {
    mask device, inputs;
    std::uint32_t ops;
    friend bool operator==(key const&, key const&) = default;
  };
  struct key_hash {
    std::size_t operator()(key const& k) const noexcept {
      std::uint64_t h = (std::uint64_t{k.device} << 32U | k.ops) * 0x9e3779b97f4a7c15U;
      h ^= (h >> 29U) + k.inputs;
      h *= 0xbf58476d1ce4e5b9U;
      return h ^ (h >> 32U);
    }
  };
  /// A state among those of one key.
  struct reached {
    double now_s;
    std::array<double, chain_states::engines> end_s;
    mask host;
    std::uint32_t id;
  };
  struct candidate {
    double bound_s;
    double now_s;
    std::uint32_t id;
    // Among equal bounds the one that is further on.
    friend bool operator<(candidate const& a, candidate const& b) {
      return a.bound_s != b.bound_s ? a.bound_s > b.bound_s : a.now_s < b.now_s;
    }
  };

  void add(state const& st, std::uint32_t parent) {
    double const bound_s = bound_of(st);
    if (!(bound_s < limits_.upper_bound_s)) return;
    key const k{st.device, st.inputs,
                static_cast<std::uint32_t>(st.op[0]) | static_cast<std::uint32_t>(st.op[1]) << 8U |
                    static_cast<std::uint32_t>(st.op[2]) << 16U | static_cast<std::uint32_t>(st.next + 1) << 24U};
    reached here{st.now_s, {}, st.host, static_cast<std::uint32_t>(nodes_.size())};
    for (std::size_t e = 0; e < chain_states::engines; ++e) here.end_s[e] = st.op[e] != 0 ? st.end_s[e] : st.now_s;
    auto const dominates = [this](reached const& a, reached const& b) {
      double const same_s = states_.same_s();
      bool const host = limits_.reduced ? (b.host & ~a.host) == 0 : b.host == a.host;
      return host && a.now_s <= b.now_s + same_s && a.end_s[0] <= b.end_s[0] + same_s &&
             a.end_s[1] <= b.end_s[1] + same_s && a.end_s[2] <= b.end_s[2] + same_s;
    };
    std::vector<reached>& same = seen_[k];
    if (std::any_of(same.begin(), same.end(), [&](reached const& other) { return dominates(other, here); })) return;
    std::erase_if(same, [&](reached const& other) {
      if (!dominates(here, other)) return false;
      nodes_[other.id].dominated = true;
      return true;
    });
    same.push_back(here);
    nodes_.push_back({st, parent, false});
    open_.push({bound_s, st.now_s, here.id});
  }

  /// No schedule from here on ends sooner.
  [[nodiscard]] double bound_of(state const& st) {
    auto const free_s = [&](std::size_t e) { return st.op[e] != 0 ? st.end_s[e] : st.now_s; };
    std::uint8_t const running = st.op[chain_states::compute];
    bool const backward_runs = running != 0 && chain_states::kind_of(running) == chain_states::backward;
    int const next = backward_runs ? st.next - 1 : st.next;
    mask here = st.device;
    if (running != 0 && !backward_runs) here |= mask{1} << states_.made_by(running);
    if (st.op[chain_states::to_device] != 0) here |= mask{1} << (st.op[chain_states::to_device] - 1);
    mask there = st.host;
    if (st.op[chain_states::to_host] != 0) there |= mask{1} << (st.op[chain_states::to_host] - 1);

    double bound_s = 0;
    double start_s = free_s(chain_states::compute);  // of B(j), but for what it takes to make its input
    for (int j = next; j >= 0; --j) {
      if (((here | there) & states_.s(j)) == 0) start_s += at(c_.forward_s, j);
      if (limits_.reduced) bound_s = std::max(bound_s, placement_bound_of(st, here, there, j, start_s));
      start_s += at(c_.backward_s, j);
    }
    return std::max(bound_s, start_s);
  }

  double placement_bound_of(state const& st, mask here, mask there, int j, double start_s) {
    // Its input comes from the nearest boundary that exists, by running all stages in between.
    int from = j;
    while (from > 0 && ((here | there) & (states_.x(from) | states_.s(from - 1))) == 0) {
      start_s += at(c_.forward_s, --from);
    }
    placement_bound::whereabouts now;
    auto const sort = [&](mask tensor, mask item, bool made_before) {
      bool const is_here = (here & tensor) != 0;
      bool const is_there = (there & tensor) != 0;
      if (is_there) {
        (is_here ? now.both : now.hosted) |= item;
      } else {
        (is_here || made_before ? now.fresh : now.paid) |= item;
      }
    };
    for (int i = 0; i < j; ++i) sort(states_.s(i), mask{1} << i, i >= from);
    sort(states_.x(0), mask{1} << j, true);
    auto const free_s = [&](std::size_t e) { return st.op[e] != 0 ? st.end_s[e] : st.now_s; };
    return placements_.end_s(static_cast<std::size_t>(j), now, start_s, free_s(chain_states::to_host),
                             free_s(chain_states::to_device));
  }

  static double at(std::vector<double> const& list, int i) { return list[static_cast<std::size_t>(i)]; }

  [[nodiscard]] std::vector<scheduled> schedule_to(std::uint32_t id) const {
    std::vector<std::uint32_t> path;
    for (; id != none; id = nodes_[id].parent) path.push_back(id);
    std::reverse(path.begin(), path.end());
    std::vector<scheduled> rows;
    for (std::size_t n = 1; n < path.size(); ++n) {
      state const& from = nodes_[path[n - 1]].here;
      state const& to = nodes_[path[n]].here;
      bool done = false;  // two ways may lead there
      states_.expand(from, [&](state const& decided, state const& after) {
        done = done || (is_same(after, to) && (states_.describe(from, decided, rows), true));
      });
    }
    return rows;
  }

  static bool is_same(state const& a, state const& b) {
    return a.device == b.device && a.host == b.host && a.op == b.op && a.end_s == b.end_s && a.now_s == b.now_s &&
           a.inputs == b.inputs && a.next == b.next;
  }

  chain const& c_;
  exact_limits limits_;
  chain_states states_;
  placement_bound placements_;
  std::vector<node> nodes_;
  std::priority_queue<candidate> open_;
  std::unordered_map<key, std::vector<reached>, key_hash> seen_;
};

}  // namespace ferry::planning
