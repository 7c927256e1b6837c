// Runs a list of compute operations in its order, with some tensors ferried across their longest wait: a plain executor
// for the baselines, greedy and without look-ahead beyond what safety asks for. Its schedules are for the referee.
//
// Copies out queue in the order of creation, copies in in the order of need. A copy in starts early only if it fits
// beside every operation until the one that needs it, so that none of them ever waits for a tensor that is not its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/chain.hpp"
#include "plan/schedule.hpp"

namespace ferry::testing {

struct compute_step {
  planning::chain_op op{};
  std::size_t stage = 0;
};

class in_order_run {
 public:
  using tensor = planning::chain_tensor;
  using tensor_kind = planning::chain_tensor::kind;

  in_order_run(planning::chain const& problem, std::vector<compute_step> steps, std::vector<tensor> const& ferried)
      : c_(problem), steps_(std::move(steps)), limit_(c_.device_bytes * (1 + 1e-12)) {
    find_instances();
    for (instance& i : instances_) {
      if (std::find(ferried.begin(), ferried.end(), i.what) != ferried.end()) find_wait(i);
    }
    plan_bytes();
  }

  /// The schedule; none if it does not fit, or comes to a stand with nothing under way.
  std::optional<std::vector<planning::scheduled>> run() {
    if (std::any_of(planned_.begin(), planned_.end(), [this](double bytes) { return bytes > limit_; })) return {};
    held_ = c_.boundary_bytes[0];
    while (done_ < steps_.size()) {
      release();
      start_compute();
      start_d2h();
      start_h2d();
      if (!advance()) return {};
    }
    return rows_;
  }

 private:
  using op = planning::chain_op;
  static constexpr std::size_t nothing = std::numeric_limits<std::size_t>::max();

  enum class place : std::uint8_t { unmade, there, away, on_the_way, over };

  /// One making of a tensor. Steps count from 1 here, so that X[0] is made at 0.
  struct instance {
    tensor what;
    std::size_t made = 0;
    std::vector<std::size_t> uses;
    std::size_t leaves = nothing;   // ferried after this use
    std::size_t returns = nothing;  // and needed again at this one
    place at = place::unmade;
    bool copying = false;  // to the host
    bool copied = false;
    [[nodiscard]] std::size_t last() const { return uses.empty() ? made : uses.back(); }
    [[nodiscard]] bool travels() const { return leaves != nothing; }
  };

  struct engine {
    std::size_t busy_with = nothing;  // a step, or an instance
    double end_s = 0;
  };

  [[nodiscard]] double bytes_of(tensor t) const {
    return t.what == tensor_kind::boundary ? c_.boundary_bytes[t.index] : c_.saved_bytes[t.index];
  }

  void find_instances() {
    std::map<std::pair<tensor_kind, std::size_t>, std::size_t> current;
    auto const make = [&](tensor_kind kind, std::size_t index, std::size_t step) {
      current[{kind, index}] = instances_.size();
      instances_.push_back({});
      instances_.back().what = {kind, static_cast<std::uint32_t>(index)};
      instances_.back().made = step;
    };
    make(tensor_kind::boundary, 0, 0);
    instances_.front().at = place::there;
    inputs_.resize(steps_.size() + 1);
    outputs_.assign(steps_.size() + 1, nothing);
    for (std::size_t k = 1; k <= steps_.size(); ++k) {
      auto const [what, stage] = steps_[k - 1];
      // Of the two that provide it, the one made last: the other may be long gone.
      std::size_t input = nothing;
      for (auto const& source : {std::pair(tensor_kind::boundary, stage), std::pair(tensor_kind::saved, stage - 1)}) {
        auto const found = current.find(source);
        if (found != current.end() && (input == nothing || found->second > input)) input = found->second;
      }
      inputs_[k].push_back(input);
      if (what == op::backward) inputs_[k].push_back(current.at({tensor_kind::saved, stage}));
      for (std::size_t const i : inputs_[k]) instances_[i].uses.push_back(k);
      if (what == op::backward) continue;
      outputs_[k] = instances_.size();
      if (what == op::forward_only) make(tensor_kind::boundary, stage + 1, k);
      if (what == op::forward_saving) make(tensor_kind::saved, stage, k);
    }
  }

