#include "torch/context.hpp"

#include <algorithm>

#include "torch/frame.hpp"

namespace ferry::torch {

namespace detail {

namespace {

thread_local context* innermost = nullptr;
constexpr std::size_t most_products = 16;

}  // namespace

context::context() noexcept : outer_(innermost) { innermost = this; }

context::~context() {
  for (context** link = &innermost; *link != nullptr; link = &(*link)->outer_) {
    if (*link != this) continue;
    *link = outer_;
    return;
  }
}

context* context::current() noexcept { return innermost; }

guard_context::guard_context(std::shared_ptr<state> into, guard_options const& options) noexcept
    : where{options.micro_batch, options.segment}, state_(std::move(into)), least_share_(options.least_share) {}

saved guard_context::pack(at::Tensor const& tensor) { return pack(tensor, {}); }

saved guard_context::pack(at::Tensor const& tensor, recipe how) {
  state_->seen.fetch_add(1, std::memory_order_relaxed);
  auto why = state_->judge(tensor, least_share_);
  if (!why && is_part_of_its_own_count(tensor)) why = left_alone::slice;
  if (!why) {
    auto reason = left_alone::outside_step;
    auto handle = state_->store(tensor, where, std::move(how), reason);
    if (handle.get()) return saved::stored(std::move(handle), tensor);
    why = reason;
  }
  state_->count(*why);
  return saved::kept(tensor);
}

saved guard_context::pack_input(at::Tensor const& tensor) {
  if (!tensor.defined()) return {};
  return pack(tensor, recipe_for(tensor));
}

recipe guard_context::recipe_for(at::Tensor const& tensor) {
  if (!tensor.has_storage()) return {};
  auto const* const storage = tensor.storage().unsafeGetStorageImpl();
  auto const version = tensor.unsafeGetTensorImpl()->version_counter().current_version();
  for (auto made = products_.rbegin(); made != products_.rend(); ++made) {
    if (made->storage._unsafe_get_target() != storage || made->version != version) continue;
    if (auto const from = made->from.lock()) return frame::recipe_of(from, made->output, tensor);
  }
  return {};
}

void guard_context::add_products(std::shared_ptr<frame> const& from, tensor_list const& outputs) {
  std::erase_if(products_, [](product const& made) { return made.from.expired() || made.storage.expired(); });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].has_storage()) continue;
    auto const version = outputs[i].unsafeGetTensorImpl()->version_counter().current_version();
    products_.push_back({weak_storage(outputs[i].storage().getWeakStorageImpl()), version, from, i});
  }
  if (products_.size() > most_products) products_.erase(products_.begin(), products_.end() - most_products);
}

}  // namespace detail

offload_guard::offload_guard(session const& into, guard_options options) {
  if (!(options.least_share >= 0 && options.least_share <= 1)) {
    throw invalid_argument("guard_options::least_share is a share of a storage: give 0 to 1");
  }
  detail::install_engine();
  context_ = std::make_unique<detail::guard_context>(into.state_, options);
}

offload_guard::~offload_guard() = default;

void offload_guard::segment(std::uint32_t number) noexcept {
  context_->where.segment = number;
  context_->marked = true;
}

void offload_guard::micro_batch(std::uint32_t number) noexcept { context_->where.micro_batch = number; }

segment_scope::segment_scope(std::uint32_t number) noexcept : guard_(nullptr) {
  auto* const inside = detail::context::current();
  guard_ = inside != nullptr ? inside->as_guard() : nullptr;
  if (guard_ == nullptr) return;
  before_ = std::exchange(guard_->where.segment, number);
  marked_before_ = std::exchange(guard_->marked, true);
}

segment_scope::~segment_scope() {
  if (guard_ == nullptr) return;
  guard_->where.segment = before_;
  guard_->marked = marked_before_;
}

pause_guard::pause_guard() : context_(std::make_unique<detail::pause_context>()) {}
pause_guard::~pause_guard() = default;

}  // namespace ferry::torch
