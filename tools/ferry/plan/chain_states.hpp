// The planning problem as a set of states and what leads from one to the next, for the exhaustive search: at time 0 and
// whenever an operation ends, each idle engine starts any legal operation or stays idle until the next end. Nothing
// else has to be searched:
//
// - Starts at ends of operations suffice. Everything that starts, and every drop, between two ends can move to the
//   first of them together: no source or engine becomes free in between, and what is held at the end of that stretch
//   is what is then held throughout it.
// - Copies take the least time that they can.
// - Drops are lazy. More on the device is never worse, since what a schedule makes again it may as well have kept until
//   the bytes are needed. So tensors are dropped only for an operation that starts and does not fit, and then only sets
//   that cannot do with one tensor less. The same holds for the host.
// - A copy of X[b] or S[b] in flight while B(b) runs is wasted, so B(b) does not start with one, nor one under it.
// - An operation that could have started at the end before, with its drops and beside all that did, its engine idle
//   since, is not started now: starting it then gives the same states no later, with fewer operations to come.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "plan/chain.hpp"
#include "plan/schedule.hpp"

namespace ferry::planning {

class chain_states {
 public:
  using mask = std::uint32_t;  // of tensors
  enum engine : std::size_t { compute, to_host, to_device, engines };
  // Operations by number: on compute 1 + 3 * stage + kind, on the link 1 + tensor; 0 is none.
  enum kind : int { only, saving, backward };
  static constexpr std::size_t most_stages = 12;

  struct state {
    double now_s = 0;
    std::array<double, engines> end_s{};  // of the operation under way
    std::array<std::uint8_t, engines> op{};
    std::int8_t next = 0;  // the next backward to end; -1: all is done
    mask device = 0;
    mask host = 0;
    mask inputs = 0;  // what provides the input of the compute operation, either of which may go
    std::array<std::uint64_t, engines> late{};  // what was legal after the decisions of the event before
    mask late_device = 0;                       // what was there then,
    mask late_droppable = 0;                    // what of it was in no use,
    double late_room = 0;                       // and the bytes that were free on the device
  };

  /// With `reduced` off, neither the last rule nor the smallest sets of the third are used: slow, to check them.
  chain_states(chain const& problem, bool reduced)
      : c_(problem), last_(static_cast<int>(problem.stages()) - 1), reduced_(reduced) {
    std::size_t const stages = problem.stages();
    if (stages == 0 || stages > most_stages) throw std::invalid_argument("too many stages to search exhaustively");
    double total_s = 0;
    for (double const s : c_.forward_s) total_s += s;
    for (double const s : c_.backward_s) total_s += s;
    same_s_ = 1e-12 * total_s;
    size_.assign(c_.boundary_bytes.begin(), c_.boundary_bytes.end());
    size_.insert(size_.end(), c_.saved_bytes.begin(), c_.saved_bytes.end());
    scratch_ = c_.forward_scratch_bytes;
    scratch_.resize(stages);
    backward_scratch_ = c_.backward_scratch_bytes;
    backward_scratch_.resize(stages);
    device_limit_ = c_.device_bytes * (1 + 1e-12);
    host_limit_ = c_.host_bytes * (1 + 1e-12);
  }

  [[nodiscard]] state first() const {
    state start;
    start.device = x(0);
    start.next = static_cast<std::int8_t>(last_);
    return start;
  }

  /// Calls `found(decided, after)` for all that can be decided in `st`: the state with the new operations under way,
  /// and that at the next end of one.
  template <typename Found>
  void expand(state const& st, Found const& found) const {
    choose(st, compute, found);
  }

