// Segments: where the trainer is in its step, said or inferred, and what follows from entering one.
#include <fmt/format.h>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

void session_core::enter_segment(pass which, item_key const& place, stream_ref stream) {
  require_step("enter_segment");
  require_own(stream);
  if (clock_.is_declared()) {
    throw error(
        fmt::format("enter_segment {}: the trainer is in another segment still; leave that one first", place.segment));
  }
  if (!evaluating() && !clock_.is_in(which, place)) begin_segment(which, place, stream);
  clock_.declare(true);
  tape_.did(asked::entering(which, {place.segment, place.micro_batch}), stream);
}

void session_core::leave_segment() noexcept {
  clock_.declare(false);
  tape_.did(asked(), clock_.stream());
}

/// Where the trainer is, if it has not said so: in the segment of what it saves or restores.
void session_core::infer_segment(pass which, item_key const& key, stream_ref stream) {
  if (evaluating()) return;
  if (!clock_.is_declared() && !clock_.is_in(which, key)) begin_segment(which, key, stream);
}

void session_core::begin_segment(pass which, item_key const& place, stream_ref stream) {
  clock_.entered(which, place, stream, store_.events());
  if (recorder_.on()) recorder_.entered(which, place);
  ledger_.steps().entered(which, place, stream);
  bound_run_ahead();
  clock_.follow_traffic();
  // Where the trainer does not wait for its steps, the last one is over only in the midst of the next.
  learn();
  if (follower_.is_active()) carry_out_plan(which, place, stream);
}

/// From the step before, if it is over by now and that is news.
void session_core::learn() {
  if (!clock_.can_learn()) return;
  ledger_.take_measurements(false);
  adaptation_.note_learnt(clock_.learn());
}

}  // namespace ferry::path
