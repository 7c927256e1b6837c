#include "plan/label_pass.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/stage_ways.hpp"

namespace ferry::planning {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Where the input of the next stage is.
enum class output_place : std::uint8_t { alone, kept, ferried };

struct label {
  double extra_s = 0;
  double kept = 0;
  double going_out = 0;  // bytes queued
  double coming_in = 0;  // the same, seen from backward's end
  double host = 0;
  std::int32_t parent = -1;
  std::uint32_t from = 0;  // the stage that the last action began with
  stage_plan action{};
  output_place output = output_place::alone;
};

class pass {
 public:
  pass(chain const& c, replay_table const& replays, label_grid const& grid)
      : c_(c),
        replays_(replays),
        grid_(grid),
        slowed_s_(c.slowed_s_a_byte()),
        labels_(c.stages() + 1),
        cells_(c.stages() + 1) {
    std::size_t const cells = 3U * static_cast<std::size_t>(grid.kept_cells) *
                              static_cast<std::size_t>(grid.queue_cells) * static_cast<std::size_t>(grid.queue_cells);
    for (auto& of_stage : cells_) of_stage.assign(cells, -1);
  }

  std::vector<chain_plan> run(std::size_t count) {
    labels_[0].push_back({});
    auto const stages = static_cast<std::uint32_t>(c_.stages());
    for (std::uint32_t i = 0; i < stages; ++i) {
      if (i == 0 || !alike(c_, i, i - 1)) choose_savings(i);
      for (std::int32_t index = 0; index < static_cast<std::int32_t>(labels_[i].size()); ++index) extend(i, index);
    }
    auto& last = labels_[stages];
    std::vector<std::int32_t> order(last.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int32_t>(k);
    std::ranges::stable_sort(order, {}, [&](std::int32_t k) { return last[static_cast<std::size_t>(k)].extra_s; });
    std::vector<chain_plan> plans;
    for (std::int32_t const k : order) {
      if (plans.size() == count) break;
      plans.push_back(trace(k));
    }
    return plans;
  }

 private:
  void choose_savings(std::uint32_t i) {
    savings_.clear();
    for (auto const& way : useful_ways(c_, i)) {
      if (way.saving != replayed) savings_.push_back(way.saving);
    }
  }

  /// Takes `excess` bytes from a queue at the link's rate; false if it has not as many.
  static bool drain(double excess, double rate, double& queue, double& extra_s) {
    if (excess <= 0) return true;
    if (excess > queue * (1 + 1e-12)) return false;
    queue = std::max(0.0, queue - excess);
    extra_s += excess / rate;
    return true;
  }

  void extend(std::uint32_t i, std::int32_t index) {
    label const from = labels_[i][static_cast<std::size_t>(index)];
    auto const with_input = [&](input_mark mark) {
      label next = from;
      next.parent = index;
      next.from = i;
      next.action = {.input = mark};
      if (from.output == output_place::alone) {
        if (mark == input_mark::kept) {
          next.kept += c_.boundary_bytes[i];
        } else {
          next.going_out += c_.boundary_bytes[i];
          next.coming_in += c_.boundary_bytes[i];
          next.host += c_.boundary_bytes[i];
          next.extra_s += c_.boundary_bytes[i] * slowed_s_;
        }
      }
      return next;
    };
    for (auto const mark : {input_mark::kept, input_mark::ferried}) {
      if (mark == input_mark::ferried && (!c_.has_link() || c_.insured || from.output != output_place::alone)) break;
      label const start = with_input(mark);
      for (std::int8_t const saving : savings_) save_stage(i, start, saving);
      replay_run(i, start);
    }
  }

  void save_stage(std::uint32_t i, label next, std::int8_t saving) {
    auto const how = saving_of(c_, i, saving);
    if (how.ferried_bytes > 0 && (!c_.has_link() || (c_.insured && !how.output_stays))) return;
    double const made = how.forward_peak_bytes > 0 ? how.forward_peak_bytes : c_.saved_bytes[i];
    double const forward_need = next.kept + made + c_.forward_scratch_bytes[i];
    if (!drain(forward_need + next.going_out - c_.device_bytes, c_.d2h_bytes_per_s, next.going_out, next.extra_s))
      return;
    double const backward_need = next.kept + c_.saved_bytes[i] + c_.backward_bytes(i);
    if (!drain(backward_need + next.coming_in - c_.device_bytes, c_.h2d_bytes_per_s, next.coming_in, next.extra_s))
      return;
    next.going_out = std::max(0.0, next.going_out - c_.forward_s[i] * c_.d2h_bytes_per_s);
    next.coming_in = std::max(0.0, next.coming_in - (c_.backward_s[i] + how.rebuild_s) * c_.h2d_bytes_per_s);
    next.kept += how.kept_bytes;
    next.going_out += how.ferried_bytes;
    next.coming_in += how.ferried_bytes;
    next.host += how.ferried_bytes;
    next.extra_s += how.rebuild_s + how.ferried_bytes * slowed_s_;
    next.action.saving = saving;
    next.output = how.output_stays ? output_place::kept : output_place::ferried;
    add(i + 1, next);
  }

  /// Runs of every length that start with stage i.
  void replay_run(std::uint32_t i, label start) {
    auto const stages = static_cast<std::uint32_t>(c_.stages());
    start.action.saving = replayed;
    double forward_s = 0;
    double backward_s = 0;
    double passing = 0;
    std::uint32_t const end = std::min(stages, i + std::min(grid_.longest_run, replays_.longest()));
    for (std::uint32_t j = i; j < end; ++j) {
      // Forward of stage j, nothing saved. The last run of the chain goes straight into backward.
      if (!c_.may_replay(j)) return;
      double const need = start.kept + passing + c_.boundary_bytes[j + 1] + c_.passing_scratch(j);
      if (!drain(need + start.going_out - c_.device_bytes, c_.d2h_bytes_per_s, start.going_out, start.extra_s)) return;
      passing = c_.boundary_bytes[j + 1];
      forward_s += c_.forward_s[j];
      backward_s += c_.backward_s[j];
      start.going_out = std::max(0.0, start.going_out - c_.forward_s[j] * c_.d2h_bytes_per_s);
      label next = start;
      double const all = c_.device_bytes - next.kept;
      double free = all - next.coming_in;
      double time = replays_.seconds(run_kind::plain, i, j, free);
      // Rather wait for the link than replay twice, if that is sooner.
      double const drained = replays_.seconds(run_kind::plain, i, j, all);
      if (drained == never) return;  // longer runs need no less
      if (next.coming_in > 0) {
        double const half = replays_.seconds(run_kind::plain, i, j, all - 0.5 * next.coming_in);
        double const wait_half = 0.5 * next.coming_in / c_.h2d_bytes_per_s;
        if (half + wait_half < std::min(time, drained + 2 * wait_half)) {
          next.extra_s += wait_half;
          next.coming_in *= 0.5;
          time = half;
        } else if (drained + 2 * wait_half < time) {
          next.extra_s += 2 * wait_half;
          next.coming_in = 0;
          time = drained;
        }
      }
      if (time == never) continue;
      next.coming_in = std::max(0.0, next.coming_in - time * c_.h2d_bytes_per_s);
      next.extra_s += time - backward_s - (j + 1 == stages ? forward_s : 0);
      next.output = output_place::alone;
      add(j + 1, next);
    }
  }

  void add(std::uint32_t stage, label const& next) {
    if (next.host > c_.host_bytes) return;
    auto const cell = [this](double bytes, int cells) {
      return static_cast<std::size_t>(std::clamp(bytes / c_.device_bytes * cells, 0.0, cells - 1.0));
    };
    auto const queue_cell = [&](double bytes) {
      // An empty queue is a cell of its own: it is the goal.
      return bytes <= 0 ? 0 : 1 + cell(bytes, grid_.queue_cells - 1);
    };
    std::size_t where = static_cast<std::size_t>(next.output);
    where = where * static_cast<std::size_t>(grid_.kept_cells) + cell(next.kept, grid_.kept_cells);
    where = where * static_cast<std::size_t>(grid_.queue_cells) + queue_cell(next.going_out);
    where = where * static_cast<std::size_t>(grid_.queue_cells) + queue_cell(next.coming_in);
    auto& slot = cells_[stage][where];
    auto& labels = labels_[stage];
    if (slot < 0) {
      slot = static_cast<std::int32_t>(labels.size());
      labels.push_back(next);
    } else if (auto& present = labels[static_cast<std::size_t>(slot)]; better(next, present)) {
      present = next;
    }
  }

  static bool better(label const& a, label const& b) {
    if (a.extra_s != b.extra_s) return a.extra_s < b.extra_s;
    return a.kept + a.going_out + a.coming_in < b.kept + b.going_out + b.coming_in;
  }

  chain_plan trace(std::int32_t index) const {
    chain_plan plan(c_.stages());
    auto at = static_cast<std::uint32_t>(c_.stages());
    while (at > 0) {
      label const& here = labels_[at][static_cast<std::size_t>(index)];
      for (std::uint32_t k = here.from; k < at; ++k) {
        plan[k] = here.action;
        if (k > here.from) plan[k].input = input_mark::none;
      }
      at = here.from;
      index = here.parent;
    }
    settle(c_, plan);
    return plan;
  }

  chain const& c_;
  replay_table const& replays_;
  label_grid grid_;
  double slowed_s_;                   // what the computation beside it loses by a byte that goes out and comes back
  std::vector<std::int8_t> savings_;  // of the stage at hand
  std::vector<std::vector<label>> labels_;
  std::vector<std::vector<std::int32_t>> cells_;
};

}  // namespace

std::vector<chain_plan> label_pass(chain const& c, replay_table const& replays, label_grid const& grid,
                                   std::size_t count) {
  return pass(c, replays, grid).run(count);
}

}  // namespace ferry::planning
