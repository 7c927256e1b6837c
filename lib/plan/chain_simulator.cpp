#include "plan/chain_simulator.hpp"

#include <algorithm>
#include <limits>

namespace ferry::planning {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

double chain::ideal_s() const noexcept {
  double total = 0;
  for (double const s : forward_s) total += s;
  for (double const s : backward_s) total += s;
  return total;
}

chain_simulator::chain_simulator(chain const& of, replay_table const& replays)
    : chain_(&of), replays_(&replays), limit_(of.device_bytes), tolerance_(1e-9 * of.device_bytes), timeline_(of) {
  auto const stages = of.stages();
  ops_.reserve(4 * stages);
  outs_.reserve(2 * stages);
  ins_.reserve(2 * stages);
}

double chain_simulator::run(chain_plan const& plan) {
  plan_ = &plan;
  auto const stages = chain_->stages();
  how_.resize(stages);
  for (std::size_t i = 0; i < stages; ++i) {
    if (plan[i].saving != replayed) how_[i] = saving_of(*chain_, i, plan[i].saving);
  }
  ops_.clear();
  outs_.clear();
  ins_.clear();
  saved_out_.assign(stages, nowhere);
  boundary_out_.assign(stages + 1, nowhere);
  kept_ = sent_ = 0;
  if (!lay_out_forward() || !lay_out_backward() || !place_fetches()) return never;
  return timeline_.run(ops_, forward_ops_, outs_, ins_, load_) ? ops_.back().end_s : never;
}

/// The first stage of the run of replayed stages that ends with `last`.
std::uint32_t chain_simulator::run_start(std::uint32_t last) const {
  std::uint32_t s = last;
  while (s > 0 && (*plan_)[s - 1].saving == replayed && (*plan_)[s].input == input_mark::none) --s;
  return s;
}

void chain_simulator::add_op(chain_op op, std::uint32_t stage, double seconds, double bytes) {
  ops_.push_back({.op = op, .stage = stage, .seconds = seconds, .bytes = bytes});
}

void chain_simulator::send(chain_tensor what, double bytes, std::uint32_t used_until) {
  auto const made_by = ops_.empty() ? 0 : static_cast<std::uint32_t>(ops_.size() - 1);
  (what.what == chain_tensor::kind::saved ? saved_out_ : boundary_out_)[what.index] =
      static_cast<std::uint32_t>(outs_.size());
  outs_.push_back({.tensor = what, .bytes = bytes, .made_by = made_by, .used_until = used_until});
  sent_ += bytes;
}

/// Once all has gone out that the operation at that position does not read.
bool chain_simulator::can_fit(double bytes, std::uint32_t position) const {
  for (std::size_t o = outs_.size(); o-- > 0 && outs_[o].used_until >= position;) bytes += outs_[o].bytes;
  return bytes <= limit_ + tolerance_;
}

/// What the first forward of a stage makes, with its scratch memory.
double chain_simulator::forward_bytes(std::uint32_t i) const {
  auto const& c = *chain_;
  if ((*plan_)[i].saving == replayed) return c.boundary_bytes[i + 1] + c.passing_scratch(i);
  double const made = how_[i].forward_peak_bytes > 0 ? how_[i].forward_peak_bytes : c.saved_bytes[i];
  return made + c.forward_scratch_bytes[i];
}

bool chain_simulator::lay_out_forward() {
  auto const& c = *chain_;
  auto const& plan = *plan_;
  auto const stages = static_cast<std::uint32_t>(c.stages());
  // Forward goes straight into a last run whose input stays: nothing of it is run twice for nothing.
  direct_from_ = stages;
  if (plan.back().saving == replayed) {
    std::uint32_t const s = run_start(stages - 1);
    bool const input_stays = separate(s) ? plan[s].input == input_mark::kept : how_[s - 1].output_stays;
    if (input_stays) direct_from_ = s;
  }
  double passing = 0;  // X[i], if nothing keeps it
  auto const place_input = [&](std::uint32_t i) {
    double const bytes = c.boundary_bytes[i];
    passing = 0;
    if (plan[i].input == input_mark::kept) {
      kept_ += bytes;
    } else if (plan[i].input == input_mark::ferried) {
      if (!c.has_link()) return false;
      send({chain_tensor::kind::boundary, i}, bytes, i);
    } else {
      passing = bytes;
    }
    return true;
  };
  if (!place_input(0)) return false;
  forward_ops_ = direct_from_;
  for (std::uint32_t i = 0; i < direct_from_; ++i) {
    bool const saved = plan[i].saving != replayed;
    double const bytes = kept_ + passing + forward_bytes(i);
    if (!can_fit(bytes, i)) return false;
    add_op(saved ? chain_op::forward_saving : chain_op::forward_only, i, c.forward_s[i], bytes);
    ops_.back().drops_input = passing > 0;
    passing = 0;
    if (saved) {
      auto const& how = how_[i];
      kept_ += how.kept_bytes;
      if (how.ferried_bytes > 0) {
        if (!c.has_link()) return false;
        bool const read_next = !how.output_stays && i + 1 < stages;
        double const output = read_next && c.output_apart ? c.boundary_bytes[i + 1] : 0;
        bool const whole = read_next && !c.output_apart;
        if (how.ferried_bytes > output) {
          send({chain_tensor::kind::saved, i}, how.ferried_bytes - output, whole ? i + 1 : i);
        }
        if (output > 0) send({chain_tensor::kind::boundary, i + 1}, output, i + 1);
      }
    } else if (i + 1 < stages && !place_input(i + 1)) {
      return false;
    }
  }
  return sent_ <= c.host_bytes * (1 + 1e-12);
}

void chain_simulator::fetch(std::uint32_t out, std::uint32_t consumer) {
  if (out == nowhere || fetched_[out] != 0) return;
  fetched_[out] = 1;
  ins_.push_back({.out = out, .bytes = outs_[out].bytes, .position = consumer, .consumer = consumer});
}

/// Fetches X[stage] or what contains it, for the operation that comes next; the bytes that this adds to what is kept.
double chain_simulator::input_bytes(std::uint32_t stage) {
  auto const position = static_cast<std::uint32_t>(ops_.size());
  if (separate(stage) || chain_->output_apart) {
    fetch(boundary_out_[stage], position);
    return boundary_out_[stage] == nowhere ? 0 : outs_[boundary_out_[stage]].bytes;
  }
  if (how_[stage - 1].output_stays) return 0;
  fetch(saved_out_[stage - 1], position);
  return how_[stage - 1].ferried_bytes;
}

bool chain_simulator::lay_out_backward() {
  auto const& c = *chain_;
  auto const& plan = *plan_;
  fetched_.assign(outs_.size(), 0);
  failed_ = false;
  auto i = static_cast<std::int64_t>(c.stages()) - 1;
  while (i >= 0) {
    auto const stage = static_cast<std::uint32_t>(i);
    bool const again = plan[stage].saving == replayed;
    bool const lost_its_input = !again && separate(stage) && plan[stage].input == input_mark::none;
    if (again || lost_its_input) {
      std::uint32_t const last = again ? stage : stage - 1;
      std::uint32_t const s = run_start(last);
      if (!lay_out_run(again ? run_kind::plain : run_kind::leading, s, last)) return false;
      if (separate(s) && plan[s].input == input_mark::kept) kept_ -= c.boundary_bytes[s];
      i = static_cast<std::int64_t>(s) - 1;
      continue;
    }
    auto const& how = how_[stage];
    auto const position = static_cast<std::uint32_t>(ops_.size());
    fetch(saved_out_[stage], position);
    double const held = kept_ + (c.saved_bytes[stage] - how.kept_bytes) + input_bytes(stage);
    if (how.rebuild_s > 0) {
      add_op(chain_op::rebuild, stage, how.rebuild_s,
             held + c.waiting_gradient(stage) + c.forward_scratch_bytes[stage]);
    }
    add_op(chain_op::backward, stage, c.backward_s[stage], held + c.backward_bytes(stage));
    kept_ -= how.kept_bytes;
    if (separate(stage) && plan[stage].input == input_mark::kept) kept_ -= c.boundary_bytes[stage];
    --i;
  }
  return true;
}

/// Bytes that a replay leaves to the fetches after it.
double chain_simulator::reserve_bytes(std::uint32_t first) const {
  std::uint32_t left = (*plan_)[first].reserve;
  double bytes = 0;
  for (std::uint32_t i = first; left > 0 && i-- > 0;) {
    if (boundary_out_[i] != nowhere || saved_out_[i] != nowhere) {
      if (saved_out_[i] != nowhere) bytes += outs_[saved_out_[i]].bytes;
      if (boundary_out_[i] != nowhere) bytes += outs_[boundary_out_[i]].bytes;
      --left;
    }
  }
  return bytes;
}

bool chain_simulator::lay_out_run(run_kind kind, std::uint32_t first, std::uint32_t last) {
  base_ = kept_ + input_bytes(first);
  // What of a led stage's S is not there yet has to find room.
  bool const leads = kind == run_kind::leading;
  double const coming = leads ? chain_->saved_bytes[last + 1] - how_[last + 1].kept_bytes : 0;
  double const all = limit_ - base_ - coming;
  double free = all - reserve_bytes(first);
  if (replays_->seconds(kind, first, last, free) == never) free = all;  // a reserve is a wish
  if (replays_->seconds(kind, first, last, free) == never) return false;
  add_run(kind, first, last, free, 0);
  return !failed_;
}

void chain_simulator::add_run(run_kind kind, std::uint32_t s, std::uint32_t t, double free, double held) {
  auto const& c = *chain_;
  auto const [keep_input_of, fits] = replays_->best(kind, s, t, free);
  if (!fits) {
    failed_ = true;
    return;
  }
  bool const leads = kind == run_kind::leading;
  double const gradient = c.waiting_gradient(leads ? t + 1 : t);
  if (keep_input_of == 0) {
    double const saved = c.saved_bytes[s];
    add_op(chain_op::forward_saving, s, c.forward_s[s], base_ + held + saved + c.forward_scratch_bytes[s] + gradient);
    if (s < t) {
      add_run(kind, s + 1, t, free - saved, held + saved);
    } else if (leads) {
      add_led(t + 1, held + saved);
    }
    add_op(chain_op::backward, s, c.backward_s[s], base_ + held + saved + c.backward_bytes(s));
    return;
  }
  add_pass(s, keep_input_of, held + gradient);
  double const kept = c.boundary_bytes[keep_input_of];
  if (keep_input_of <= t) {
    add_run(kind, keep_input_of, t, free - kept, held + kept);
  } else {
    add_led(t + 1, held + kept);
  }
  add_run(run_kind::plain, s, keep_input_of - 1, free + (leads ? c.saved_bytes[t + 1] : 0), held);
}

/// Stages s..end-1 forward, for X[end] alone.
void chain_simulator::add_pass(std::uint32_t s, std::uint32_t end, double held) {
  auto const& c = *chain_;
  for (std::uint32_t k = s; k < end; ++k) {
    double const input = k == s ? 0 : c.boundary_bytes[k];
    add_op(chain_op::forward_only, k, c.forward_s[k],
           base_ + held + input + c.boundary_bytes[k + 1] + c.passing_scratch(k));
    ops_.back().drops_input = k > s;
  }
}

/// The backward of a saved stage whose input a replay has made.
void chain_simulator::add_led(std::uint32_t stage, double held) {
  auto const& c = *chain_;
  auto const& how = how_[stage];
  fetch(saved_out_[stage], static_cast<std::uint32_t>(ops_.size()));
  add_op(chain_op::backward, stage, c.backward_s[stage],
         base_ + held + (c.saved_bytes[stage] - how.kept_bytes) + c.backward_bytes(stage));
  base_ -= how.kept_bytes;
  kept_ -= how.kept_bytes;
}

/// Gives every fetch the earliest position from which its bytes fit until it is needed, in order of need. What forward
/// still has to send out comes first: no fetch starts before the last ferried tensor is made.
bool chain_simulator::place_fetches() {
  auto const count = static_cast<std::uint32_t>(ops_.size());
  load_.resize(count);
  for (std::uint32_t p = 0; p < count; ++p) {
    load_[p] = ops_[p].bytes;
    if (load_[p] > limit_ + tolerance_) return false;
  }
  if (ins_.empty()) return true;
  std::uint32_t earliest = outs_.back().used_until + 1;
  for (auto& in : ins_) {
    std::uint32_t p = in.consumer;
    while (p > earliest && load_[p - 1] + in.bytes <= limit_ + tolerance_) load_[--p] += in.bytes;
    in.position = p;
    earliest = p;
  }
  return true;
}

}  // namespace ferry::planning
