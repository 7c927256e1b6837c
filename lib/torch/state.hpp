// What a ferry::torch::session is a handle to: the device, Ferry's session, and the items that stand for storages.
//
// An item is a whole storage: tensors that share it, views of every kind, are forms over the same item. It is known by
// its storage and the version of its contents, so that a tensor saved twice is one item; as long as an item lives, its
// storage's address is not used again. Handles keep an item in the session; with the last of them it is released.
//
// Ownership: handles and tensors that came back own the state, the state owns device and session; items point back
// without owning. Threads: any; one lock. Nothing of LibTorch's is destroyed while it is held, because that may run
// anybody's code: what is to go is collected, and goes once the lock is free.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ferry/session.hpp"
#include "ferry/torch.hpp"
#include "torch/form.hpp"
#include "torch/streams.hpp"

namespace ferry::torch::detail {

class state;
using weak_storage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// Where the guard in force has got to: what an item is called after.
struct place {
  std::uint32_t micro_batch = 0;
  std::uint32_t segment = 0;
};

struct item {
  item_key key;
  std::uint64_t step = 0;
  void* address = nullptr;  ///< in LibTorch's memory
  std::size_t bytes = 0;
  std::uint32_t version = 0;
  c10::Storage source;    ///< as long as the session has the bytes in LibTorch's memory
  weak_storage original;  ///< the same for as long as the item lives, so that nothing else gets that address
  weak_storage restored;  ///< over the session's memory, if somebody still has it
  std::atomic<std::uint32_t> handles{0};
  bool released = false;  ///< from the session

  item() : original(c10::intrusive_ptr<c10::StorageImpl>()), restored(c10::intrusive_ptr<c10::StorageImpl>()) {}
};

/// A share in an item, and in the state.
class item_handle {
 public:
  item_handle() noexcept = default;
  item_handle(std::shared_ptr<state> owner, std::shared_ptr<item> of) noexcept
      : owner_(std::move(owner)), item_(std::move(of)) {
    item_->handles.fetch_add(1, std::memory_order_relaxed);
  }
  item_handle(item_handle const& other) noexcept : owner_(other.owner_), item_(other.item_) {
    if (item_) item_->handles.fetch_add(1, std::memory_order_relaxed);
  }
  item_handle(item_handle&&) noexcept = default;
  item_handle& operator=(item_handle other) noexcept {
    owner_.swap(other.owner_);
    item_.swap(other.item_);
    return *this;
  }
  ~item_handle();

  [[nodiscard]] state& owner() const noexcept { return *owner_; }
  [[nodiscard]] std::shared_ptr<item> const& get() const noexcept { return item_; }

 private:
  std::shared_ptr<state> owner_;
  std::shared_ptr<item> item_;
};

class state : public std::enable_shared_from_this<state> {
 public:
  state(std::shared_ptr<device> on, config settings);
  state(state const&) = delete;
  state& operator=(state const&) = delete;
  ~state();

  void begin_step();
  void end_step();
  void abandon_step() noexcept;
  void leave_alone(at::Tensor const& tensor);
  void with(std::function<void(ferry::session&)> const& use);
  [[nodiscard]] adapter_stats adapter() const;

  /// Why the tensor stays with LibTorch, as far as that can be told without the lock.
  [[nodiscard]] std::optional<left_alone> judge(at::Tensor const& tensor, double least_share) const;
  /// Why a tensor that a checkpointed function saves is kept all the same.
  [[nodiscard]] std::optional<left_alone> why_kept_in_checkpoint(at::Tensor const& tensor);
  /// The tensor's storage as an item, a new one or the one that it is already; nothing, with the reason, if it stays.
  /// Throws: as `ferry::session::save`.
  [[nodiscard]] item_handle store(at::Tensor const& tensor, place where, recipe how, left_alone& why_not);
  /// The item that the tensor's storage is already, or nothing.
  [[nodiscard]] item_handle find(at::Tensor const& tensor);
  /// The item's bytes, complete for whatever LibTorch does next. Throws: `error` after the item's step; as
  /// `ferry::session::restore`.
  [[nodiscard]] c10::Storage restore(std::shared_ptr<item> const& wanted);
  /// Its last handle has gone.
  void release(std::shared_ptr<item>&& unused) noexcept;
  /// Requires: this thread holds the lock.
  void destroy_later(std::shared_ptr<void>&& unused) { others_to_go_.push_back(std::move(unused)); }
  /// Ends the lease of a storage that came back.
  void give_back(lease&& held) noexcept;

  [[nodiscard]] bool locked_by_this_thread() const noexcept { return holder_.load() == std::this_thread::get_id(); }
  [[nodiscard]] std::uint64_t step() const noexcept { return step_.load(); }
  [[nodiscard]] stream_bridge& streams() noexcept { return *streams_; }

  // Counters, all of them sums.
  std::atomic<std::uint64_t> seen{0};
  std::atomic<std::uint64_t> rebuilt_later{0};
  std::atomic<std::uint64_t> recomputations{0};
  std::array<std::atomic<std::uint64_t>, left_alone_count> stayed{};
  void count(left_alone why) noexcept { stayed[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed); }

 private:
  void leave_step() noexcept;
  class hold;

  [[nodiscard]] std::shared_ptr<item> known(c10::Storage const& storage, std::uint32_t version);
  [[nodiscard]] std::shared_ptr<item> save(at::Tensor const& tensor, place where, recipe how);
  [[nodiscard]] item_key next_key(place where);
  [[nodiscard]] c10::Storage lend_out(std::shared_ptr<item> const& of, lease held);
  void let_go_of_source(item& of, event_ref done);
  void end_now(lease&& held) noexcept;
  void release_now(item& unused) noexcept;

  std::shared_ptr<device> device_;
  std::unique_ptr<stream_bridge> streams_;
  c10::Device torch_device_;
  std::size_t min_bytes_;

  std::mutex mutex_;
  std::atomic<std::thread::id> holder_{};
  std::atomic<std::uint64_t> step_{0};
  bool in_step_ = false;
  std::unordered_map<c10::StorageImpl*, std::shared_ptr<item>> by_storage_;
  std::unordered_map<c10::StorageImpl*, weak_storage> excluded_;
  std::unordered_map<std::uint64_t, std::uint32_t> counters_;  ///< by micro-batch and segment
  adapter_stats totals_;

  // Collected under the lock, destroyed or ended after it.
  std::vector<c10::Storage> storages_to_go_;
  std::vector<std::shared_ptr<void>> others_to_go_;
  std::vector<lease> leases_to_end_;
  std::vector<std::shared_ptr<item>> items_to_release_;

  std::optional<ferry::session> core_;  ///< goes first: it calls back
};

}  // namespace ferry::torch::detail
