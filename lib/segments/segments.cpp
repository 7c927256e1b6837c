// The public face of segments.
#include "ferry/segments.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "segments/segments_core.hpp"

namespace ferry {

void* segment_call::address_of(tensor_id of) const {
  if (of == segment_input && in != nullptr) return const_cast<void*>(in);
  if (of == segment_output && out != nullptr) return out;
  if (of < tensors.size() && tensors[of] != nullptr) return tensors[of];
  throw invalid_argument(fmt::format(
      "segment {}: tensor {} is not used here; declare it, and what each operation and backward read", index,
      of == segment_input    ? "segment_input"
      : of == segment_output ? "segment_output"
                             : std::to_string(of)));
}

segments::segments(std::uint32_t count, std::size_t output_bytes, tensor_place outputs)
    : segments(config::from_env(), count, output_bytes, outputs) {}
segments::segments(config settings, std::uint32_t count, std::size_t output_bytes, tensor_place outputs)
    : core_(std::make_unique<segments_core>(std::move(settings), nullptr, stream_ref(), count, output_bytes, outputs)) {
}
segments::segments(session& in, stream_ref stream, std::uint32_t count, std::size_t output_bytes, tensor_place outputs)
    : core_(std::make_unique<segments_core>(std::nullopt, &in, stream, count, output_bytes, outputs)) {
  if (!stream) throw invalid_argument("segments: the stream is null; pass the stream that functions enqueue on");
}
segments::~segments() = default;

void segments::then(std::uint32_t count) {
  segments_core::turn const mine(*core_);
  core_->add_kind(count);
}
tensor_id segments::tensor(label const& name, std::size_t bytes, tensor_place place) {
  segments_core::turn const mine(*core_);
  return core_->add_tensor(name, bytes, place);
}
void segments::forward_by(segment_function function) {
  segments_core::turn const mine(*core_);
  core_->set_forward(std::move(function));
}
void segments::operation(label const& name, std::vector<tensor_id> reads, std::vector<tensor_id> writes,
                         segment_function function) {
  segments_core::turn const mine(*core_);
  core_->add_operation(name, std::move(reads), writes, std::move(function));
}
void segments::backward_by(segment_function function) {
  segments_core::turn const mine(*core_);
  core_->set_backward(std::nullopt, std::move(function));
}
void segments::backward_by(std::vector<tensor_id> reads, segment_function function) {
  segments_core::turn const mine(*core_);
  core_->set_backward(std::move(reads), std::move(function));
}
void segments::resize(tensor_id of, std::size_t bytes) {
  segments_core::turn const mine(*core_);
  core_->resize(of, bytes);
}
void segments::resize_output(std::size_t bytes) {
  segments_core::turn const mine(*core_);
  core_->resize_output(bytes);
}
void segments::begin_step(step_kind kind) {
  segments_core::turn const mine(*core_);
  core_->begin(kind);
}
void* segments::input() {
  segments_core::turn const mine(*core_);
  return core_->input();
}
void* segments::forward() {
  segments_core::turn const mine(*core_);
  do core_->forward(core_->next_forward());
  while (core_->next_forward() < core_->count());
  return core_->output();
}
void segments::forward(std::uint32_t segment) {
  segments_core::turn const mine(*core_);
  core_->forward(segment);
}
void* segments::output() {
  segments_core::turn const mine(*core_);
  return core_->output();
}
void segments::backward() {
  segments_core::turn const mine(*core_);
  do {
    std::uint32_t const left = core_->backward_left();
    core_->backward((left > 0 ? left : core_->count()) - 1);
  } while (core_->backward_left() > 0);
}
void segments::backward(std::uint32_t segment) {
  segments_core::turn const mine(*core_);
  core_->backward(segment);
}
void segments::end_step() {
  segments_core::turn const mine(*core_);
  core_->end();
}
void segments::abandon_step() noexcept { core_->abandon_if_nobody_else_is_at_it(); }
std::uint32_t segments::count() const noexcept { return core_->count(); }
std::size_t segments::keep_all_bytes() const { return core_->keep_all_bytes(); }
session& segments::in_session() { return core_->in_session(); }

}  // namespace ferry
