#include "torch/state.hpp"

#include <charconv>
#include <string>
#include <utility>

#include "ferry/error.hpp"

namespace ferry::torch::detail {

namespace {

/// What a storage that came back holds; the session's lease ends before the state may go.
struct borrowed {
  std::shared_ptr<state> owner;
  std::shared_ptr<item> of;
  lease held;
};

void end_borrowing(void* context) {
  std::unique_ptr<borrowed> const ended(static_cast<borrowed*>(context));
  ended->owner->give_back(std::move(ended->held));
}

}  // namespace

/// The lock. What was collected meanwhile is ended under it, or destroyed after it.
class state::hold {
 public:
  explicit hold(state& of) : state_(of) {
    state_.mutex_.lock();
    state_.holder_.store(std::this_thread::get_id());
  }
  hold(hold const&) = delete;
  hold& operator=(hold const&) = delete;
  ~hold() {
    while (!state_.leases_to_end_.empty() || !state_.items_to_release_.empty()) {
      for (auto& held : std::exchange(state_.leases_to_end_, {})) state_.end_now(std::move(held));
      for (auto& unused : std::exchange(state_.items_to_release_, {})) state_.release_now(*unused);
    }
    auto const storages = std::exchange(state_.storages_to_go_, {});
    auto const others = std::exchange(state_.others_to_go_, {});
    state_.holder_.store({});
    state_.mutex_.unlock();
  }

