// The inside of segments, over the session's public interface: what was declared (declarations.cpp), the session that
// is made for it (own_session.cpp), and the step under way (steps.cpp).
//
// A segment's items are its input, under the name "in", and what each of its operations writes, packed into one item
// under the operation's name. The items of `forward_by` are those of one operation that writes everything. Tensors of
// the trainer's own are the pieces of an item that keeps its place. Threads: one at a time; `turn` sees to that.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ferry/error.hpp"
#include "ferry/segments.hpp"

namespace ferry {

/// As memory is handed out.
constexpr std::size_t rounded(std::size_t bytes) noexcept {
  constexpr std::size_t alignment = 256;
  return (bytes + alignment - 1) / alignment * alignment;
}

struct declared_tensor {
  label name;
  std::size_t bytes = 0;
  tensor_place place;
  std::optional<std::size_t> written_by;  // operation
  std::size_t offset = 0;                 // in the operation's item, where that is Ferry's memory
};

struct declared_operation {
  label name;
  std::vector<tensor_id> reads;
  std::vector<tensor_id> writes;  // without the output
  bool writes_output = false;
  segment_function run;
  std::size_t bytes = 0;  // of its item
  bool in_place = false;
};

/// Segments that are all alike.
struct segment_kind {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::vector<declared_tensor> tensors;
  std::vector<declared_operation> operations;
  segment_function backward;
  std::vector<tensor_id> backward_reads;
  bool backward_reads_all = true;
};

inline void* place_in(tensor_place const& array, std::size_t bytes, std::uint32_t index) noexcept {
  std::size_t const stride = array.stride_bytes > 0 ? array.stride_bytes : bytes;
  return static_cast<std::byte*>(array.first) + index * stride;
}

class segments_core {
 public:
  segments_core(std::optional<config> settings, session* in, stream_ref stream, std::uint32_t count,
                std::size_t output_bytes, tensor_place outputs)
      : settings_(std::move(settings)), session_(in), stream_(stream), x_bytes_(output_bytes), outputs_(outputs) {
    if (output_bytes == 0) throw invalid_argument("segments: an output of zero bytes");
    add_kind(count);
  }
  ~segments_core() { abandon(); }

  /// For as long as a call lasts: no other may begin meanwhile.
  class turn {
   public:
    explicit turn(segments_core& of) : of_(of) {
      if (of.busy_.exchange(true, std::memory_order_acquire)) {
        throw error("segments: a call is under way, of another thread or the one whose function this is; wait for it");
      }
    }
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;
    ~turn() { of_.busy_.store(false, std::memory_order_release); }

   private:
    segments_core& of_;
  };

  // Declarations.
  void add_kind(std::uint32_t count);
  tensor_id add_tensor(label const& name, std::size_t bytes, tensor_place place);
  void add_operation(label const& name, std::vector<tensor_id> reads, std::vector<tensor_id> const& writes,
                     segment_function run);
  void set_forward(segment_function run);
  void set_backward(std::optional<std::vector<tensor_id>> reads, segment_function run);
  void resize(tensor_id of, std::size_t bytes);
  void resize_output(std::size_t bytes);

  // Steps.
  void begin(step_kind kind);
  void* input();
  void forward(std::uint32_t segment);
  void* output();
  void backward(std::uint32_t segment);
  void end();
  void abandon() noexcept;
  /// From within a function of the trainer's there is nothing to do: one that throws ends the step.
  void abandon_if_nobody_else_is_at_it() noexcept {
    if (busy_.exchange(true, std::memory_order_acquire)) return;
    abandon();
    busy_.store(false, std::memory_order_release);
  }

  [[nodiscard]] std::uint32_t count() const noexcept { return kinds_.back().first + kinds_.back().count; }
  [[nodiscard]] std::uint32_t next_forward() const noexcept { return forward_done_; }
  [[nodiscard]] std::uint32_t backward_left() const noexcept { return backward_left_; }
  [[nodiscard]] std::size_t keep_all_bytes() const;
  /// For want of room: with the budget that is enough for whole steps, if the session was made here.
  [[nodiscard]] std::optional<out_of_device_memory> advised(out_of_device_memory const& problem,
                                                            std::uint32_t micro_batches) const;
  [[nodiscard]] session& in_session() {
    if (session_ == nullptr) throw error("segments: the session is made when the first step begins; begin one first");
    return *session_;
  }

