#include "baseline.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

bool is_parameter(at::Tensor const& tensor) {
  if (!tensor.requires_grad()) return false;
  return tensor.is_leaf() || (tensor.is_view() && tensor._base().is_leaf());
}

}  // namespace

struct save_on_cpu::store : std::enable_shared_from_this<store> {
  struct copy {
    std::shared_ptr<store> owner;
    void* pinned = nullptr;
    std::size_t bytes = 0;
    at::Tensor back;  // fetched, for all that share it
    ~copy() { owner->idle.emplace(bytes, pinned); }
  };

  store(ferry::device& over, std::size_t least)
      : device(over), stream(over, ferry::stream_kind::copy, "save_on_cpu"), min_bytes(least) {}
  ~store() {
    for (auto const& [bytes, address] : idle) device.deallocate(ferry::memory_space::pinned, address);
  }

  std::shared_ptr<copy> take_out(c10::Storage const& storage) {
    auto& known = copies[storage.unsafeGetStorageImpl()];
    if (auto found = known.second.lock()) return found;
    auto made = std::make_shared<copy>();
    made->owner = shared_from_this();
    made->bytes = storage.nbytes();
    if (auto const slot = idle.find(made->bytes); slot != idle.end()) {
      made->pinned = slot->second;
      idle.erase(slot);
    } else {
      made->pinned = device.allocate(ferry::memory_space::pinned, made->bytes);
    }
    device.copy(stream, "out", ferry::copy_direction::device_to_host, made->pinned, storage.data_ptr().get(),
                made->bytes);
    stream.synchronize();
    moved.out += made->bytes;
    known = {c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl()), made};
    return made;
  }

  at::Tensor fetch(copy& from) {
    if (!from.back.defined()) {
      from.back = at::empty({static_cast<std::int64_t>(from.bytes)}, at::kByte);
      device.copy(stream, "back", ferry::copy_direction::host_to_device, from.back.data_ptr(), from.pinned, from.bytes);
      stream.synchronize();
      moved.back += from.bytes;
    }
    return from.back;
  }

  ferry::device& device;
  ferry::stream stream;
  std::size_t min_bytes;
  copied_bytes moved;
  std::multimap<std::size_t, void*> idle;  // pinned memory for another time
  struct known_copy {
    c10::weak_intrusive_ptr<c10::StorageImpl> first{
        c10::intrusive_ptr<c10::StorageImpl>()};  // so its address stays taken
    std::weak_ptr<copy> second;
  };
  std::unordered_map<c10::StorageImpl*, known_copy> copies;
};

namespace {

std::shared_ptr<void> in_force;  // the store; this program runs one step at a time

}  // namespace

save_on_cpu::save_on_cpu(ferry::device& over, std::size_t min_bytes)
    : store_(std::make_shared<store>(over, min_bytes)) {
  class hooks final : public SavedVariableHooks {
   public:
    explicit hooks(std::shared_ptr<store> in) : store_(std::move(in)) {}
    void call_pack_hook(at::Tensor const& tensor) override {
      std::size_t const bytes = static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
      if (bytes < store_->min_bytes || tensor.storage().nbytes() < store_->min_bytes || is_parameter(tensor)) {
        kept_ = tensor.is_leaf() ? tensor : tensor.tensor_data();
        return;
      }
      copy_ = store_->take_out(tensor.storage());
      sizes_ = tensor.sizes().vec();
      strides_ = tensor.strides().vec();
      offset_ = tensor.storage_offset();
      options_ = tensor.options();
    }
    at::Tensor call_unpack_hook() override {
      if (kept_.defined()) return kept_;
      auto const bytes = store_->fetch(*copy_);
      return at::empty({0}, options_).set_(bytes.storage(), offset_, sizes_, strides_);
    }

   private:
    std::shared_ptr<store> store_;
    at::Tensor kept_;
    std::shared_ptr<store::copy> copy_;
    std::vector<std::int64_t> sizes_, strides_;
    std::int64_t offset_ = 0;
    at::TensorOptions options_;
  };
  class engine final : public Engine {
   public:
    static Engine& instance() {
      static Engine* const only = new engine;
      return *only;
    }
    std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
      if (in_force == nullptr) return nullptr;
      return std::make_unique<hooks>(std::static_pointer_cast<store>(in_force));
    }
  };
  in_force = store_;
  torch::autograd::set_default_engine_stub(&engine::instance);
}

save_on_cpu::~save_on_cpu() {
  in_force = nullptr;
  torch::autograd::set_default_engine_stub(&Engine::get_base_engine);
}

copied_bytes save_on_cpu::copied() const { return store_->moved; }
