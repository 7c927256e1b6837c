// Another budget for a running session: memory really goes back to the device, or comes from it.
#include <fmt/format.h>

#include <utility>

#include "ferry/error.hpp"
#include "path/budgets.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

void session_core::set_budget(byte_amount budget) {
  static_cast<void>(budget_bytes(device_.capabilities(), budget, "the budget"));
  require_available(device_.capabilities(), {.budget = budget, .budget_name = "the budget"});
  pending_budget_ = {budget};
  if (!step_) change_budget();
}

/// Puts the budget that was asked for in force, if nobody holds memory of the old one. Requires: no step is under way.
void session_core::change_budget() {
  if (!pending_budget_) return;
  auto const wanted = pending_budget_->wanted;
  std::size_t const before = store_.device_tier().bytes().limit_bytes();
  std::size_t const bytes = wanted.of(device_.capabilities().device_bytes);
  if (bytes != before) {
    if (auto const holder = holder_of_memory(); !holder.empty()) {
      if (!std::exchange(pending_budget_->wait_told, true)) {
        log_.warning("the budget stays {} and becomes {} at the first begin_step that finds no memory in use: {}",
                     format_bytes(before), format_bytes(bytes), holder);
      }
      return;
    }
    wait_for_quiet_memory();
    pending_budget_.reset();  // if it cannot be had, it is not tried again
    resize_device_memory(bytes);
  }
  pending_budget_.reset();
  settings_.budget = wanted;
  if (bytes != before) budget_changed(before);
}

/// Who keeps the memory from being given back; empty if nobody.
std::string session_core::holder_of_memory() {
  if (scratch_.bytes() > 0) return fmt::format("blocks that were not saved hold {}", format_bytes(scratch_.bytes()));
  return store_.live().empty() ? "" : fmt::format("{} is leased", to_string(store_.live().front().key));
}

/// Waits for transfers, and for work on the device that was enqueued before the memory it uses was given back.
void session_core::wait_for_quiet_memory() {
  patience waiting(device_);
  for (progress(); transfers_.under_way() > 0 || !store_.device_tier().uses_are_over(); progress()) waiting.wait();
}

void session_core::resize_device_memory(std::size_t bytes) {
  auto& tier = store_.device_tier();
  auto const before = format_bytes(tier.bytes().limit_bytes());
  try {
    tier.resize(bytes);
  } catch (out_of_device_memory const& full) {
    bool const kept = tier.bytes().limit_bytes() > 0;
    if (!kept) pending_budget_ = {settings_.budget};
    throw out_of_device_memory(
        fmt::format("the budget cannot become {} and {}: {}", format_bytes(bytes),
                    kept ? "stays " + before
                         : "its " + before + " were taken by others meanwhile; begin_step tries to get them back",
                    full.what()),
        bytes, full.limit_bytes());
  }
  store_.in_flight().set_limit(settings_.max_in_flight.of(bytes));  // nothing is in flight now
}

/// Whatever was decided for the old budget is decided again.
void session_core::budget_changed(std::size_t before) {
  std::size_t const now = store_.device_tier().bytes().limit_bytes();
  log_.info("the budget is {} now, it was {}", format_bytes(now), format_bytes(before));
  policy_.budget_changed();
  adaptation_.budget_changed(before, now);
}

}  // namespace ferry::path
