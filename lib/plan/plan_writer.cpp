#include "plan/plan_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ferry::planning {

namespace {

constexpr double us = 1e6;  // per second

using kind = plan_operation::kind;

class writer {
 public:
  writer(profile const& step, step_chain const& of, chain_solution const& found, chain_simulator const& simulated)
      : step_(step), of_(of), c_(of.problem), plan_(found.plan), simulated_(simulated) {
    made_.profile_name = step.name;
    made_.step_us = found.seconds * us;
    made_.unlimited_us = c_.ideal_s() * us;
    made_.lower_bound_us = found.lower_bound_s * us;
    made_.insured = c_.insured;
  }

  plan write() {
    for (std::uint32_t i = 0; i < of_.stages.size(); ++i) {
      where_.push_back(of_.placements(i, plan_[i].saving));
      inputs_.push_back(input_placement(i));
    }
    settle_last_run();
    last_op_of_out_.assign(simulated_.outs().size(), 0);
    auto const& ops = simulated_.ops();
    std::size_t next_in = 0;
    unsent_ = 0;
    send_made_by(0, true);
    for (std::uint32_t p = 0; p < ops.size(); ++p) {
      while (next_in < simulated_.ins().size() && simulated_.ins()[next_in].position == p) {
        add_fetch(simulated_.ins()[next_in++]);
      }
      add_compute(ops[p], p);
      send_made_by(p, false);
      made_.waiting_us += ops[p].waited_s * us;
      made_.slowed_us += std::max(0.0, ops[p].end_s - ops[p].start_s - ops[p].seconds) * us;
    }
    find_latest_starts();
    add_items();
    count_bytes();
    for (auto& [name, share] : recomputed_) made_.recomputed.push_back(share);
    return std::move(made_);
  }

 private:
  [[nodiscard]] profile_item const& item(std::uint32_t segment, std::uint32_t index) const {
    return step_.segments[segment].items[index];
  }
  [[nodiscard]] profile_item const* input_of(std::uint32_t segment) const {
    if (segment >= of_.stages.size() || !of_.stages[segment].input) return nullptr;
    return &item(segment, *of_.stages[segment].input);
  }

  plan_operation& add(kind what, std::uint32_t segment, std::string const& name, double start_s, double end_s) {
    made_.operations.push_back({.what = what,
                                .segment = segment,
                                .item = name,
                                .position = computed_,
                                .after = {},
                                .start_us = start_s * us,
                                .end_us = end_s * us,
                                .latest_start_us = start_s * us});
    return made_.operations.back();
  }

  /// The operation starts after the first `outs` transfers out.
  void wait_for(plan_operation& op, std::uint32_t outs) {
    if (outs > 0) op.after.push_back(last_op_of_out_[outs - 1]);
  }

  void add_compute(placed_op const& op, std::uint32_t position) {
    std::size_t const first = made_.operations.size();
    switch (op.op) {
      case chain_op::backward:
        add(kind::backward, op.stage, {}, op.start_s, op.end_s);
        ++computed_;
        backward_done_ = op.stage;
        break;
      case chain_op::rebuild:
        rebuild(op, [this, &op](std::size_t k) { return where_[op.stage][k] == placement::recompute; });
        break;
      case chain_op::forward_saving:
      case chain_op::forward_only:
        if (position < simulated_.forward_ops() || first_time(op)) {
          add(kind::forward, op.stage, {}, op.start_s, op.end_s);
          ++computed_;
          forwarded_ = op.stage + 1;
        } else {
          rebuild(op, [](std::size_t) { return true; });
          if (op.drops_input) drop_input(op.stage, op.end_s);
        }
        break;
      default:
        break;
    }
    if (made_.operations.size() > first) wait_for(made_.operations[first], op.outs_before);
  }

  /// Forward may go straight into its last run.
  [[nodiscard]] bool first_time(placed_op const& op) const { return op.stage >= forwarded_; }

