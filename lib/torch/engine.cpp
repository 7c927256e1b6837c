// The autograd engine is asked for default hooks whenever something is saved. In a C++ program that is LibTorch's own,
// whose answer is none; this one asks the contexts of the thread. Installed with the first guard or checkpoint, and
// from then on in force: without a context it does what LibTorch's own does.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <mutex>
#include <typeinfo>

#include "ferry/error.hpp"
#include "torch/context.hpp"

namespace ferry::torch::detail {

namespace {

using ::torch::autograd::Engine;
using ::torch::autograd::SavedVariableHooks;

class saved_hooks final : public SavedVariableHooks {
 public:
  void call_pack_hook(at::Tensor const& tensor) override { saved_ = context::current()->pack(tensor); }
  at::Tensor call_unpack_hook() override { return saved_.unpack(); }

 private:
  saved saved_;
};

class hooked_engine final : public Engine {
 public:
  /// Never destroyed: threads of LibTorch's may outlive every destructor.
  static Engine& instance() {
    static Engine* const only = new hooked_engine;
    return *only;
  }

  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    auto const* const asked = context::current();
    if (asked == nullptr || !asked->wants_hooks()) return nullptr;
    return std::make_unique<saved_hooks>();
  }

 private:
  hooked_engine() = default;
};

}  // namespace

void install_engine() {
  static std::mutex one_at_a_time;
  std::scoped_lock const lock(one_at_a_time);
  auto const& in_force = Engine::get_default_engine();
  if (&in_force == &hooked_engine::instance()) return;
  if (typeid(in_force) != typeid(Engine)) {
    throw error(
        "another autograd engine is in force, Python's most likely: it keeps saved-tensor hooks of its own and never "
        "asks "
        "Ferry; use torch.autograd.graph.saved_tensors_hooks there, or run the training loop in a C++ program");
  }
  ::torch::autograd::set_default_engine_stub(&hooked_engine::instance);
}

}  // namespace ferry::torch::detail
