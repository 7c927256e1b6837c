// What a function's results depend on besides its inputs: the state of the random generators, and autocast. Captured
// when a checkpointed function first runs, in force again while it is run anew. Acts on the calling thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace ferry::torch::detail {

struct autocast_mode {
  c10::DeviceType device = c10::kCPU;
  bool enabled = false;
  at::ScalarType type = at::kFloat;
};

class ambient {
 public:
  ambient() = default;
  /// Of the CPU, and of the GPUs that the tensors are on. Without `random`, only autocast.
  ambient(std::vector<at::Tensor> const& inputs, bool random);

 private:
  friend class ambient_scope;
  std::vector<std::pair<c10::Device, at::Tensor>> random_;
  std::vector<autocast_mode> autocast_;
  bool autocast_cache_ = true;
};

/// In force while it lives; what was before is put back.
class ambient_scope {
 public:
  explicit ambient_scope(ambient const& wanted);
  ambient_scope(ambient_scope const&) = delete;
  ambient_scope& operator=(ambient_scope const&) = delete;
  ~ambient_scope();

 private:
  ambient before_;
};

}  // namespace ferry::torch::detail