  static void find_wait(instance& i) {
    std::size_t from = i.made;
    std::size_t longest = 1;
    for (std::size_t const use : i.uses) {
      if (use - from > longest) {
        longest = use - from;
        i.leaves = from;
        i.returns = use;
      }
      from = use;
    }
  }

  [[nodiscard]] double own_bytes(std::size_t k) const {
    auto const [what, i] = steps_[k - 1];
    if (what != op::backward) return c_.forward_scratch_bytes[i];
    double const last = i + 1 == c_.stages() ? c_.boundary_bytes[i + 1] : 0;
    return c_.boundary_bytes[i] + last + c_.backward_scratch_bytes[i];
  }

  /// What each step holds if every copy is done in time.
  void plan_bytes() {
    planned_.assign(steps_.size() + 1, 0);
    for (instance const& i : instances_) {
      for (std::size_t k = i.made; k <= i.last(); ++k) {
        if (!i.travels() || k <= i.leaves || k >= i.returns) planned_[k] += bytes_of(i.what);
      }
    }
    double gradient = 0;
    for (std::size_t k = 1; k <= steps_.size(); ++k) {
      planned_[k] += own_bytes(k) + gradient;
      if (steps_[k - 1].op == op::backward) gradient = c_.boundary_bytes[steps_[k - 1].stage];
    }
    for (std::size_t i = 0; i < instances_.size(); ++i) {
      if (instances_[i].travels()) out_.push_back(i);
    }
    in_ = out_;
    std::sort(in_.begin(), in_.end(),
              [this](std::size_t a, std::size_t b) { return instances_[a].returns < instances_[b].returns; });
  }

  void emit(double end_s, op what, tensor t, std::size_t stage = 0) {
    rows_.push_back({now_s_, end_s, what, static_cast<std::uint32_t>(stage), t});
  }

  /// Lets go of what is needed no more, or has been copied and is not needed soon.
  void release() {
    for (instance& i : instances_) {
      if (i.at != place::there || i.copying) continue;
      bool const over = i.last() <= done_;
      if (!over && !(i.travels() && i.copied && i.leaves <= done_)) continue;
      if (!over && stays_after_all(i)) continue;
      i.at = over ? place::over : place::away;
      held_ -= bytes_of(i.what);
      emit(now_s_, op::drop_device, i.what);
      if (over && i.copied) drop_host(i);
    }
  }

  /// What would be fetched again at once need not go.
  bool stays_after_all(instance& i) {
    while (!in_.empty() && !instances_[in_.front()].travels()) in_.erase(in_.begin());
    bool const next = !in_.empty() && &instances_[in_.front()] == &i && h2d_.busy_with == nothing;
    if (!next || !fits_until_return(i)) return false;
    reserve_until_return(i);
    i.leaves = nothing;
    drop_host(i);
    return true;
  }

  [[nodiscard]] bool fits_until_return(instance const& i) const {
    for (std::size_t k = done_ + 1; k < i.returns; ++k) {
      if (planned_[k] + bytes_of(i.what) > limit_) return false;
    }
    return true;
  }
  void reserve_until_return(instance const& i) {
    for (std::size_t k = done_ + 1; k < i.returns; ++k) planned_[k] += bytes_of(i.what);
  }

  void drop_host(instance& i) {
    i.copied = false;
    host_held_ -= bytes_of(i.what);
    emit(now_s_, op::drop_host, i.what);
  }

  void start_compute() {
    if (compute_.busy_with != nothing) return;
    std::size_t const k = done_ + 1;
    for (std::size_t const index : inputs_[k]) {
      instance& i = instances_[index];
      if (i.at != place::there || i.copying) return;
      if (k == i.returns) i.leaves = nothing;  // it is back, or was needed before its turn to leave came
    }
    double needs = own_bytes(k);
    if (outputs_[k] != nothing) needs += bytes_of(instances_[outputs_[k]].what);
    if (held_ + needs > limit_) return;
    held_ += needs;
    auto const [what, stage] = steps_[k - 1];
    compute_ = {k, now_s_ + (what == op::backward ? c_.backward_s : c_.forward_s)[stage]};
    emit(compute_.end_s, what, {}, stage);
  }

