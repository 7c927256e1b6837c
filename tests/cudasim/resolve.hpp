// From what an API call is given to what the emulation has: handles to streams and events, addresses to memory.
#pragma once

#include <optional>
#include <string>

#include "emulation.hpp"

namespace cudasim {

template <typename State>
struct resolved {
  State* state = nullptr;
  cudaError_t error = cudaSuccess;  ///< why there is none, or the stream's or event's device is broken
};

/// The default streams are reported, and stood in for.
[[nodiscard]] resolved<stream_state> resolve_stream(char const* function, cudaStream_t handle);
[[nodiscard]] resolved<event_state> resolve_event(char const* function, cudaEvent_t handle);

/// What the operation was announced as, or the thread's innermost profiler range is called, or `otherwise`.
[[nodiscard]] ferry::label operation_name(char const* otherwise);

/// "'device memory 3' [+64,+128), which has 96 bytes"
[[nodiscard]] std::string range_text(allocation const& in, void const* address, std::size_t bytes);
/// The memory that holds a range.
struct located {
  std::optional<allocation> in;  ///< none: it is no memory of CUDA's, or there is something wrong with it
  bool wrong = false;            ///< freed, or out of range; it was reported
};
/// `what` begins the sentence of the report: "the copy 'h' reads".
[[nodiscard]] located locate(std::string const& what, void const* address, std::size_t bytes);

}  // namespace cudasim
