// prefetch: hosted items come back before they are asked for, in the order of need, into bytes that are free
// anyway. A prefetch never takes bytes from anyone, and gives its own back when compute needs them: so it
// cannot starve the work that has to end before its item can be used.
#include <utility>

#include "path/session_core.hpp"

namespace ferry::path {

void session_core::prefetch(entry& e, device_region&& region, event_handle position) {
  transfer& t = new_transfer(e, copy_direction::host_to_device);
  t.to = region.address();
  t.from = e.pinned.address;
  t.expected_checksum = e.checksum;
  store_.device_tier().pending_uses(region, t.gates);
  if (position) t.gates.push_back(std::move(position));
  for (auto const user : e.users) {  // a failed way back may have left readers behind
    if (auto mark = store_.events().record_if_alive(user)) t.gates.push_back(std::move(mark));
  }
  t.gates.insert(t.gates.end(), e.uses.begin(), e.uses.end());
  e.device = std::exchange(region, {});
  e.ready = {};
  e.advance(item_state::prefetching);
  engine_.submit(t);
}

void session_core::prefetch_ahead() {
  prefetch_due_ = false;
  if (conductor_ != nullptr) {
    fetch_planned();
    return;
  }
  bool const nothing_hosted = store_.pinned_tier().bytes().used_bytes() == 0;
  if (nothing_hosted || !order_.in_backward()) return;
  auto& tier = store_.device_tier();
  order_.visit_next([&](entry& e) {
    if (e.state() != item_state::hosted || e.moving != nullptr || e.device) return true;
    // The blocks that backward allocated in the last step will come again: leave them their bytes.
    std::size_t const reserve = scratch_reserve_bytes_ > scratch_bytes_ ? scratch_reserve_bytes_ - scratch_bytes_ : 0;
    if (tier.bytes().free_bytes() < e.bytes + reserve) {
      felt_.room_was_short = true;
      return false;
    }
    auto region = tier.allocate(e.bytes, e.key.name);
    if (!region) return false;
    prefetch(e, std::move(*region));
    return true;
  });
}

void session_core::prefetch_ended(transfer& ended, entry& e) {
  auto const how = ended.phase.load(std::memory_order_acquire);
  if (how == transfer_phase::failed) {
    log_.warning("prefetch of {} failed and its host copy is kept: {}", to_string(e.key), ended.failure);
    e.failure = ended.failure;
  }
  // A recipe may have taken over the bytes meanwhile; then the transfer's end changes nothing.
  if (e.state() != item_state::prefetching) {
    let_be(e);
    return;
  }
  if (how == transfer_phase::completed) {
    e.advance(item_state::resident);
    return;
  }
  e.advance(item_state::hosted);
  let_be(e);
}

}  // namespace ferry::path
