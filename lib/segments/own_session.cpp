// The session that segments make for themselves: how much memory, and which budget would have been enough.
#include <algorithm>
#include <utility>

#include "ferry/rehearsal.hpp"
#include "segments/segments_core.hpp"
#include "support/enough_memory.hpp"

namespace ferry {

std::size_t segments_core::keep_all_bytes() const {
  std::size_t sum = rounded(x_bytes_) * (count() + 1);
  for (auto const& kind : kinds_) {
    for (auto const& tensor : kind.tensors) sum += kind.count * rounded(tensor.bytes);
  }
  return sum;
}

/// What any function needs to write beside what is there already: so FERRY_VERIFY=recipes can check it.
std::size_t segments_core::check_bytes() const {
  std::size_t most = 0;
  for (auto const& kind : kinds_) {
    for (auto const& op : kind.operations) most = std::max(most, op.in_place ? 0 : op.bytes);
  }
  return rounded(most) + rounded(x_bytes_);
}

/// Without a budget everything is kept, as the trainer did before.
void segments_core::make_session() {
  config chosen = *settings_;
  std::size_t const all = keep_all_bytes();
  bool const given = chosen.budget_given || !(chosen.budget == config().budget);
  if (chosen.device == "auto") chosen.device = "host";
  // More than everything takes, and what is checked a second time, would be of no use; and where that is there, nothing
  // has to be decided.
  std::size_t const most = all + (verifies(chosen.verify, verify_mode::recipes) ? check_bytes() : 0);
  if (chosen.device_bytes == 0) chosen.device_bytes = most;
  bool const automatic = chosen.policy.kind == policy_kind::automatic;
  if (!given && automatic) chosen.policy.kind = policy_kind::keep;
  // What is ferried lies in the machine's memory, and on the host device the rest does too: nothing would be won.
  bool const host_budget_given = !(chosen.host_budget == config().host_budget);
  if (automatic && chosen.device == "host" && !host_budget_given) chosen.host_budget = {};
  std::size_t const unasked = std::clamp(chosen.device_bytes, all, most);
  chosen.budget = byte_amount::exactly(given ? std::min(chosen.budget.of(all), most) : unasked);
  if (chosen.pinned_bytes == 0) chosen.pinned_bytes = std::max<std::size_t>(all, std::size_t{1} << 20);
  chosen.advise = false;  // here more is known of a step than the session has seen
  auto on = make_device(chosen);
  stream compute(*on, stream_kind::compute, "segments");
  own_session_.emplace(*on, chosen);
  own_stream_.emplace(std::move(compute));
  own_device_ = std::move(on);
  made_for_bytes_ = all;
  session_ = &*own_session_;
  stream_ = *own_stream_;
}

std::optional<out_of_device_memory> segments_core::advised(out_of_device_memory const& problem,
                                                           std::uint32_t micro_batches) const {
  if (!own_session_ || !settings_->advise) return std::nullopt;
  try {
    if (!support::is_of_budget(problem, own_session_->stats().device.limit_bytes)) return std::nullopt;
    std::size_t largest = x_bytes_;
    for (auto const& kind : kinds_) {
      for (auto const& op : kind.operations) largest = std::max(largest, op.bytes);
    }
    rehearsal stage({.settings = own_session_->settings(),
                     .most_bytes = micro_batches * keep_all_bytes(),
                     .margin_bytes = largest,
                     .too_small_bytes = problem.limit_bytes()});
    stream const compute(stage.on(), stream_kind::compute, "rehearsal");
    std::size_t const enough = stage.smallest_budget([&](session& on) {
      segments_core copy(std::nullopt, &on, compute, 1, x_bytes_, outputs_);
      copy.kinds_ = kinds_;
      auto const compute_nothing = [](segment_call const&) {};
      for (auto& kind : copy.kinds_) {
        for (auto& op : kind.operations) op.run = compute_nothing;
        kind.backward = compute_nothing;
      }
      constexpr int steps = 3;  // the first finds out what later ones act on
      for (int i = 0; i < steps; ++i) copy.run_step(micro_batches);
    });
    if (enough == 0) return std::nullopt;
    std::size_t const has = own_device_->capabilities().device_bytes;
    // Of more than everything takes, and of a device that was made for that, nothing need be said.
    std::size_t const device_bytes = settings_->device_bytes == 0 && enough > has ? enough : has;
    return support::with_enough(problem, enough, device_bytes, "whole steps");
  } catch (std::exception const&) {
    return std::nullopt;  // the error is what matters
  }
}

void segments_core::run_step(std::uint32_t micro_batches) {
  begin(step_kind::train);
  for (std::uint32_t i = 0; i < micro_batches; ++i) {
    static_cast<void>(input());
    for (std::uint32_t segment = 0; segment < count(); ++segment) forward(segment);
    for (std::uint32_t segment = count(); segment-- > 0;) backward(segment);
  }
  end();
}

}  // namespace ferry
