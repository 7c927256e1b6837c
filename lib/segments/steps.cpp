// A step of segments: forward saves, backward restores, and what is dropped is rebuilt by running forward again.
#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>

#include "segments/segments_core.hpp"

namespace ferry {

void segments_core::begin(step_kind kind) {
  require(phase_ == phase::idle, "begin_step", "in a step; end that one first");
  if (!declared_) {
    require_complete();
    lay_out();
    declared_ = true;
  }
  if (session_ == nullptr) make_session();
  session_->begin_step(kind);
  kind_ = kind;
  micro_batch_ = 0;
  forward_done_ = backward_left_ = 0;
  phase_ = phase::begun;
}

block segments_core::allocate_x(std::uint32_t segment) {
  if (segment == 0 || outputs_.first == nullptr) return session_->allocate(x_bytes_, stream_, "in");
  device_view const at{place_in(outputs_, x_bytes_, segment - 1), x_bytes_};
  return session_->allocate_at({&at, 1}, stream_, "in");
}

block segments_core::allocate_for(segment_kind const& kind, declared_operation const& op, std::uint32_t segment) {
  if (op.writes.empty()) return {};
  if (!op.in_place) return session_->allocate(op.bytes, stream_, op.name);
  boost::container::small_vector<device_view, 32> pieces;
  for (auto const id : op.writes) {
    auto const& tensor = kind.tensors[id];
    pieces.push_back({place_in(tensor.place, tensor.bytes, segment - kind.first), tensor.bytes});
  }
  return session_->allocate_at({pieces.data(), pieces.size()}, stream_, op.name);
}

void segments_core::set_tensors(std::vector<void*>& at, segment_kind const& kind, declared_operation const& op,
                                std::uint32_t segment, void* packed) const {
  for (auto const id : op.writes) {
    auto const& tensor = kind.tensors[id];
    at[id] = op.in_place ? place_in(tensor.place, tensor.bytes, segment - kind.first)
                         : static_cast<std::byte*>(packed) + tensor.offset;
  }
}

void* segments_core::input() {
  require(phase_ != phase::idle, "input", "without a step; begin one first");
  bool const next = phase_ == phase::backward && backward_left_ == 0;
  require(phase_ == phase::begun || phase_ == phase::has_input || next, "input",
          "in the midst of forward or backward; it comes before forward");
  if (phase_ == phase::has_input) return x_.data();
  if (next) ++micro_batch_;
  forward_done_ = 0;
  x_ = {};
  or_abandon([&] { x_ = allocate_x(0); });
  wait_if_at_once(stream_);
  phase_ = phase::has_input;
  return x_.data();
}

/// The keys of what an operation reads: each item once.
item_list segments_core::inputs_of(segment_kind const& kind, declared_operation const& op,
                                   std::uint32_t segment) const {
  boost::container::small_vector<item_key, 8> keys;
  for (auto const id : op.reads) {
    auto const key =
        id == segment_input ? x_key(segment) : key_of(segment, kind.operations[*kind.tensors[id].written_by]);
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return item_list(std::span<item_key const>(keys.data(), keys.size()));
}

/// The operation once more: what it reads is where the recipe has it.
void segments_core::run_again(segment_kind const& kind, declared_operation const& op, std::uint32_t segment,
                              recipe_context const& to, void* packed, void* out) {
  again_.assign(kind.tensors.size(), nullptr);
  void const* in = nullptr;
  boost::container::small_vector<item_key, 8> seen;
  for (auto const id : op.reads) {
    auto const* const source = id == segment_input ? nullptr : &kind.operations[*kind.tensors[id].written_by];
    auto const key = source == nullptr ? x_key(segment) : key_of(segment, *source);
    auto found = std::ranges::find(seen, key);
    if (found == seen.end()) found = seen.insert(seen.end(), key);
    void* const item = const_cast<void*>(to.inputs[static_cast<std::size_t>(found - seen.begin())]);
    if (source == nullptr) {
      in = item;
    } else {
      auto const& tensor = kind.tensors[id];
      again_[id] = source->in_place ? place_in(tensor.place, tensor.bytes, segment - kind.first)
                                    : static_cast<std::byte*>(item) + tensor.offset;
    }
  }
  set_tensors(again_, kind, op, segment, packed);
  wait_if_at_once(to.stream);
  op.run({segment, to.stream, in, out, again_});
}

recipe segments_core::tensors_recipe(segment_kind const& kind, declared_operation const& op, std::uint32_t segment) {
  recipe how;
  how.inputs = inputs_of(kind, op, segment);
  how.scratch_bytes = op.writes_output ? x_bytes_ : 0;
  how.enqueue = [this, &kind, &op, segment](recipe_context const& to) {
    run_again(kind, op, segment, to, to.output, to.scratch);
  };
  return how;
}

/// The output can be rebuilt where the operation's other results need not be the trainer's own arrays, which may hold
/// something else by then.
recipe segments_core::output_recipe(segment_kind const& kind, declared_operation const& op, std::uint32_t segment) {
  recipe how;
  if (op.in_place) return how;
  how.inputs = inputs_of(kind, op, segment);
  how.scratch_bytes = op.bytes;
  how.enqueue = [this, &kind, &op, segment](recipe_context const& to) {
    run_again(kind, op, segment, to, to.scratch, to.output);
  };
  return how;
}

void segments_core::forward(std::uint32_t segment) {
  bool const right =
      (phase_ == phase::has_input || phase_ == phase::forward) && segment == forward_done_ && segment < count();
  require(right, fmt::format("forward of segment {}", segment).c_str(),
          phase_ == phase::idle    ? "without a step; begin one first"
          : phase_ == phase::begun ? "without an input; call input() and write it first"
                                   : "out of order; every segment runs once, from the first to the last");
  or_abandon([&] { run_forward(segment); });
  phase_ = phase::forward;
  ++forward_done_;
  if (forward_done_ == count()) backward_left_ = count();
}

void segments_core::run_forward(std::uint32_t segment) {
  auto const& kind = kind_of(segment);
  bool const training = kind_ == step_kind::train;
  session::segment_scope const here(*session_, pass::forward, segment, stream_, micro_batch_);
  lease x;
  void const* in = x_.data();
  if (training) {
    auto const* const before = segment == 0 ? nullptr : &kind_of(segment - 1);
    recipe how;
    if (before != nullptr) {
      auto const& op = *std::ranges::find_if(before->operations, &declared_operation::writes_output);
      how = output_recipe(*before, op, segment - 1);
    }
    x = session_->save(x_key(segment), std::move(x_), stream_, std::move(how));
  }
  at_.assign(kind.tensors.size(), nullptr);
  block out = allocate_x(segment + 1);
  for (auto const& op : kind.operations) {
    written_.push_back(allocate_for(kind, op, segment));
    set_tensors(at_, kind, op, segment, written_.back().data());
    // Nothing but what it will be given when it runs again.
    again_.assign(kind.tensors.size(), nullptr);
    for (auto const id : op.writes) again_[id] = at_[id];
    void const* read = nullptr;
    for (auto const id : op.reads) {
      if (id == segment_input) {
        read = in;
      } else {
        again_[id] = at_[id];
      }
    }
    wait_if_at_once(stream_);
    op.run({segment, stream_, read, op.writes_output ? out.data() : nullptr, again_});
    if (!training || op.writes.empty()) continue;
    held_.push_back(
        session_->save(key_of(segment, op), std::move(written_.back()), stream_, tensors_recipe(kind, op, segment)));
  }
  held_.clear();
  written_.clear();
  x_ = std::move(out);
}

void* segments_core::output() {
  require(phase_ == phase::forward && forward_done_ == count(), "output", "before forward has run every segment");
  wait_if_at_once(stream_);
  return x_.data();
}

void segments_core::backward(std::uint32_t segment) {
  require(kind_ == step_kind::train || phase_ == phase::idle, "backward", "in an evaluation; begin a training step");
  bool const right =
      (phase_ == phase::forward || phase_ == phase::backward) && backward_left_ > 0 && segment + 1 == backward_left_;
  require(right, fmt::format("backward of segment {}", segment).c_str(),
          phase_ == phase::idle ? "without a step; begin one first"
          : backward_left_ == 0 ? "before forward has run every segment, or a second time"
                                : "out of order; every segment runs once, from the last to the first");
  phase_ = phase::backward;
  or_abandon([&] { run_backward(segment); });
  --backward_left_;
}

/// What is thrown meanwhile ends the step.
template <typename Call>
void segments_core::or_abandon(Call call) {
  try {
    call();
  } catch (out_of_device_memory const& problem) {
    std::uint32_t const micro_batches = micro_batch_ + 1;
    abandon();
    if (auto const told = advised(problem, micro_batches)) throw *told;
    throw;
  } catch (...) {
    abandon();
    throw;
  }
}

void segments_core::run_backward(std::uint32_t segment) {
  auto const& kind = kind_of(segment);
  bool const last = segment + 1 == count();
  bool const reads_output = backward_reads(kind, segment_output);
  if (last && !reads_output) x_ = {};
  session::segment_scope const here(*session_, pass::backward, segment, stream_, micro_batch_);
  at_.assign(kind.tensors.size(), nullptr);
  for (auto const& op : kind.operations) {
    if (!std::ranges::any_of(op.writes, [&](tensor_id id) { return backward_reads(kind, id); })) continue;
    held_.push_back(session_->restore(key_of(segment, op), stream_));
    set_tensors(at_, kind, op, segment, held_.back().data());
  }
  for (tensor_id id = 0; id < at_.size(); ++id) {
    if (!backward_reads(kind, id)) at_[id] = nullptr;
  }
  void* out = nullptr;
  if (reads_output) {
    if (!last) held_.push_back(session_->restore(x_key(segment + 1), stream_));
    out = last ? x_.data() : held_.back().data();
  }
  void const* in = nullptr;
  if (backward_reads(kind, segment_input)) {
    held_.push_back(session_->restore(x_key(segment), stream_));
    in = held_.back().data();
  }
  wait_if_at_once(stream_);
  kind.backward({segment, stream_, in, out, at_});
  held_.clear();
  if (last) x_ = {};
  for (auto const& op : kind.operations) {
    if (!op.writes.empty()) session_->release(key_of(segment, op));
  }
  // The input may be the output that the segment before reads, and is what its own segment is rebuilt from until now.
  bool const read_before = segment > 0 && backward_reads(kind_of(segment - 1), segment_output);
  if (!last && reads_output) session_->release(x_key(segment + 1));
  if (!read_before) session_->release(x_key(segment));
}

void segments_core::end() {
  require(phase_ != phase::idle, "end_step", "without a step");
  bool const whole = kind_ == step_kind::evaluate || phase_ == phase::begun || backward_left_ == 0;
  require(whole && !(phase_ == phase::forward && forward_done_ < count()), "end_step",
          "in the midst of forward or backward; go on, or abandon the step");
  x_ = {};
  try {
    session_->end_step();
  } catch (...) {
    abandon();
    throw;
  }
  phase_ = phase::idle;
}

void segments_core::abandon() noexcept {
  held_.clear();
  written_.clear();
  x_ = {};
  if (phase_ == phase::idle) return;
  phase_ = phase::idle;
  session_->abandon_step();
}

}  // namespace ferry
