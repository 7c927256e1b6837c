// How fast products are by their rows: what gradient accumulation costs. Values; any thread.
#pragma once

#include "doctor/model.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

/// A product of R rows (tokens) takes as long as one of R + this many would at the rate that long work reaches. Two
/// things cost the same whatever the rows: its weights are read in forward and in backward and their gradients read and
/// written, and the last wave of tiles leaves part of the GPU idle.
[[nodiscard]] double fixed_rows(hardware const& on, precision numbers) noexcept;

/// How many times as long products take in parts of `micro_batch` sequences as in the whole batch.
[[nodiscard]] double slowdown_of_parts(model const& of, hardware const& on, int micro_batch) noexcept;

/// The hardware as such parts find it.
[[nodiscard]] hardware for_parts(hardware on, model const& of, int micro_batch);

}  // namespace ferry::command