  /// Times closer than this are one.
  [[nodiscard]] double same_s() const { return same_s_; }
  // Tensors by number: X[0] ... X[L], then S[0] ... S[L-1].
  [[nodiscard]] int x_number(int i) const { return i; }
  [[nodiscard]] int s_number(int i) const { return last_ + 2 + i; }
  [[nodiscard]] mask x(int i) const { return mask{1} << x_number(i); }
  [[nodiscard]] mask s(int i) const { return mask{1} << s_number(i); }
  /// The stage whose backward is the last to need a tensor.
  [[nodiscard]] int stage_of(int tensor) const { return tensor < last_ + 2 ? tensor : tensor - (last_ + 2); }
  static std::uint8_t compute_op(kind what, int stage) { return static_cast<std::uint8_t>(1 + 3 * stage + what); }
  static kind kind_of(std::uint8_t op) { return static_cast<kind>((op - 1) % 3); }
  static int stage_of_op(std::uint8_t op) { return (op - 1) / 3; }
  static double at(std::vector<double> const& list, int i) { return list[static_cast<std::size_t>(i)]; }

  /// The tensor that a compute operation makes.
  [[nodiscard]] int made_by(std::uint8_t op) const {
    return kind_of(op) == only ? x_number(stage_of_op(op) + 1) : s_number(stage_of_op(op));
  }

  /// The rows of what started and was dropped between `before` and `after` at one time.
  void describe(state const& before, state const& after, std::vector<scheduled>& rows) const {
    auto const tensor = [this](int number) {
      bool const boundary = number < last_ + 2;
      return chain_tensor{boundary ? chain_tensor::kind::boundary : chain_tensor::kind::saved,
                          static_cast<std::uint32_t>(stage_of(number))};
    };
    auto const drops = [&](mask gone, chain_op op) {
      for (; gone != 0; gone &= gone - 1) {
        rows.push_back({before.now_s, before.now_s, op, 0, tensor(std::countr_zero(gone))});
      }
    };
    drops(before.device & ~after.device, chain_op::drop_device);
    drops(before.host & ~after.host, chain_op::drop_host);
    for (std::size_t e = 0; e < engines; ++e) {
      if (before.op[e] != 0 || after.op[e] == 0) continue;
      std::uint8_t const op = after.op[e];
      scheduled row{before.now_s, after.end_s[e], chain_op::d2h, 0, {}};
      if (e == compute) {
        constexpr std::array names{chain_op::forward_only, chain_op::forward_saving, chain_op::backward};
        row.op = names[static_cast<std::size_t>(kind_of(op))];
        row.stage = static_cast<std::uint32_t>(stage_of_op(op));
      } else {
        row.op = e == to_host ? chain_op::d2h : chain_op::h2d;
        row.tensor = tensor(op - 1);
      }
      rows.push_back(row);
    }
  }

 private:
  [[nodiscard]] double bytes(mask tensors) const {
    double sum = 0;
    for (; tensors != 0; tensors &= tensors - 1) sum += size_[static_cast<std::size_t>(std::countr_zero(tensors))];
    return sum;
  }
  /// Either of these provides the input of a stage.
  [[nodiscard]] mask inputs_of_stage(int stage) const { return x(stage) | (stage > 0 ? s(stage - 1) : 0); }
  /// What an operation on compute holds beside the tensors that are there.
  [[nodiscard]] double compute_bytes(std::uint8_t op) const {
    int const i = stage_of_op(op);
    if (kind_of(op) == backward) {
      return at(c_.boundary_bytes, i) + (i == last_ ? at(c_.boundary_bytes, i + 1) : 0) + at(backward_scratch_, i);
    }
    return at(size_, made_by(op)) + at(scratch_, i);
  }
  [[nodiscard]] double held(state const& st) const {
    double sum = bytes(st.device);
    if (st.next < last_) sum += at(c_.boundary_bytes, st.next + 1);  // the gradient that waits
    if (st.op[compute] != 0) sum += compute_bytes(st.op[compute]);
    if (st.op[to_device] != 0) sum += at(size_, st.op[to_device] - 1);
    return sum;
  }
  [[nodiscard]] double host_held(state const& st) const {
    return bytes(st.host) + (st.op[to_host] != 0 ? at(size_, st.op[to_host] - 1) : 0);
  }

