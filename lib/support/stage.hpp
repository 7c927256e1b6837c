// The path's stages by name for NVIDIA's profilers: a range on the calling thread for as long as the object lives.
// Off, and then nothing at all, unless Ferry is built with FERRY_NVTX=ON.
#pragma once

#if defined(FERRY_NVTX)
#include <nvtx3/nvToolsExt.h>
#endif

namespace ferry::support {

#if defined(FERRY_NVTX)

class profiled_stage {
 public:
  explicit profiled_stage(char const* name) noexcept { nvtxRangePushA(name); }
  profiled_stage(profiled_stage const&) = delete;
  profiled_stage& operator=(profiled_stage const&) = delete;
  ~profiled_stage() { nvtxRangePop(); }
};
using stage = profiled_stage;

#else

class [[maybe_unused]] unseen_stage {
 public:
  explicit constexpr unseen_stage(char const*) noexcept {}
};
using stage = unseen_stage;

#endif

}  // namespace ferry::support
