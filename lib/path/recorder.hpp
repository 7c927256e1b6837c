// The recorder: writes down what a step looks like, as a profile.
//
// It marks the compute stream whenever the trainer enters a segment, notes which recipes ran and how long the stream
// stood still in between, and the most scratch memory. What is left of the time between two marks is the segment's own.
// Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ferry/plan.hpp"
#include "path/conductor.hpp"
#include "store/event_pool.hpp"
#include "store/tiered_store.hpp"

namespace ferry::path {

class recorder {
 public:
  explicit recorder(device& on) : device_(on) {}

  [[nodiscard]] bool on() const noexcept { return on_; }
  /// The last step has saved or restored something.
  [[nodiscard]] bool saw_work() const noexcept { return on_ && !stretches_.empty(); }
  void begin_step(bool on);
  void end_step(store::event_pool& events);

  void entered(pass which, item_key const& key, stream_ref stream, store::event_pool& events);
  void saved(store::entry& e);
  void restored(store::entry const& e);
  void recipe_ran(store::entry const& e);
  /// The stretch that is being recorded, for `stood_still`.
  [[nodiscard]] std::int32_t now() const noexcept { return static_cast<std::int32_t>(stretches_.size()) - 1; }
  void stood_still(std::int32_t at, double us);
  void scratch(std::size_t bytes) noexcept;
  /// So many bytes are handed out for this segment, or by recipes and blocks that it causes, on top of `scratch`.
  void handed_out(std::size_t bytes, std::size_t scratch, store::tiered_store& store);
  /// What was allocated last has become an item: it was no scratch memory.
  void scratch_saved(std::size_t bytes_now) noexcept;

  /// The last step that was recorded to its end, once its marks have passed. Nothing if micro-batches were interleaved
  /// or no step was recorded. Requires: what was timed has been taken in.
  [[nodiscard]] std::optional<profile> take(std::string name);

 private:
  /// From one mark to the next.
  struct stretch {
    pass which;
    std::uint32_t micro_batch;
    std::uint32_t segment;
    store::event_handle from;
    double still_us = 0;
    std::size_t scratch_bytes = 0;
    std::size_t peak_bytes = 0;  // of the segment's items and scratch memory together
    std::vector<store::entry const*> recipes;
  };
  [[nodiscard]] double lasted_us(std::size_t index) const;
  [[nodiscard]] bool interleaved() const;
  void add_items(profile& step) const;
  void complete_recipes(profile& step) const;

  device& device_;
  bool on_ = false;
  stream_ref stream_;
  std::vector<stretch> stretches_;
  store::event_handle end_;
  std::vector<store::entry*> items_;  // of the last micro-batch, in the order of saving
  std::vector<store::entry const*> needs_;
  std::size_t peak_before_ = 0;  // of the stretch, before the last allocation
};

}  // namespace ferry::path