  /// The chosen inner items run again, and the output with a whole forward. A forward that saves nothing drops each
  /// inner item after its last reader.
  template <typename Chosen>
  void rebuild(placed_op const& op, Chosen chosen) {
    auto const& stage = of_.stages[op.stage];
    auto const* const output = input_of(op.stage + 1);
    // Once the next segment's backward has released its input, nobody wants it again.
    bool const also_output = op.op != chain_op::rebuild && output != nullptr && op.stage + 1 < backward_done_;
    auto const cost = [](profile_item const& one) { return one.recipe_us.value_or(0); };
    double total = also_output ? cost(*output) : 0;
    for (std::size_t k = 0; k < stage.inner.size(); ++k) total += chosen(k) ? cost(item(op.stage, stage.inner[k])) : 0;
    double at = op.start_s;
    for (std::uint32_t k = 0; k <= stage.inner.size(); ++k) {
      bool const inner = k < stage.inner.size();
      if (inner ? chosen(k) : also_output) {
        auto const& what = inner ? item(op.stage, stage.inner[k]) : *output;
        double const end = at + (total > 0 ? cost(what) / total * (op.end_s - op.start_s) : 0);
        add_rebuild(inner ? op.stage : op.stage + 1, what, at, end);
        at = end;
      }
      for (std::size_t read = 0; op.op == chain_op::forward_only && read < stage.inner.size(); ++read) {
        if (stage.last_reader[read] == k) add(kind::drop, op.stage, item(op.stage, stage.inner[read]).name, at, at);
      }
    }
    made_.recompute_us += op.seconds * us;
  }

  void add_rebuild(std::uint32_t segment, profile_item const& what, double start_s, double end_s) {
    add(kind::rebuild, segment, what.name, start_s, end_s);
    ++computed_;
    auto& sum = recomputed_[what.name];
    sum.operation = what.name;
    ++sum.runs;
    sum.us += (end_s - start_s) * us;
    sum.flops += what.recipe_flops;
  }

  void drop_input(std::uint32_t stage, double at) {
    if (auto const* const input = input_of(stage)) add(kind::drop, stage, input->name, at, at);
  }

  /// Calls visit(segment, item, share of the tensor's bytes before it, and with it).
  template <typename Visit>
  void each_item(chain_tensor tensor, double bytes, Visit visit) const {
    if (tensor.what == chain_tensor::kind::boundary) {
      if (auto const* const input = input_of(tensor.index)) visit(tensor.index, *input, 0.0, 1.0);
      return;
    }
    double done = 0;
    auto const& inner = of_.stages[tensor.index].inner;
    for (std::size_t k = 0; k < inner.size(); ++k) {
      if (where_[tensor.index][k] != placement::offload) continue;
      auto const& what = item(tensor.index, inner[k]);
      double const next = done + static_cast<double>(what.bytes) / bytes;
      visit(tensor.index, what, done, std::min(next, 1.0));
      done = next;
    }
  }

  void send_made_by(std::uint32_t position, bool before_all) {
    auto const& outs = simulated_.outs();
    while (unsent_ < outs.size()) {
      auto const& out = outs[unsent_];
      bool const of_the_input = out.tensor == chain_tensor{chain_tensor::kind::boundary, 0};
      if (before_all ? !of_the_input : out.made_by > position) return;
      each_item(out.tensor, out.bytes,
                [&](std::uint32_t segment, profile_item const& what, double before, double after) {
                  double const took = out.end_s - out.start_s;
                  add(kind::offload, segment, what.name, out.start_s + before * took, out.start_s + after * took);
                  made_.offloaded_bytes += what.bytes;
                });
      last_op_of_out_[unsent_] = static_cast<std::uint32_t>(std::max<std::size_t>(made_.operations.size(), 1) - 1);
      ++unsent_;
    }
  }

  void add_fetch(transfer_in const& in) {
    auto const& out = simulated_.outs()[in.out];
    bool first = true;
    each_item(out.tensor, out.bytes, [&](std::uint32_t segment, profile_item const& what, double before, double after) {
      double const took = in.end_s - in.start_s;
      auto& op = add(kind::fetch, segment, what.name, in.start_s + before * took, in.start_s + after * took);
      if (std::exchange(first, false)) wait_for(op, in.outs_before);
      made_.fetched_bytes += what.bytes;
    });
  }