  [[nodiscard]] double duration(engine on, std::uint8_t op) const {
    if (on == compute) return at(kind_of(op) == backward ? c_.backward_s : c_.forward_s, stage_of_op(op));
    double const size = at(size_, op - 1);
    return size > 0 ? size / (on == to_host ? c_.d2h_bytes_per_s : c_.h2d_bytes_per_s) : 0;
  }

  /// Whether all that an operation needs, save room, is there.
  [[nodiscard]] bool legal(state const& st, engine on, std::uint8_t op) const {
    int const tensor = op - 1;
    if (on == compute) {
      int const i = stage_of_op(op);
      if ((st.device & inputs_of_stage(i)) == 0) return false;
      if (kind_of(op) == backward) {
        auto const touches = [&](std::uint8_t copy) { return copy != 0 && stage_of(copy - 1) == i; };
        return i == st.next && (st.device & s(i)) != 0 && !touches(st.op[to_host]) && !touches(st.op[to_device]);
      }
      int const made = made_by(op);
      return stage_of(made) <= st.next && (st.device >> made & 1U) == 0 && st.op[to_device] != made + 1;
    }
    int const of = stage_of(tensor);
    bool const last_use_runs = st.op[compute] == compute_op(backward, of);
    if (of > st.next || last_use_runs) return false;
    bool const here = (st.device >> tensor & 1U) != 0;
    bool const there = (st.host >> tensor & 1U) != 0;
    if (on == to_host) return here && !there;
    bool const being_made =
        st.op[compute] != 0 && kind_of(st.op[compute]) != backward && made_by(st.op[compute]) == tensor;
    return there && !here && !being_made;
  }

  [[nodiscard]] int operations(engine on) const { return on == compute ? 3 * (last_ + 1) : 2 * last_ + 3; }

  /// What no operation under way uses; of the two that provide an input, both count.
  [[nodiscard]] mask droppable(state const& st) const {
    mask fixed = st.op[to_host] != 0 ? mask{1} << (st.op[to_host] - 1) : 0;
    if (st.op[compute] != 0 && kind_of(st.op[compute]) == backward) fixed |= s(stage_of_op(st.op[compute]));
    if ((st.host & x(0)) == 0) fixed |= x(0);  // nothing could bring it back
    return st.device & ~fixed;
  }

  /// Calls `found` with every state after `op` has started, one per smallest set of drops that makes room.
  template <typename Found>
  void start(state const& before, engine on, std::uint8_t op, Found const& found) const {
    state st = before;
    st.op[on] = op;
    st.end_s[on] = st.now_s + duration(on, op);
    if (on == compute) st.inputs = st.device & inputs_of_stage(stage_of_op(op));
    if (on == to_host) {
      if (is_late(before, on, op, 0)) return;
      double const missing = host_held(st) - host_limit_;
      mask const fixed = st.op[to_device] != 0 ? mask{1} << (st.op[to_device] - 1) : 0;
      make_room(st.host & ~fixed, 0, missing, [&](mask gone) {
        state next = st;
        next.host &= ~gone;
        found(next);
      });
      return;
    }
    make_room(droppable(st), 0, held(st) - device_limit_, [&](mask gone) {
      if (st.op[compute] != 0 && (st.inputs & ~gone) == 0) return;
      if (is_late(before, on, op, gone)) return;
      state next = st;
      next.device &= ~gone;
      next.inputs &= ~gone;
      found(next);
    });
  }

  /// Calls `found` with every set that frees `missing` bytes and, if reduced, cannot do with one tensor less.
  template <typename Found>
  void make_room(mask from, mask gone, double missing, Found const& found) const {
    if (missing <= 0) {
      for (mask rest = reduced_ ? gone : 0; rest != 0; rest &= rest - 1) {
        if (missing + size_[static_cast<std::size_t>(std::countr_zero(rest))] <= 0) return;
      }
      found(gone);
      if (reduced_) return;
    }
    while (from != 0) {
      mask const one = from & (~from + 1);
      from &= ~one;
      double const size = size_[static_cast<std::size_t>(std::countr_zero(one))];
      if (size > 0) make_room(from, gone | one, missing - size, found);
    }
  }

