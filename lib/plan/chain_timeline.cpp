#include "plan/chain_timeline.hpp"

#include <algorithm>

namespace ferry::planning {

bool chain_timeline::run(std::vector<placed_op>& ops, std::uint32_t forward_ops, std::vector<transfer_out>& outs,
                         std::vector<transfer_in>& ins, std::vector<double> const& load) {
  outs_ = &outs;
  ins_ = &ins;
  load_ = &load;
  now_ = paced_since_ = leaving_bytes_ = 0;
  ops_done_ = 0;
  compute_ = out_ = in_ = {};
  next_out_ = next_in_ = made_ = freed_ = 0;
  needed_beside_next_ = never;
  while (made_ < outs.size() && outs[made_].is_there_at_first()) leaving_bytes_ += outs[made_++].bytes;
  start_links();
  std::uint32_t next_use = 0;
  std::size_t told = 0;
  for (std::uint32_t p = 0; p < ops.size(); ++p) {
    auto& op = ops[p];
    double const free_from = now_;
    while (next_use < ins.size() && ins[next_use].consumer == p) ++next_use;
    if (!wait_until([&] { return next_in_ >= next_use; })) return false;
    double const bytes = op.bytes + (p < forward_ops ? 0 : bytes_of_early_fetches(next_use));
    if (!wait_until([&] { return bytes + leaving_bytes_ <= limit_; })) return false;
    if (p < forward_ops || told < outs.size()) {
      told = freed_;
      op.outs_before = static_cast<std::uint32_t>(freed_);
    }
    op.waited_s = now_ - free_from;
    compute(op);
    while (made_ < outs.size() && outs[made_].made_by <= p) leaving_bytes_ += outs[made_++].bytes;
    end_op();
  }
  return true;
}

/// Lets time pass until that is so; false if it never will be.
template <typename Done>
bool chain_timeline::wait_until(Done done) {
  while (!done()) {
    if (next_event_s() == never) return false;
    pass_event();
  }
  return true;
}

void chain_timeline::compute(placed_op& op) {
  op.start_s = now_;
  if (contended_) settle_pace();
  compute_.left_s = op.seconds;
  compute_.end_s = now_ + op.seconds;
  if (contended_) predict_ends();
  while (next_event_s() <= compute_.end_s) pass_event();
  op.end_s = now_ = compute_.end_s;
}

/// What it has made can go out, what it has read may be free, and fetches may have waited for it.
void chain_timeline::end_op() {
  if (contended_) settle_pace();
  compute_.end_s = never;
  ++ops_done_;
  note_freed();
  start_links();
  if (contended_) predict_ends();
}

/// A transfer is over.
void chain_timeline::pass_event() {
  bool const out = out_.end_s <= in_.end_s;
  now_ = next_event_s();
  if (contended_) settle_pace();
  if (out) {
    out_.end_s = never;
    (*outs_)[next_out_++].end_s = now_;
    note_freed();
  } else {
    in_.end_s = never;
    (*ins_)[next_in_++].end_s = now_;
  }
  start_links();
  if (contended_) predict_ends();
}

/// What has gone out, and nothing reads any more.
void chain_timeline::note_freed() {
  auto& outs = *outs_;
  while (freed_ < next_out_ && outs[freed_].used_until < ops_done_) {
    outs[freed_].free_s = now_;
    leaving_bytes_ -= outs[freed_++].bytes;
  }
}

void chain_timeline::start_links() {
  if (!out_.busy() && next_out_ < made_) start_out();
  if (!in_.busy() && next_in_ < ins_->size()) start_in();
}

void chain_timeline::start_out() {
  auto& next = (*outs_)[next_out_];
  next.start_s = now_;
  out_.left_s = chain_->d2h_latency_s + next.bytes / chain_->d2h_bytes_per_s;
  out_.end_s = end_of(out_.left_s);
}

void chain_timeline::start_in() {
  auto& next = (*ins_)[next_in_];
  if (ops_done_ < next.position || freed_ <= next.out || !has_room(next)) return;
  needed_beside_next_ = never;
  next.start_s = now_;
  in_.left_s = chain_->h2d_latency_s + next.bytes / chain_->h2d_bytes_per_s;
  in_.end_s = end_of(in_.left_s);
}

/// What is still going out leaves enough of the budget for it, and for what runs until it is needed.
bool chain_timeline::has_room(transfer_in& next) {
  if (needed_beside_next_ == never) {
    next.outs_before = next.out + 1;
    if (freed_ == outs_->size()) return true;
    auto const& load = *load_;
    std::uint32_t const end = std::max(next.consumer, next.position + 1);
    needed_beside_next_ = *std::max_element(load.begin() + next.position, load.begin() + end);
  }
  if (freed_ < outs_->size() && needed_beside_next_ + leaving_bytes_ > limit_) return false;
  next.outs_before = std::max(next.outs_before, static_cast<std::uint32_t>(freed_));
  return true;
}

/// Bytes of fetches that have begun and are not used by the operation at hand.
double chain_timeline::bytes_of_early_fetches(std::uint32_t first_use) const {
  double bytes = 0;
  for (std::size_t k = first_use; k < next_in_ + (in_.busy() ? 1 : 0); ++k) bytes += (*ins_)[k].bytes;
  return bytes;
}

/// What is under way has gone on until now at the pace that what is beside it permits.
void chain_timeline::settle_pace() {
  auto const& beside = chain_->beside;
  double const link_s = moving_s(paced_since_, now_);
  if (compute_.busy()) compute_.left_s -= (now_ - paced_since_) * beside.of_compute(out_.busy(), in_.busy());
  if (out_.busy()) out_.left_s -= link_s * (in_.busy() ? beside.out_beside_back : 1);
  if (in_.busy()) in_.left_s -= link_s * (out_.busy() ? beside.back_beside_out : 1);
  paced_since_ = now_;
}

/// If what is under way from now on stays what it is.
void chain_timeline::predict_ends() {
  auto const& beside = chain_->beside;
  if (compute_.busy()) {
    compute_.end_s = now_ + std::max(0.0, compute_.left_s) / beside.of_compute(out_.busy(), in_.busy());
  }
  if (out_.busy()) out_.end_s = end_of(std::max(0.0, out_.left_s) / (in_.busy() ? beside.out_beside_back : 1));
  if (in_.busy()) in_.end_s = end_of(std::max(0.0, in_.left_s) / (out_.busy() ? beside.back_beside_out : 1));
}

/// When a transfer ends that still takes so long while the link moves.
double chain_timeline::end_of(double seconds) const {
  double start = now_;
  for (auto const& stall : chain_->stalls) {
    if (stall.until_s <= start) continue;
    if (start + seconds <= stall.from_s) break;
    seconds -= std::max(0.0, stall.from_s - start);
    start = stall.until_s;
  }
  return start + seconds;
}

/// Of a stretch of time, that in which the link moves.
double chain_timeline::moving_s(double from, double until) const {
  double moving = until - from;
  for (auto const& stall : chain_->stalls) {
    moving -= std::max(0.0, std::min(until, stall.until_s) - std::max(from, stall.from_s));
  }
  return moving;
}

}  // namespace ferry::planning