  /// How late each operation could start without delaying what follows on its engine, or its consumer.
  void find_latest_starts() {
    auto& ops = made_.operations;
    double compute_due = made_.step_us;
    double fetch_due = made_.step_us;
    double out_due = made_.step_us;
    std::map<std::pair<std::uint32_t, std::string>, double> fetched_by;  // when an offload must have ended
    for (std::size_t k = ops.size(); k-- > 0;) {
      auto& op = ops[k];
      double const took = op.end_us - op.start_us;
      if (op.what == kind::fetch) {
        // Needed when the compute operation that it was placed before in time starts to wait for it.
        double const needed =
            needed_us_.count({op.segment, op.item}) != 0 ? needed_us_[{op.segment, op.item}] : op.end_us;
        fetch_due = std::min(fetch_due, std::max(needed, op.end_us)) - took;
        op.latest_start_us = std::max(fetch_due, op.start_us);
        fetched_by[{op.segment, op.item}] = op.latest_start_us;
      } else if (op.what == kind::offload) {
        auto const back = fetched_by.find({op.segment, op.item});
        out_due = std::min(out_due, back != fetched_by.end() ? back->second : made_.step_us) - took;
        op.latest_start_us = std::max(out_due, op.start_us);
      } else if (op.what == kind::drop) {
        op.latest_start_us = compute_due;
      } else {
        compute_due = std::min(compute_due - took, made_.step_us);
        op.latest_start_us = std::max(compute_due, op.start_us);
        if (op.what == kind::backward) note_needs(op.segment, op.latest_start_us);
      }
    }
  }

  /// Backward of a segment needs its items.
  void note_needs(std::uint32_t segment, double start_us) {
    for (auto const& one : step_.segments[segment].items) needed_us_[{segment, one.name}] = start_us;
  }

  void add_items() {
    double const busy_s = made_.step_us / us;
    double in_s = 0;
    for (auto const& in : simulated_.ins()) in_s += in.end_s - in.start_s;
    bool const link_full = in_s > 0.8 * busy_s * 0.66;  // backward is about two thirds of a step
    for (std::uint32_t i = 0; i < of_.stages.size(); ++i) {
      auto const& stage = of_.stages[i];
      std::vector<placement> of_items(step_.segments[i].items.size(), placement::keep);
      for (std::size_t k = 0; k < stage.inner.size(); ++k) of_items[stage.inner[k]] = where_[i][k];
      if (stage.input) of_items[*stage.input] = inputs_[i];
      for (std::uint32_t k = 0; k < of_items.size(); ++k) {
        auto const& one = item(i, k);
        auto const where = of_items[k];
        made_.items.push_back({{i, one.name}, one.bytes, where, one.recipe_us, reason_for(i, one, where, link_full)});
      }
    }
  }

  [[nodiscard]] placement input_placement(std::uint32_t i) const {
    if (i > 0 && plan_[i - 1].saving != replayed) {
      return saving_of(c_, i - 1, plan_[i - 1].saving).output_stays ? placement::keep : placement::offload;
    }
    switch (plan_[i].input) {
      case input_mark::kept:
        return placement::keep;
      case input_mark::ferried:
        return placement::offload;
      case input_mark::none:
        break;
    }
    return placement::recompute;
  }

  /// Where forward goes straight into its last run, what the run saves on the way is kept.
  void settle_last_run() {
    auto const& ops = simulated_.ops();
    std::uint32_t next = simulated_.forward_ops();
    for (std::uint32_t p = next; p < ops.size(); ++p) {
      auto const& op = ops[p];
      if (op.stage != next || op.op == chain_op::backward) continue;
      bool const saving = op.op == chain_op::forward_saving;
      if (saving) std::ranges::fill(where_[op.stage], placement::keep);
      if (next + 1 < inputs_.size()) {
        bool const dropped = !saving && p + 1 < ops.size() && ops[p + 1].drops_input;
        inputs_[next + 1] = dropped ? placement::recompute : placement::keep;
      }
      ++next;
    }
  }

