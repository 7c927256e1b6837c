#include "torch/frame.hpp"

#include <c10/core/GradMode.h>
#include <algorithm>
#include <string>
#include <utility>

#include "ferry/error.hpp"

namespace ferry::torch::detail {

namespace {

/// Memory of the session's, lent for a recipe's run.
at::Tensor borrow(form const& shape, void* address, std::size_t bytes, c10::Device where) {
  return shape.over(c10::Storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(address, where), nullptr, false));
}

/// A leaf for a graph of its own, as far as the first one's gradients went.
at::Tensor detached(at::Tensor const& tensor, bool requires_grad) {
  c10::AutoGradMode const no_grad(false);
  return tensor.detach().set_requires_grad(requires_grad);
}

/// Puts back what a function changes as it runs. Through another version counter: the first run's graph does not mind.
class unchanged {
 public:
  explicit unchanged(tensor_list const& buffers) : buffers_(buffers) {
    c10::AutoGradMode const no_grad(false);
    for (auto const& buffer : buffers_) before_.push_back(buffer.detach().clone());
  }
  unchanged(unchanged const&) = delete;
  unchanged& operator=(unchanged const&) = delete;
  ~unchanged() {
    c10::AutoGradMode const no_grad(false);
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].variable_data().copy_(before_[i]);
  }

 private:
  tensor_list const& buffers_;
  tensor_list before_;
};

}  // namespace

/// In force during the first run.
class frame::recording final : public context {
 public:
  explicit recording(frame& of) : frame_(of) {}

  saved pack(at::Tensor const& tensor) override {
    std::size_t const index = frame_.slots_.size();
    frame_.slots_.push_back({{}, at::DimVector(tensor.sizes()), tensor.scalar_type()});
    auto* const state = frame_.state_.get();
    if (state != nullptr) state->seen.fetch_add(1, std::memory_order_relaxed);
    auto const why = state != nullptr       ? state->why_kept_in_checkpoint(tensor)
                     : is_parameter(tensor) ? std::optional(left_alone::parameter)
                                            : std::nullopt;
    if (why) {
      if (state != nullptr) state->count(*why);
      return saved::kept(tensor);
    }
    if (state != nullptr) {
      if (auto handle = state->find(tensor); handle.get()) return saved::stored(std::move(handle), tensor);
      state->rebuilt_later.fetch_add(1, std::memory_order_relaxed);
    }
    frame_.slots_[index].dropped = true;
    return saved::dropped(frame_.shared_from_this(), index, tensor);
  }
  std::shared_ptr<state> owner() const override { return frame_.state_; }

 private:
  frame& frame_;
};

/// In force while the function is run again for what was dropped.
class frame::catching final : public context {
 public:
  catching(frame& of, std::size_t missing) : frame_(of), missing_(missing) {}

  saved pack(at::Tensor const& tensor) override {
    frame_.catch_value(next_++, tensor, missing_);
    return {};
  }
  std::shared_ptr<state> owner() const override { return frame_.state_; }
  [[nodiscard]] std::size_t missing() const noexcept { return missing_; }

 private:
  frame& frame_;
  std::size_t next_ = 0;
  std::size_t missing_;
};

frame_share::~frame_share() {
  if (frame_ == nullptr || frame_->state_ == nullptr) return;
  auto* const owner = frame_->state_.get();
  if (owner->locked_by_this_thread()) owner->destroy_later(std::move(frame_));
}

frame::frame(tensor_function compute, checkpoint_options options, tensor_list const& inputs, std::shared_ptr<state> in)
    : compute_(std::move(compute)),
      options_(std::move(options)),
      state_(std::move(in)),
      ambient_(inputs, options_.keep_random_state) {
  inputs_.reserve(inputs.size());
}

void frame::add_input(saved how, at::Tensor const& tensor) {
  bool const defined = tensor.defined();
  inputs_.push_back({std::move(how), defined, defined && tensor.requires_grad()});
}

tensor_list frame::run(tensor_list const& inputs) {
  recording const in_force(*this);
  return compute_(inputs);
}

at::Tensor frame::value(std::size_t index) {
  std::scoped_lock const lock(mutex_);
  if (!slots_[index].value.defined()) recompute();
  return std::exchange(slots_[index].value, {});
}