 private:
  state& state_;
};

item_handle::~item_handle() {
  if (item_ && item_->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) owner_->release(std::move(item_));
}

state::state(std::shared_ptr<device> on, config settings)
    : device_(std::move(on)),
      streams_(make_stream_bridge(*device_)),
      torch_device_(streams_->torch_device()),
      min_bytes_(std::max<std::size_t>(settings.min_bytes, 1)),
      core_(std::in_place, *device_, std::move(settings)) {
  storages_to_go_.reserve(16);
}

state::~state() = default;

void state::begin_step() {
  hold const held(*this);
  core_->begin_step();
  ++step_;
  in_step_ = true;
  counters_.clear();
}

void state::end_step() {
  hold const held(*this);
  core_->end_step();
  leave_step();
}

void state::abandon_step() noexcept {
  hold const held(*this);
  core_->abandon_step();
  leave_step();
}

void state::leave_step() noexcept {
  in_step_ = false;
  by_storage_.clear();
  std::erase_if(excluded_, [](auto const& named) { return named.second.expired(); });
}

void state::leave_alone(at::Tensor const& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  hold const held(*this);
  auto const& storage = tensor.storage();
  excluded_.insert_or_assign(storage.unsafeGetStorageImpl(), weak_storage(storage.getWeakStorageImpl()));
}

void state::with(std::function<void(ferry::session&)> const& use) {
  hold const held(*this);
  use(*core_);
}

adapter_stats state::adapter() const {
  auto& self = const_cast<state&>(*this);
  hold const held(self);
  adapter_stats sums = totals_;
  sums.seen = seen.load();
  sums.rebuilt_later = rebuilt_later.load();
  sums.recomputations = recomputations.load();
  for (std::size_t i = 0; i < left_alone_count; ++i) sums.left_alone[i] = stayed[i].load();
  return sums;
}

std::optional<left_alone> state::judge(at::Tensor const& tensor, double least_share) const {
  auto const* const impl = tensor.unsafeGetTensorImpl();
  if (tensor.layout() != at::kStrided || tensor.is_nested() || tensor.is_meta() || !impl->has_storage()) {
    return left_alone::no_storage;
  }
  if (tensor.is_quantized()) return left_alone::quantized;
  if (tensor.device() != torch_device_) return left_alone::other_device;
  std::size_t const elements = static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
  std::size_t const storage_bytes = tensor.storage().nbytes();
  if (std::min(elements, storage_bytes) < min_bytes_) return left_alone::small;
  if (is_parameter(tensor)) return left_alone::parameter;
  if (static_cast<double>(form::span_bytes(tensor)) < least_share * static_cast<double>(storage_bytes)) {
    return left_alone::slice;
  }
  return std::nullopt;
}

std::optional<left_alone> state::why_kept_in_checkpoint(at::Tensor const& tensor) {
  auto const why = judge(tensor, 0);
  if (why && *why != left_alone::other_device) return why;
  if (locked_by_this_thread() || !tensor.has_storage()) return std::nullopt;
  hold const held(*this);
  bool const excluded = excluded_.contains(tensor.storage().unsafeGetStorageImpl());
  return excluded ? std::optional(left_alone::excluded) : std::nullopt;
}

/// Requires: the lock.
std::shared_ptr<item> state::known(c10::Storage const& storage, std::uint32_t version) {
  auto const& data = storage.data_ptr();
  if (data.get_deleter() == &end_borrowing) {
    auto const& from = *static_cast<borrowed const*>(data.get_context());
    bool const usable = from.owner.get() == this && from.of->step == step_ && from.of->handles.load() > 0;
    return usable ? from.of : nullptr;
  }
  auto const found = by_storage_.find(storage.unsafeGetStorageImpl());
  if (found == by_storage_.end()) return nullptr;
  auto const& of = *found->second;
  bool const same = of.version == version && of.address == data.get() && of.bytes == storage.nbytes();
  return same && of.handles.load() > 0 ? found->second : nullptr;
}

item_handle state::find(at::Tensor const& tensor) {
  if (locked_by_this_thread() || !tensor.has_storage()) return {};
  hold const held(*this);
  if (!in_step_) return {};
  auto found = known(tensor.storage(), tensor.unsafeGetTensorImpl()->version_counter().current_version());
  if (!found) return {};
  ++totals_.deduplicated;
  return {shared_from_this(), std::move(found)};
}

item_handle state::store(at::Tensor const& tensor, place where, recipe how, left_alone& why_not) {
  why_not = left_alone::outside_step;
  if (locked_by_this_thread()) return {};
  hold const held(*this);
  if (!in_step_) return {};
  auto const& storage = tensor.storage();
  auto const version = tensor.unsafeGetTensorImpl()->version_counter().current_version();
  if (auto found = known(storage, version)) {
    ++totals_.deduplicated;
    return {shared_from_this(), std::move(found)};
  }
  if (!excluded_.empty() && excluded_.contains(storage.unsafeGetStorageImpl())) {
    why_not = left_alone::excluded;
    return {};
  }
  return {shared_from_this(), save(tensor, where, std::move(how))};
}

std::shared_ptr<item> state::save(at::Tensor const& tensor, place where, recipe how) {
  auto made = std::make_shared<item>();
  made->source = tensor.storage();
  made->original = weak_storage(made->source.getWeakStorageImpl());
  made->key = next_key(where);
  made->step = step_;
  made->address = made->source.data_ptr().get();
  made->bytes = made->source.nbytes();
  made->version = tensor.unsafeGetTensorImpl()->version_counter().current_version();
  auto const stream = streams_->enter();
  // What the lease is for, an operation that reads the tensor as it is saved, is LibTorch's own business.
  static_cast<void>(core_->save(
      made->key, device_view{made->address, made->bytes}, stream,
      [this, made](event_ref done) { let_go_of_source(*made, done); }, std::move(how)));
  ++totals_.stored;
  totals_.stored_bytes += made->bytes;
  by_storage_.insert_or_assign(made->original._unsafe_get_target(), made);
  return made;
}

item_key state::next_key(place where) {
  auto const counter = counters_[(std::uint64_t{where.micro_batch} << 32) | where.segment]++;
  std::array<char, 16> text{'t'};
  auto const end = std::to_chars(text.data() + 1, text.data() + text.size(), counter).ptr;
  return {where.micro_batch, where.segment, std::string_view(text.data(), static_cast<std::size_t>(end - text.data()))};
}

/// Called by the session, so under the lock.
void state::let_go_of_source(item& of, event_ref done) {
  streams_->order_reuse(done, of.source);
  storages_to_go_.push_back(std::exchange(of.source, {}));
}

c10::Storage state::restore(std::shared_ptr<item> const& wanted) {
  if (locked_by_this_thread()) {
    throw recipe_error(to_string(wanted->key) +
                       " is needed inside a recipe; a checkpointed function must not run backward through tensors "
                       "saved outside of it");
  }
  hold const held(*this);
  if (!in_step_ || wanted->step != step_) {
    throw error(to_string(wanted->key) +
                " was saved in a step that has ended; run backward before end_step, and do not keep a graph beyond it");
  }
  if (auto again = wanted->restored.lock()) return c10::Storage(std::move(again));
  auto const stream = streams_->enter();
  auto lent = core_->restore(wanted->key, stream);
  if (wanted->source && lent.data() == wanted->address) {
    ++totals_.back_in_place;
    return wanted->source;
  }
  streams_->leave(stream);
  ++totals_.back_from_ferry;
  return lend_out(wanted, std::move(lent));
}

/// A storage over the session's memory that ends the lease when its last tensor goes.
c10::Storage state::lend_out(std::shared_ptr<item> const& of, lease held) {
  void* const address = held.data();
  auto context = std::make_unique<borrowed>(borrowed{shared_from_this(), of, std::move(held)});
  c10::Storage made(c10::Storage::use_byte_size_t(), of->bytes,
                    at::DataPtr(address, context.release(), &end_borrowing, torch_device_), nullptr, false);
  of->restored = weak_storage(made.getWeakStorageImpl());
  return made;
}

void state::give_back(lease&& held) noexcept {
  if (locked_by_this_thread()) {
    leases_to_end_.push_back(std::move(held));
    return;
  }
  hold const locked(*this);
  end_now(std::move(held));
}

void state::end_now(lease&& held) noexcept {
  try {
    static_cast<void>(streams_->enter());  // orders what the session does with the memory after its last reader
  } catch (std::exception const&) {
    // The session's own streams report what is wrong with the device.
  }
  held.end();
}

void state::release(std::shared_ptr<item>&& unused) noexcept {
  if (locked_by_this_thread()) {
    items_to_release_.push_back(std::move(unused));
    return;
  }
  hold const locked(*this);
  release_now(*unused);
}

void state::release_now(item& unused) noexcept {
  // Somebody may have found it again before the lock was free; and two may have let go of it.
  if (unused.handles.load() > 0 || unused.step != step_ || !in_step_ || unused.released) return;
  unused.released = true;
  auto const named = by_storage_.find(unused.original._unsafe_get_target());
  try {
    core_->release(unused.key);
  } catch (error const&) {
    // Released at the end of its step at the latest.
  }
  if (named != by_storage_.end() && named->second.get() == &unused) by_storage_.erase(named);
}

}  // namespace ferry::torch::detail