  [[nodiscard]] std::string reason_for(std::uint32_t segment, profile_item const& one, placement where,
                                       bool link_full) const {
    double const fetch_ms =
        c_.has_link() ? 1e3 * (c_.h2d_latency_s + static_cast<double>(one.bytes) / c_.h2d_bytes_per_s) : 0;
    auto const rebuild = one.recipe_us ? fmt::format("{:.3g} ms to rebuild", *one.recipe_us * 1e-3) : "no recipe";
    auto const link = c_.has_link() ? fmt::format("{:.3g} ms to fetch", fetch_ms) : "no link";
    bool const together = where == placement::recompute && plan_[segment].saving == replayed;  // with its segment
    switch (where) {
      case placement::keep:
        return fmt::format("kept: {}, {}, and it fits", rebuild, link);
      case placement::offload:
        return fmt::format("ferried: {}, hidden behind compute; {}", link, rebuild);
      case placement::recompute:
        return fmt::format("recomputed: {}, {}{}{}", rebuild, link, link_full ? ", link is full here" : "",
                           together ? "; its whole segment runs again" : "");
    }
    return {};
  }

  void count_bytes() {
    // Changes of each tier over time.
    std::vector<std::pair<double, double>> device;
    std::vector<std::pair<double, double>> host;
    for (auto const& op : simulated_.ops()) {
      device.emplace_back(op.start_s, op.bytes);
      device.emplace_back(op.end_s, -op.bytes);
    }
    for (auto const& out : simulated_.outs()) {
      bool const of_the_input = out.tensor == chain_tensor{chain_tensor::kind::boundary, 0};
      double const made = of_the_input ? 0 : simulated_.ops()[out.made_by].end_s;
      device.emplace_back(made, out.bytes);
      device.emplace_back(out.free_s, -out.bytes);
      host.emplace_back(out.start_s, out.bytes);
    }
    for (auto const& in : simulated_.ins()) {
      device.emplace_back(in.start_s, in.bytes);
      device.emplace_back(std::max(in.start_s, simulated_.ops()[in.consumer].start_s), -in.bytes);
      host.emplace_back(simulated_.ops()[in.consumer].end_s, -in.bytes);  // the copy stays until the item is released
    }
    auto const sum = [this](std::vector<std::pair<double, double>>& changes, double limit) {
      std::ranges::sort(changes, [](auto const& a, auto const& b) {
        return a.first != b.first ? a.first < b.first : a.second < b.second;
      });
      double now = 0;
      double area = 0;
      double peak = 0;
      double last = 0;
      for (auto const& [at, change] : changes) {
        area += now * (at - last);
        last = at;
        now += change;
        peak = std::max(peak, now);
      }
      auto const whole = [](double bytes) { return static_cast<std::size_t>(std::clamp(bytes, 0.0, 1e15)); };
      return planned_bytes{whole(limit), whole(std::min(peak, limit)), area / (made_.step_us / us)};
    };
    made_.device = sum(device, c_.device_bytes);
    made_.host = sum(host, c_.host_bytes);
  }

  profile const& step_;
  step_chain const& of_;
  chain const& c_;
  chain_plan const& plan_;
  chain_simulator const& simulated_;
  plan made_;
  std::vector<std::vector<placement>> where_;  // of the inner items
  std::vector<placement> inputs_;
  std::vector<std::uint32_t> last_op_of_out_;
  std::size_t unsent_ = 0;
  std::uint32_t computed_ = 0;
  std::uint32_t forwarded_ = 0;
  std::uint32_t backward_done_ = ~std::uint32_t{0};  // the last segment whose backward has been laid out
  std::map<std::string, recompute_share> recomputed_;
  std::map<std::pair<std::uint32_t, std::string>, double> needed_us_;
};

}  // namespace

plan write_plan(profile const& step, step_chain const& of, chain_solution const& found,
                chain_simulator const& simulated) {
  return writer(step, of, found, simulated).write();
}

}  // namespace ferry::planning