void frame::forget(std::size_t index) noexcept {
  at::Tensor unused;
  std::scoped_lock const lock(mutex_);
  slots_[index].wanted = false;
  unused = std::move(slots_[index].value);
}

void frame::recompute() {
  tensor_list inputs;
  for (auto const& in : inputs_) {
    inputs.push_back(in.defined ? detached(in.how.unpack(), in.requires_grad) : at::Tensor());
  }
  if (state_) state_->recomputations.fetch_add(1, std::memory_order_relaxed);
  c10::AutoGradMode const with_grad(true);
  ambient_scope const as_before(ambient_);
  unchanged const buffers(options_.buffers);
  run_again(inputs);
}

void frame::run_again(tensor_list const& inputs) {
  auto const wanted = [](slot const& s) { return s.dropped && s.wanted; };
  for (auto& s : slots_) s.value.reset();
  catching in_force(*this, static_cast<std::size_t>(std::ranges::count_if(slots_, wanted)));
  try {
    static_cast<void>(compute_(inputs));
  } catch (stop_here) {
    return;
  }
  if (in_force.missing() > 0) {
    throw recipe_error("a checkpointed function saved " + std::to_string(in_force.missing()) +
                       " tensors less for backward when it was run again; it must do the same for the same inputs");
  }
}

void frame::catch_value(std::size_t index, at::Tensor const& tensor, std::size_t& missing) {
  bool const same = index < slots_.size() && tensor.sizes() == at::IntArrayRef(slots_[index].sizes) &&
                    tensor.scalar_type() == slots_[index].type;
  if (!same) {
    throw recipe_error("a checkpointed function saved another tensor for backward when it was run again (number " +
                       std::to_string(index) + "); it must do the same for the same inputs");
  }
  auto& s = slots_[index];
  if (!s.dropped || !s.wanted || s.value.defined()) return;
  s.value = tensor.tensor_data();
  if (--missing == 0 && options_.stop_early) throw stop_here{};
}

recipe frame::recipe_of(std::shared_ptr<frame> const& from, std::size_t output, at::Tensor const& tensor) {
  // A recipe writes the whole item, which is the whole storage.
  bool const whole = tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense() &&
                     tensor.storage_offset() == 0 &&
                     static_cast<std::size_t>(tensor.numel()) * tensor.itemsize() == tensor.storage().nbytes();
  if (!whole || from->state_ == nullptr) return {};
  std::vector<item_key> keys;
  for (auto const& in : from->inputs_) {
    if (auto const* const read = in.how.stored_item()) {
      if (read->step != from->state_->step()) return {};
      keys.push_back(read->key);
    } else if (in.defined && !in.how.is_kept()) {
      return {};
    }
  }
  recipe how;
  how.inputs = item_list(keys);
  how.enqueue = [share = frame_share(from), output, shape = std::make_unique<form>(tensor)](
                    recipe_context const& into) { share->rebuild(into, output, *shape); };
  return how;
}

void frame::rebuild(recipe_context const& into, std::size_t output, form const& shape) const {
  auto& streams = state_->streams();
  auto const on_stream = streams.run_on(into.stream);
  auto const where = streams.torch_device();
  tensor_list inputs;
  std::size_t next = 0;
  for (auto const& in : inputs_) {
    if (!in.defined) {
      inputs.emplace_back();
      continue;
    }
    in.how.check_version();
    auto const* const read = in.how.stored_item();
    auto const tensor = read == nullptr
                            ? in.how.unpack()
                            : borrow(in.how.shape(), const_cast<void*>(into.inputs[next]), read->bytes, where);
    if (read != nullptr) ++next;
    inputs.push_back(detached(tensor, in.requires_grad));
  }
  // With gradients, as the first time: without, LibTorch may take other kernels. Its graph remembers nothing.
  discard_context const in_force;
  tensor_list made;
  {
    c10::AutoGradMode const with_grad(true);
    ambient_scope const as_before(ambient_);
    unchanged const buffers(options_.buffers);
    made = compute_(inputs);
  }
  if (output >= made.size() || made[output].sizes() != at::IntArrayRef(shape.sizes)) {
    throw recipe_error("a checkpointed function gave other outputs when it was run again");
  }
  c10::AutoGradMode const no_grad(false);
  borrow(shape, into.output, into.bytes, where).copy_(made[output]);
}

}  // namespace ferry::torch::detail
