// Ferry for LibTorch programs: what autograd saves for backward goes through a session.
//
//   ferry::torch::session session;                       // settings from FERRY_* variables
//   session.leave_alone(*model);                         // its parameters and buffers stay where they are
//   ferry::torch::session::step_scope step(session);
//   {
//     ferry::torch::offload_guard guard{session};
//     loss = model->forward(x);                          // or blocks through ferry::torch::checkpoint
//   }
//   loss.backward();
//   step.end();
//
// Ownership: a session is a handle to shared state. Saved tensors, and tensors that came back, hold that state too:
// they stay valid when the handle goes. What was saved in a step can be used until that step's `end_step`; later uses
// throw. A tensor that has come back may live as long as it likes.
//
// Threads: everything here may be called from any thread; calls of one session run one at a time. A guard acts on the
// thread that made it. Backward may run on any threads.
//
// Streams: CPU tensors are complete when an operation returns, so they are saved as they are, and a tensor that comes
// back is complete too. CUDA tensors follow the current stream of their device.
//
// Not part of ferry.hpp: it needs LibTorch's headers. Inside namespace ferry write ::torch for LibTorch's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/session.hpp"

namespace torch::nn {
class Module;
}

namespace ferry::torch {

namespace detail {
class state;
class context;
class guard_context;
}  // namespace detail

/// Why a saved tensor stayed with LibTorch.
enum class left_alone : std::uint8_t {
  small,       ///< below FERRY_MIN_BYTES
  parameter,   ///< a leaf that requires a gradient, or a view of one
  excluded,    ///< named by `session::leave_alone`: a buffer, a frozen weight
  slice,       ///< a small part of a larger storage (see `guard_options::least_share`), or one that is no view of it
  no_storage,  ///< sparse, nested, opaque or meta: there are no plain bytes to move
  quantized,
  other_device,  ///< not on the session's device
  outside_step,  ///< saved before `begin_step` or after `end_step`
  count_
};
inline constexpr std::size_t left_alone_count = static_cast<std::size_t>(left_alone::count_);
[[nodiscard]] std::string_view to_string(left_alone why) noexcept;

/// What the adapter did, over all steps.
struct adapter_stats {
  std::uint64_t seen = 0;             ///< tensors that autograd saved while a guard was in force
  std::uint64_t stored = 0;           ///< became items of the session
  std::uint64_t stored_bytes = 0;     ///< theirs
  std::uint64_t deduplicated = 0;     ///< their storage was an item already
  std::uint64_t rebuilt_later = 0;    ///< dropped in `checkpoint`, to be recomputed
  std::uint64_t back_in_place = 0;    ///< asked for again, and still where LibTorch had put them
  std::uint64_t back_from_ferry = 0;  ///< brought back into the session's memory
  std::uint64_t recomputations = 0;   ///< runs of a `checkpoint` function in backward
  std::array<std::uint64_t, left_alone_count> left_alone{};

  [[nodiscard]] std::uint64_t count(torch::left_alone why) const noexcept {
    return left_alone[static_cast<std::size_t>(why)];
  }
};

/// A Ferry session for tensors: a handle to state that is shared with everything saved in it.
class session {
 public:
  /// Makes the device that the settings name. Throws: as `make_device` and `ferry::session`.
  explicit session(config settings = config::from_env());
  /// On a device that is shared with others.
  session(std::shared_ptr<device> on, config settings);

  void begin_step();
  /// Releases all that was saved in the step. A graph that is kept alive beyond cannot be gone through any more.
  void end_step();
  /// The step cannot be gone on with: all that was saved in it is released, and another one can begin.
  void abandon_step() noexcept;
  using step_scope = basic_step_scope<session>;

  /// The module's parameters and buffers, as they are now, are never stored.
  void leave_alone(::torch::nn::Module const& module);
  /// Tensors of this one's storage are never stored.
  void leave_alone(at::Tensor const& tensor);

  [[nodiscard]] session_stats stats() const;
  [[nodiscard]] adapter_stats adapter() const;
  [[nodiscard]] std::string explain() const;

  /// Calls `use` with the session underneath, for whatever has no function here; no other thread uses it meanwhile.
  void with(std::function<void(ferry::session&)> const& use) const;