 private:
  enum class phase : std::uint8_t { idle, begun, has_input, forward, backward };

  [[nodiscard]] segment_kind& declaring();
  void require_tensor(segment_kind const& kind, tensor_id of, char const* what) const;
  void require_complete() const;
  void lay_out();
  void run_step(std::uint32_t micro_batches);
  template <typename Call>
  void or_abandon(Call call);
  [[nodiscard]] bool has_room_for_all() const { return made_for_bytes_ == 0 || keep_all_bytes() <= made_for_bytes_; }
  [[noreturn]] void throw_too_large() const;
  [[nodiscard]] std::size_t check_bytes() const;
  void make_session();
  void require(bool right, char const* call, char const* instead) const {
    if (!right) throw error(fmt::format("segments: {} {}", call, instead));
  }
  [[nodiscard]] segment_kind const& kind_of(std::uint32_t segment) const noexcept {
    return *std::ranges::find_if(kinds_, [&](auto const& kind) { return segment < kind.first + kind.count; });
  }
  [[nodiscard]] item_key x_key(std::uint32_t segment) const noexcept { return {micro_batch_, segment, "in"}; }
  [[nodiscard]] item_key key_of(std::uint32_t segment, declared_operation const& op) const noexcept {
    return {micro_batch_, segment, op.name};
  }
  [[nodiscard]] block allocate_x(std::uint32_t segment);
  [[nodiscard]] block allocate_for(segment_kind const& kind, declared_operation const& op, std::uint32_t segment);
  void set_tensors(std::vector<void*>& at, segment_kind const& kind, declared_operation const& op,
                   std::uint32_t segment, void* packed) const;
  [[nodiscard]] recipe tensors_recipe(segment_kind const& kind, declared_operation const& op, std::uint32_t segment);
  [[nodiscard]] recipe output_recipe(segment_kind const& kind, declared_operation const& op, std::uint32_t segment);
  [[nodiscard]] item_list inputs_of(segment_kind const& kind, declared_operation const& op,
                                    std::uint32_t segment) const;
  void run_again(segment_kind const& kind, declared_operation const& op, std::uint32_t segment,
                 recipe_context const& to, void* packed, void* out);
  void wait_if_at_once(stream_ref on) const {
    if (at_once_) on.owner()->synchronize(on);
  }
  void save_input(std::uint32_t segment, recipe how);
  void run_forward(std::uint32_t segment);
  void run_backward(std::uint32_t segment);
  [[nodiscard]] bool backward_reads(segment_kind const& kind, tensor_id of) const {
    if (kind.backward_reads_all) return of != segment_output;
    return std::ranges::find(kind.backward_reads, of) != kind.backward_reads.end();
  }

  std::optional<config> settings_;  // to make a session with
  std::unique_ptr<device> own_device_;
  std::optional<stream> own_stream_;
  std::optional<session> own_session_;
  std::size_t made_for_bytes_ = 0;  // what keeping everything took then; 0: there is no limit
  session* session_;
  stream_ref stream_;
  bool at_once_ = !stream_;
  std::size_t x_bytes_;
  tensor_place outputs_;
  std::vector<segment_kind> kinds_;
  bool declared_ = false;

  // The step under way.
  phase phase_ = phase::idle;
  step_kind kind_ = step_kind::train;
  std::uint32_t micro_batch_ = 0;
  std::uint32_t forward_done_ = 0;
  std::uint32_t backward_left_ = 0;
  block x_;                   // the next segment's input, before it is saved, and the last output
  std::vector<void*> at_;     // of the tensors in the call at hand
  std::vector<void*> again_;  // of those in a recipe
  std::vector<lease> held_;
  std::vector<block> written_;
  std::atomic<bool> busy_{false};
};

}  // namespace ferry
