// The public face of the state.
#include <torch/nn/module.h>

#include "ferry/torch.hpp"
#include "torch/state.hpp"

namespace ferry::torch {

std::string_view to_string(left_alone why) noexcept {
  switch (why) {
    case left_alone::small:
      return "below FERRY_MIN_BYTES";
    case left_alone::parameter:
      return "a parameter";
    case left_alone::excluded:
      return "named by leave_alone";
    case left_alone::slice:
      return "a small part of a larger storage";
    case left_alone::no_storage:
      return "without plain storage";
    case left_alone::quantized:
      return "quantized";
    case left_alone::other_device:
      return "on another device";
    case left_alone::outside_step:
      return "outside a step";
    case left_alone::count_:
      break;
  }
  return "?";
}

session::session(config settings) : session(std::shared_ptr<device>(make_device(settings)), settings) {}

session::session(std::shared_ptr<device> on, config settings) {
  if (on == nullptr) throw invalid_argument("the device is null; pass one that make_device has made");
  state_ = std::make_shared<detail::state>(std::move(on), std::move(settings));
}

void session::begin_step() { state_->begin_step(); }
void session::end_step() { state_->end_step(); }
void session::abandon_step() noexcept { state_->abandon_step(); }

void session::leave_alone(::torch::nn::Module const& module) {
  for (auto const& parameter : module.parameters()) state_->leave_alone(parameter);
  for (auto const& buffer : module.buffers()) state_->leave_alone(buffer);
}

void session::leave_alone(at::Tensor const& tensor) { state_->leave_alone(tensor); }

session_stats session::stats() const {
  session_stats stats;
  with([&](ferry::session& core) { stats = core.stats(); });
  return stats;
}

adapter_stats session::adapter() const { return state_->adapter(); }

std::string session::explain() const {
  std::string text;
  with([&](ferry::session& core) { text = core.explain(); });
  return text;
}

void session::with(std::function<void(ferry::session&)> const& use) const { state_->with(use); }

}  // namespace ferry::torch
