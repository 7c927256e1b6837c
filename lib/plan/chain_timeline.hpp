// The times of a schedule: compute operations in their order, and transfers each way in theirs, event by event.
//
// A transfer out begins when its tensor has been made and the link is free; a fetch when the operations before its
// position are over, its own transfer out has freed its bytes, and what is still going out leaves room for it. An
// operation waits for its fetches, and for bytes that are on their way out. Whatever goes on beside something else
// takes as much longer as the chain's contention says. Threads: one per timeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/chain.hpp"

namespace ferry::planning {

/// A compute operation in its place.
struct placed_op {
  chain_op op{};
  std::uint32_t stage = 0;
  double seconds = 0;  ///< with nothing beside it
  double bytes = 0;    ///< on the device while it runs, transfers out and early fetches not counted
  double start_s = 0;
  double end_s = 0;
  std::uint32_t outs_before = 0;  ///< transfers out that must have ended first, in order of production
  double waited_s = 0;            ///< compute stood still before it
  bool drops_input = false;       ///< its X goes when it has ended
};

struct transfer_out {
  chain_tensor tensor;
  double bytes = 0;
  std::uint32_t made_by = 0;     ///< the operation that produced it (position), or 0 for X[0]
  std::uint32_t used_until = 0;  ///< the last forward operation that reads it (position)
  double start_s = 0;
  double end_s = 0;
  double free_s = 0;  ///< its device bytes are free from then on

  [[nodiscard]] bool is_there_at_first() const noexcept {
    return tensor == chain_tensor{chain_tensor::kind::boundary, 0};
  }
};

struct transfer_in {
  std::uint32_t out = 0;  ///< index of its transfer out
  double bytes = 0;
  std::uint32_t position = 0;  ///< issued once the operations before this one have ended
  std::uint32_t consumer = 0;  ///< the first operation that needs it
  std::uint32_t outs_before = 0;
  double start_s = 0;
  double end_s = 0;
};

class chain_timeline {
 public:
  explicit chain_timeline(chain const& of)
      : chain_(&of), limit_(of.device_bytes * (1 + 1e-9)), contended_(of.beside.any()) {}

  /// Times all of them; false if what an operation needs never fits. The first `forward_ops` operations are forward's,
  /// which know nothing of fetches; `load`: bytes at each position with the fetches that are placed there.
  bool run(std::vector<placed_op>& ops, std::uint32_t forward_ops, std::vector<transfer_out>& outs,
           std::vector<transfer_in>& ins, std::vector<double> const& load);

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  /// What takes time: a direction of the link, or the computation.
  struct engine {
    double left_s = 0;  // as of the last change of pace
    double end_s = never;
    [[nodiscard]] bool busy() const noexcept { return end_s < never; }
  };

  [[nodiscard]] double next_event_s() const noexcept { return out_.end_s < in_.end_s ? out_.end_s : in_.end_s; }
  template <typename Done>
  bool wait_until(Done done);
  void compute(placed_op& op);
  void pass_event();
  void end_op();
  void note_freed();
  void start_links();
  void start_out();
  void start_in();
  [[nodiscard]] bool has_room(transfer_in& next);
  [[nodiscard]] double bytes_of_early_fetches(std::uint32_t first_use) const;
  void settle_pace();
  void predict_ends();
  [[nodiscard]] double end_of(double seconds) const;
  [[nodiscard]] double moving_s(double from, double until) const;

  chain const* chain_;
  double limit_;
  bool contended_;
  std::vector<transfer_out>* outs_ = nullptr;
  std::vector<transfer_in>* ins_ = nullptr;
  std::vector<double> const* load_ = nullptr;
  double now_ = 0;
  double paced_since_ = 0;  // what is under way has gone on at one pace since
  std::uint32_t ops_done_ = 0;
  engine compute_;
  engine out_;
  engine in_;
  std::size_t next_out_ = 0;  // under way, or the next one
  std::size_t next_in_ = 0;
  std::size_t made_ = 0;               // transfers out whose tensors exist
  std::size_t freed_ = 0;              // and those whose device bytes are free
  double leaving_bytes_ = 0;           // of those made and not freed
  double needed_beside_next_ = never;  // the fetch that is next waits for room: bytes that others take until it is used
};

}  // namespace ferry::planning