  /// All that engine `on` and those after it can do now.
  template <typename Found>
  void choose(state const& st, std::size_t on, Found const& found) const {
    if (on == engines) {
      advance(st, found);
      return;
    }
    choose(st, on + 1, found);
    auto const which = static_cast<engine>(on);
    if (st.op[on] != 0 || !works(which)) return;
    for (int op = 1; op <= operations(which); ++op) {
      auto const number = static_cast<std::uint8_t>(op);
      if (!legal(st, which, number)) continue;
      start(st, which, number, [&](state const& next) { choose(next, on + 1, found); });
    }
  }

  [[nodiscard]] bool works(engine on) const {
    return on == compute || (on == to_host ? c_.d2h_bytes_per_s : c_.h2d_bytes_per_s) > 0;
  }

  /// On to the next end of an operation.
  template <typename Found>
  void advance(state const& decided, Found const& found) const {
    double soonest = std::numeric_limits<double>::infinity();
    for (std::size_t e = 0; e < engines; ++e) {
      if (decided.op[e] != 0) soonest = std::min(soonest, decided.end_s[e]);
    }
    if (soonest == std::numeric_limits<double>::infinity()) return;
    state st = decided;
    if (reduced_) remember_late(st);
    for (std::size_t e = 0; e < engines; ++e) {
      if (st.op[e] != 0 && st.end_s[e] <= soonest + same_s_) st.now_s = std::max(st.now_s, st.end_s[e]);
    }
    for (std::size_t e = 0; e < engines; ++e) {
      if (st.op[e] != 0 && st.end_s[e] <= soonest + same_s_) finish(st, static_cast<engine>(e));
    }
    found(decided, std::as_const(st));
  }

  /// Notes what idle engines leave undone.
  void remember_late(state& st) const {
    st.late_device = st.device;
    st.late_droppable = droppable(st) & ~st.inputs;
    st.late_room = device_limit_ - held(st);
    double const host_room = host_limit_ - host_held(st);
    for (std::size_t e = 0; e < engines; ++e) {
      st.late[e] = 0;
      auto const which = static_cast<engine>(e);
      if (st.op[e] != 0 || !works(which)) continue;
      for (int op = 1; op <= operations(which); ++op) {
        if (which == to_host && at(size_, op - 1) > host_room) continue;
        if (legal(st, which, static_cast<std::uint8_t>(op))) st.late[e] |= std::uint64_t{1} << op;
      }
    }
  }

  /// Whether `op` with these drops could have started at the event before, beside all that did.
  [[nodiscard]] bool is_late(state const& st, engine on, std::uint8_t op, mask gone) const {
    if ((st.late[on] >> op & 1U) == 0) return false;
    if (on == to_host) return true;
    if (on == compute && (st.late_device & inputs_of_stage(stage_of_op(op)) & ~gone) == 0) return false;
    double const needs = on == compute ? compute_bytes(op) : at(size_, op - 1);
    return (gone & ~st.late_droppable) == 0 && needs - bytes(gone) <= st.late_room;
  }

  void finish(state& st, engine on) const {
    std::uint8_t const op = std::exchange(st.op[on], std::uint8_t{0});
    if (on == to_host) st.host |= mask{1} << (op - 1);
    if (on == to_device) st.device |= mask{1} << (op - 1);
    if (on != compute) return;
    st.inputs = 0;
    int const i = stage_of_op(op);
    if (kind_of(op) != backward) {
      st.device |= mask{1} << made_by(op);
      return;
    }
    st.next = static_cast<std::int8_t>(i - 1);
    st.device &= ~(x(i) | x(i + 1) | s(i));
    st.host &= ~(x(i) | x(i + 1) | s(i));
  }

  chain const& c_;
  int last_;  // the last stage
  bool reduced_;
  double same_s_ = 0;
  std::vector<double> size_, scratch_, backward_scratch_;
  double device_limit_ = 0;
  double host_limit_ = 0;
};

}  // namespace ferry::planning
