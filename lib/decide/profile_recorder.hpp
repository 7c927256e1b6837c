// The recorder: writes down what a step looks like, as a profile.
//
// The step clock has the times of each segment; the recorder adds the items, the order in which backward asks for them,
// and the most scratch memory. Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decide/step_clock.hpp"
#include "ferry/plan.hpp"
#include "store/tiered_store.hpp"

namespace ferry::decide {

class profile_recorder {
 public:
  explicit profile_recorder(step_clock const& times) : times_(times) {}

  [[nodiscard]] bool on() const noexcept { return on_ && !paused_; }
  /// The last step has saved or restored something.
  [[nodiscard]] bool saw_work() const noexcept { return on_ && !bytes_.empty(); }
  /// Every step from the next one on is recorded, whoever wants it.
  void record_always(bool always) noexcept { always_ = always; }
  /// `wanted`: by somebody, in this step.
  void begin_step(bool wanted);
  /// What follows is no part of the step that was recorded.
  void pause(bool paused) noexcept { paused_ = paused; }
  [[nodiscard]] bool is_paused() const noexcept { return paused_; }
  /// It shows nothing.
  void abandon_step() noexcept {
    on_ = false;
    bytes_.clear();
  }

  void entered(pass which, item_key const& key);
  void saved(store::entry& e);
  void restored(store::entry const& e);
  void scratch(std::size_t bytes) noexcept;
  /// So many bytes are handed out for this segment, or by recipes and blocks that it causes, on top of `scratch`.
  void handed_out(std::size_t bytes, std::size_t scratch, store::tiered_store& store);
  /// What was allocated last has become an item: it was no scratch memory.
  void scratch_saved(std::size_t bytes_now) noexcept;

  /// The last step that was recorded to its end, once its marks have passed. Nothing if micro-batches were interleaved
  /// or no step was recorded. Requires: what was timed has been taken in.
  [[nodiscard]] std::optional<profile> take(std::string name);

 private:
  /// Of one stretch.
  struct most_bytes {
    std::size_t scratch = 0;
    std::size_t at_once = 0;  // the segment's items and scratch memory together
  };
  [[nodiscard]] bool interleaved() const;
  void add_items(profile& step) const;
  void add_stretch(profile& step, std::size_t index) const;
  void complete_recipes(profile& step) const;

  step_clock const& times_;
  bool always_ = false;
  bool on_ = false;
  bool paused_ = false;
  std::vector<most_bytes> bytes_;  // of the stretches
  std::uint32_t micro_batch_ = 0;
  std::vector<store::entry*> items_;  // of the last micro-batch, in the order of saving
  std::vector<store::entry const*> needs_;
  std::size_t peak_before_ = 0;  // of the stretch, before the last allocation
};

}  // namespace ferry::decide