 private:
  friend class offload_guard;
  std::shared_ptr<detail::state> state_;
};

/// What a guard calls its items, and what it leaves alone.
struct guard_options {
  std::uint32_t micro_batch = 0;
  std::uint32_t segment = 0;
  /// A tensor that spans less than this share of its storage is left alone: a row of a data set does not move all of
  /// it.
  double least_share = 0.25;
};

/// While it lives, what autograd saves on this thread goes through the session. Guards nest; the innermost is in force.
///
/// Items are called after micro-batch, segment and a count within both, so that a step is planned by the one before:
/// give every micro-batch of a step its number, and mark segments where the model has them.
class offload_guard {
 public:
  /// Throws: `error` where the process's autograd engine is another's, Python's for instance: that has hooks of its
  /// own.
  explicit offload_guard(session const& into, guard_options options = {});
  offload_guard(offload_guard const&) = delete;
  offload_guard& operator=(offload_guard const&) = delete;
  /// Requires: guards end in the reverse order of their making, on the same thread.
  ~offload_guard();

  /// What is saved from now on belongs to this segment, or micro-batch.
  void segment(std::uint32_t number) noexcept;
  void micro_batch(std::uint32_t number) noexcept;

 private:
  std::unique_ptr<detail::guard_context> context_;
};

/// Marks a segment for the guard that is in force on this thread; nothing without one, so a model may always do it.
class segment_scope {
 public:
  explicit segment_scope(std::uint32_t number) noexcept;
  segment_scope(segment_scope const&) = delete;
  segment_scope& operator=(segment_scope const&) = delete;
  ~segment_scope();

 private:
  detail::guard_context* guard_;
  std::uint32_t before_ = 0;
  bool marked_before_ = false;
};

/// While it lives, nothing on this thread goes through a guard or a checkpoint around it.
class pause_guard {
 public:
  pause_guard();
  pause_guard(pause_guard const&) = delete;
  pause_guard& operator=(pause_guard const&) = delete;
  ~pause_guard();

 private:
  std::unique_ptr<detail::context> context_;
};

/// How a function is run again.
struct checkpoint_options {
  /// The random generators start a recomputation as they started the first run, and are then put back.
  bool keep_random_state = true;
  /// A recomputation ends with the last tensor that is needed, by an exception through the function.
  bool stop_early = true;
  /// What the function changes as it runs, a batch norm's running statistics for instance: put back after a
  /// recomputation.
  std::vector<at::Tensor> buffers{};
};

using tensor_list = std::vector<at::Tensor>;
using tensor_function = std::function<tensor_list(tensor_list const&)>;

/// Runs `compute` so that what it saves for backward is dropped and rebuilt in backward by running it again. The graph
/// is the one that plain `compute(inputs)` makes: gradients have the same bits, and nesting, several outputs,
/// `retain_graph` and double backward work.
///
/// With a guard in force, the inputs are items of its session, to be kept, ferried or, where an input is the output of
/// another checkpointed segment, rebuilt by that, whichever the session finds best. Inputs that the function captures
/// instead of taking them stay where they are. Each call is a segment of its own unless a `segment_scope` is in force.
///
/// Requires: `compute` gives the same results for the same inputs, random state and autocast mode, and does not change
/// its inputs. Throws: whatever it throws; in backward `recipe_error` if it saves other tensors than the first time.
[[nodiscard]] tensor_list checkpoint(tensor_function compute, tensor_list inputs, checkpoint_options options = {});

/// The same for a function of tensors that returns one: `checkpoint([&](auto const& h) { return block->forward(h); },
/// h)`.
template <typename F, typename... Tensors>
requires(sizeof...(Tensors) > 0 && (std::is_convertible_v<Tensors const&, at::Tensor> && ...) &&
         std::is_invocable_r_v<at::Tensor, F&, std::conditional_t<true, at::Tensor, Tensors> const&...>)
    [[nodiscard]] at::Tensor checkpoint(F compute, Tensors const&... inputs) {
  auto on_list = [compute = std::move(compute)](tensor_list const& list) mutable {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return tensor_list{compute(list[I]...)}; }
    (std::index_sequence_for<Tensors...>{});
  };
  return checkpoint(tensor_function(std::move(on_list)), tensor_list{inputs...}).front();
}

}  // namespace ferry::torch