  void start_d2h() {
    while (d2h_.busy_with == nothing && !out_.empty()) {
      instance& i = instances_[out_.front()];
      if (i.travels() && i.returns > done_ + 1) {
        bool const ready = i.at == place::there && !used_for_the_last_time(i);
        if (!ready || host_held_ + bytes_of(i.what) > c_.host_bytes * (1 + 1e-12)) return;
        d2h_ = {out_.front(), now_s_ + over(bytes_of(i.what), c_.d2h_bytes_per_s)};
        i.copying = true;
        host_held_ += bytes_of(i.what);
        emit(d2h_.end_s, op::d2h, i.what);
      } else {
        i.leaves = nothing;
      }
      out_.erase(out_.begin());
    }
  }

  [[nodiscard]] bool used_for_the_last_time(instance const& i) const {
    return compute_.busy_with != nothing && i.last() <= compute_.busy_with;
  }

  void start_h2d() {
    while (h2d_.busy_with == nothing && !in_.empty()) {
      instance& i = instances_[in_.front()];
      if (i.travels()) {
        double const bytes = bytes_of(i.what);
        if (i.at != place::away || held_ + bytes > limit_ || !fits_until_return(i)) return;
        reserve_until_return(i);
        h2d_ = {in_.front(), now_s_ + over(bytes, c_.h2d_bytes_per_s)};
        i.at = place::on_the_way;
        i.leaves = nothing;
        held_ += bytes;
        emit(h2d_.end_s, op::h2d, i.what);
      }
      in_.erase(in_.begin());
    }
  }

  /// On to the next end of something; false if nothing is under way.
  bool advance() {
    double soonest = std::numeric_limits<double>::infinity();
    for (engine const* e : {&compute_, &d2h_, &h2d_}) {
      if (e->busy_with != nothing) soonest = std::min(soonest, e->end_s);
    }
    if (soonest == std::numeric_limits<double>::infinity()) return false;
    now_s_ = soonest;
    auto const ends = [&](engine& e) { return e.busy_with != nothing && e.end_s <= now_s_; };
    if (ends(d2h_)) {
      instance& i = instances_[std::exchange(d2h_.busy_with, nothing)];
      i.copying = false;
      i.copied = true;
    }
    if (ends(h2d_)) {
      instance& i = instances_[std::exchange(h2d_.busy_with, nothing)];
      i.at = place::there;
      drop_host(i);
    }
    if (ends(compute_)) {
      done_ = std::exchange(compute_.busy_with, nothing);
      finish_step();
    }
    return true;
  }

  void finish_step() {
    held_ -= own_bytes(done_);
    if (outputs_[done_] != nothing) instances_[outputs_[done_]].at = place::there;
    auto const [what, stage] = steps_[done_ - 1];
    if (what != op::backward) return;
    // The gradient that the step made stays, the one that it used goes.
    held_ += c_.boundary_bytes[stage];
    if (stage + 1 < c_.stages()) held_ -= c_.boundary_bytes[stage + 1];
  }

  static double over(double bytes, double rate) { return bytes > 0 ? bytes / rate : 0; }

  planning::chain const& c_;
  std::vector<compute_step> steps_;
  double limit_;
  std::vector<instance> instances_;
  std::vector<std::vector<std::size_t>> inputs_;
  std::vector<std::size_t> outputs_;
  std::vector<double> planned_;
  std::vector<std::size_t> out_, in_;  // instances that wait for the link
  engine compute_, d2h_, h2d_;
  std::size_t done_ = 0;  // steps
  double now_s_ = 0;
  double held_ = 0;
  double host_held_ = 0;
  std::vector<planning::scheduled> rows_;
};

}  // namespace ferry::testing
