// What a trainer declares of its segments, before the first step.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "segments/segments_core.hpp"

namespace ferry {

void segments_core::add_kind(std::uint32_t count) {
  if (declared_) throw error("segments: a step has begun; declare everything before the first one");
  if (count == 0) throw invalid_argument("segments: zero segments");
  std::uint32_t const first = kinds_.empty() ? 0 : this->count();
  kinds_.push_back({first, count, {}, {}, {}, {}, true});
}

segment_kind& segments_core::declaring() {
  if (declared_) throw error("segments: a step has begun; declare everything before the first one");
  return kinds_.back();
}

tensor_id segments_core::add_tensor(label const& name, std::size_t bytes, tensor_place place) {
  auto& kind = declaring();
  if (bytes == 0) throw invalid_argument(fmt::format("segments: tensor '{}' has zero bytes", name.view()));
  if (std::ranges::any_of(kind.tensors, [&](auto const& known) { return known.name == name; })) {
    throw invalid_argument(fmt::format("segments: two tensors are called '{}'; give one another name", name.view()));
  }
  if (place.first != nullptr && place.stride_bytes != 0 && place.stride_bytes < bytes) {
    throw invalid_argument(fmt::format("segments: tensor '{}' has {} bytes, but the next segment's begins after {}",
                                       name.view(), bytes, place.stride_bytes));
  }
  if (!kind.operations.empty()) {
    throw error(
        fmt::format("segments: tensor '{}' is declared after what writes it; declare tensors first", name.view()));
  }
  kind.tensors.push_back({name, bytes, place, std::nullopt, 0});
  return kind.tensors.size() - 1;
}

void segments_core::require_tensor(segment_kind const& kind, tensor_id of, char const* what) const {
  if (of == segment_input || of == segment_output || of < kind.tensors.size()) return;
  throw invalid_argument(fmt::format("segments: {} tensor {}, but {} are declared", what, of, kind.tensors.size()));
}

void segments_core::add_operation(label const& name, std::vector<tensor_id> reads, std::vector<tensor_id> const& writes,
                                  segment_function run) {
  auto& kind = declaring();
  if (!run) throw invalid_argument(fmt::format("segments: operation '{}' has no function", name.view()));
  if (name.view() == "in" || std::ranges::any_of(kind.operations, [&](auto const& op) { return op.name == name; })) {
    throw invalid_argument(
        fmt::format("segments: another operation is called '{}'; give it another name", name.view()));
  }
  declared_operation op{name, std::move(reads), {}, false, std::move(run), 0, false};
  for (auto const id : op.reads) {
    require_tensor(kind, id, "an operation reads");
    bool const written = id == segment_input || (id < kind.tensors.size() && kind.tensors[id].written_by);
    if (!written) {
      throw invalid_argument(
          fmt::format("segments: operation '{}' reads what no operation before it has written", name.view()));
    }
  }
  for (auto const id : writes) {
    require_tensor(kind, id, "an operation writes");
    bool const twice =
        id == segment_output
            ? op.writes_output || std::ranges::any_of(kind.operations, &declared_operation::writes_output)
            : id == segment_input || kind.tensors[id].written_by.has_value();
    if (twice) {
      throw invalid_argument(fmt::format("segments: operation '{}' writes {}, which {}", name.view(),
                                         id == segment_output  ? "the output"
                                         : id == segment_input ? "the input"
                                                               : fmt::format("'{}'", kind.tensors[id].name.view()),
                                         id == segment_input ? "is the output of the segment before"
                                                             : "is written already; let one operation write it"));
    }
    if (id == segment_output) {
      op.writes_output = true;
    } else {
      kind.tensors[id].written_by = kind.operations.size();
      op.writes.push_back(id);
    }
  }
  if (op.writes.empty() && !op.writes_output) {
    throw invalid_argument(fmt::format("segments: operation '{}' writes nothing", name.view()));
  }
  bool const own = !op.writes.empty() && kind.tensors[op.writes.front()].place.first != nullptr;
  for (auto const id : op.writes) {
    if ((kind.tensors[id].place.first != nullptr) != own) {
      throw invalid_argument(
          fmt::format("segments: operation '{}' writes tensors of Ferry's memory and of your own; "
                      "give all of them a place, or none",
                      name.view()));
    }
  }
  op.in_place = own;
  kind.operations.push_back(std::move(op));
}

void segments_core::set_forward(segment_function run) {
  auto& kind = declaring();
  if (!kind.operations.empty()) throw error("segments: forward_by stands for all operations; use one or the other");
  std::vector<tensor_id> writes(kind.tensors.size());
  std::iota(writes.begin(), writes.end(), tensor_id{0});
  writes.push_back(segment_output);
  add_operation("saved", {segment_input}, writes, std::move(run));
}

void segments_core::set_backward(std::optional<std::vector<tensor_id>> reads, segment_function run) {
  auto& kind = declaring();
  if (!run) throw invalid_argument("segments: backward has no function");
  if (kind.backward) throw error("segments: backward is declared already");
  kind.backward_reads_all = !reads;
  if (reads) {
    for (auto const id : *reads) require_tensor(kind, id, "backward reads");
    kind.backward_reads = std::move(*reads);
  }
  kind.backward = std::move(run);
}

void segments_core::require_complete() const {
  for (auto const& kind : kinds_) {
    auto const which =
        kinds_.size() == 1 ? std::string() : fmt::format(" of the kind that begins with segment {}", kind.first);
    if (!kind.backward) throw error(fmt::format("segments: there is no backward{}; call backward_by", which));
    if (!std::ranges::any_of(kind.operations, &declared_operation::writes_output)) {
      throw error(
          fmt::format("segments: nothing writes the output{}; call forward_by, or declare the operation", which));
    }
    for (auto const& tensor : kind.tensors) {
      if (!tensor.written_by) {
        throw error(fmt::format("segments: no operation writes '{}'{}", tensor.name.view(), which));
      }
    }
  }
}

/// Where each tensor lies in its operation's item.
void segments_core::lay_out() {
  for (auto& kind : kinds_) {
    for (auto& op : kind.operations) {
      op.bytes = 0;
      for (auto const id : op.writes) {
        auto& tensor = kind.tensors[id];
        tensor.offset = op.bytes;
        op.bytes += op.in_place ? tensor.bytes : rounded(tensor.bytes);
      }
    }
  }
}

void segments_core::resize(tensor_id of, std::size_t bytes) {
  require(phase_ == phase::idle, "resize", "is for between steps; end the one under way first");
  auto& kind = kinds_.back();
  if (kinds_.size() > 1) throw error("segments: resize is for segments of one kind");
  if (of >= kind.tensors.size() || bytes == 0) {
    throw invalid_argument(
        fmt::format("segments: resize of tensor {} to {} bytes; {} are declared", of, bytes, kind.tensors.size()));
  }
  auto& tensor = kind.tensors[of];
  if (tensor.place.first != nullptr) {
    if (tensor.place.stride_bytes == 0) tensor.place.stride_bytes = tensor.bytes;
    if (bytes > tensor.place.stride_bytes) {
      throw invalid_argument(fmt::format("segments: resize of '{}' to {} bytes, but the next segment's begins after {}",
                                         tensor.name.view(), bytes, tensor.place.stride_bytes));
    }
  }
  std::size_t const before = std::exchange(tensor.bytes, bytes);
  if (has_room_for_all()) return lay_out();
  tensor.bytes = before;
  throw_too_large();
}

void segments_core::throw_too_large() const {
  throw invalid_argument(fmt::format(
      "segments: keeping everything would take more than the {} that it took in the first step; begin with the largest "
      "batch, or make a session of your own",
      format_bytes(made_for_bytes_)));
}

void segments_core::resize_output(std::size_t bytes) {
  require(phase_ == phase::idle, "resize_output", "is for between steps; end the one under way first");
  if (bytes == 0) throw invalid_argument("segments: an output of zero bytes");
  if (outputs_.first != nullptr) {
    if (outputs_.stride_bytes == 0) outputs_.stride_bytes = x_bytes_;
    if (bytes > outputs_.stride_bytes) {
      throw invalid_argument(fmt::format("segments: an output of {} bytes, but the next one begins after {}", bytes,
                                         outputs_.stride_bytes));
    }
  }
  std::size_t const before = std::exchange(x_bytes_, bytes);
  if (has_room_for_all()) return;
  x_bytes_ = before;
  throw_too_large();
}

}  // namespace ferry
