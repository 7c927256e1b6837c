// Segments: the short way into a trainer that is already there. The trainer declares what one of its segments saves and
// gives the two functions that it has anyway, forward and backward of one segment. Ferry does the rest: memory, keys,
// saving, restoring, running forward again where that is better, and evaluation.
//
//   ferry::segments layers(L, x_bytes);                   // L blocks; each has an input and an output of x_bytes
//   auto const acts = layers.tensor("acts", acts_bytes);  // what a block's forward leaves for its backward
//   layers.forward_by([&](ferry::segment_call const& s) { block_forward(s.at<float>(acts), s.in, s.out, w[s.index]);
//   }); layers.backward_by([&](ferry::segment_call const& s) { block_backward(dx, s.at<float>(acts), s.in, w[s.index]);
//   });
//
//   ferry::segments::step_scope step(layers);  // or (layers, ferry::step_kind::evaluate)
//   embedding(layers.input(), tokens);
//   float const loss = head(layers.forward(), targets);
//   layers.backward();
//   step.end();
//
// The budget and everything else comes from FERRY_* variables; shares of FERRY_BUDGET are of what keeping everything
// takes; without one, and without FERRY_POLICY, everything is kept. On the host device `auto` ferries nothing unless
// FERRY_HOST_BUDGET is set: it is all the same memory there. Memory is Ferry's, or the trainer's own arrays:
// pointers stay what they were, and pages go back to the system while their tensors are elsewhere. Functions run at
// once, on the caller's thread, or enqueue work on a stream. A function may be run again for a segment, with the same
// input: it must give the same bits, and write its output to `out`, which is another place then. FERRY_VERIFY=recipes
// finds one that does not, and names the segment. Functions must not call these segments or their session.
//
// Threads: one thread at a time; a call that meets another one throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ferry/export.h"
#include "ferry/session.hpp"

namespace ferry {

/// Names a tensor of a segment: one that was declared, or the input or output.
using tensor_id = std::size_t;
inline constexpr tensor_id segment_input = ~tensor_id{0};
inline constexpr tensor_id segment_output = segment_input - 1;

/// Where a tensor lies: in memory of Ferry's, or, with `first`, in an array of the trainer's own that has it once for
/// each segment, one after the other.
struct tensor_place {
  void* first = nullptr;         ///< of the kind's first segment
  std::size_t stride_bytes = 0;  ///< from one segment to the next; 0: the tensor's bytes
};

/// What a function of a segment is given.
struct segment_call {
  std::uint32_t index = 0;           ///< of the segment, over all kinds
  stream_ref stream{};               ///< enqueue here; where functions run at once there is nothing on it to wait for
  void const* in = nullptr;          ///< the segment's input; null in a backward that does not read it
  void* out = nullptr;               ///< write the segment's output here; null in backward, unless that reads it
  std::span<void* const> tensors{};  ///< in the order they were declared; null for those that the function does not use

  /// Throws: `invalid_argument` for a tensor that was not declared to be used here.
  [[nodiscard]] FERRY_API void* address_of(tensor_id of) const;
  template <typename T>
  [[nodiscard]] T* at(tensor_id of) const {
    return static_cast<T*>(address_of(of));
  }
  template <typename T>
  [[nodiscard]] T const* input() const noexcept {
    return static_cast<T const*>(in);
  }
  template <typename T>
  [[nodiscard]] T* output() const noexcept {
    return static_cast<T*>(out);
  }
};
using segment_function = std::function<void(segment_call const&)>;

class segments_core;

/// A trainer's segments, forward and backward.
class FERRY_API segments {
 public:
  /// So many segments, whose inputs and outputs have so many bytes each: a segment's output is the next one's input.
  /// The first input is in memory of Ferry's, whatever `outputs` says. Functions run at once. Device and session are
  /// made from the environment when the first step begins; `FERRY_DEVICE=auto` is the host device.
  segments(std::uint32_t count, std::size_t output_bytes, tensor_place outputs = {});
  /// The same with settings of the caller's.
  segments(config settings, std::uint32_t count, std::size_t output_bytes, tensor_place outputs = {});
  /// In a session that is there, and stays as long as this: functions enqueue their work on `stream`.
  segments(session& in, stream_ref stream, std::uint32_t count, std::size_t output_bytes, tensor_place outputs = {});
  segments(segments const&) = delete;
  segments& operator=(segments const&) = delete;
  ~segments();

  // Declarations, before the first step. Throws: `invalid_argument`, also for a tensor that is written twice; `error`
  // from the first step on.

  /// Further segments, of another kind: what is declared from here on is theirs.
  void then(std::uint32_t count);
  /// What forward leaves for backward, in each segment of the kind.
  tensor_id tensor(label const& name, std::size_t bytes, tensor_place place = {});
  /// Writes all tensors and the output from the input.
  void forward_by(segment_function function);
  /// Instead of `forward_by`, one by one in the order they run: what an operation writes is kept, ferried or rebuilt
  /// together, by running this operation again. Its tensors, and `segment_input` or `segment_output`.
  void operation(label const& name, std::vector<tensor_id> reads, std::vector<tensor_id> writes,
                 segment_function function);
  /// Reads all tensors and the input, or only these; with `segment_output` the output too.
  void backward_by(segment_function function);
  void backward_by(std::vector<tensor_id> reads, segment_function function);

  /// Between steps: another batch, not larger than that of the first step unless the session is the caller's. The
  /// trainer's own arrays keep their stride.
  void resize(tensor_id of, std::size_t bytes);
  void resize_output(std::size_t bytes);

  // A step: input, forward and backward, once for each micro-batch. A function that throws ends the step as
  // `abandon_step` does, and what it threw is passed on; as `recipe_error` if it was run again. Throws: `error` for
  // calls in another order.

  void begin_step(step_kind kind = step_kind::train);
  /// Where the first segment's input is to be written, before `forward`.
  [[nodiscard]] void* input();
  template <typename T>
  [[nodiscard]] T* input() {
    return static_cast<T*>(input());
  }
  /// Runs every segment, and gives the last one's output: it stays until `backward`, or the step's end.
  void* forward();
  template <typename T>
  T* forward() {
    return static_cast<T*>(forward());
  }
  /// One segment; they come in order.
  void forward(std::uint32_t segment);
  [[nodiscard]] void* output();
  void backward();
  void backward(std::uint32_t segment);
  void end_step();
  void abandon_step() noexcept;
  using step_scope = basic_step_scope<segments>;

  [[nodiscard]] std::uint32_t count() const noexcept;
  /// What keeping everything takes: shares of FERRY_BUDGET are of it.
  [[nodiscard]] std::size_t keep_all_bytes() const;
  /// The session that the steps run in. Throws: `error` before the first step, if it is made then.
  [[nodiscard]] session& in_session();

 private:
  std::unique_ptr<segments_core> core_;
};

}  // namespace ferry
