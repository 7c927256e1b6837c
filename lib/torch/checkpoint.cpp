// checkpoint: the first run of a function, with its inputs remembered by whoever is asked around the call.
#include <c10/core/GradMode.h>

#include <utility>

#include "ferry/error.hpp"
#include "torch/context.hpp"
#include "torch/frame.hpp"

namespace ferry::torch {

namespace {

using namespace detail;

saved remember(context* around, at::Tensor const& input) {
  if (!input.defined()) return {};
  if (around == nullptr) return saved::kept(input);
  auto* const guard = around->as_guard();
  return guard != nullptr ? guard->pack_input(input) : around->pack(input);
}

}  // namespace

tensor_list checkpoint(tensor_function compute, tensor_list inputs, checkpoint_options options) {
  if (!compute) throw invalid_argument("checkpoint: the function is empty; pass one that takes and returns tensors");
  auto* const around = context::current();
  if (!c10::GradMode::is_enabled() || (around != nullptr && around->runs_plainly())) return compute(inputs);
  install_engine();
  auto const made = std::make_shared<frame>(std::move(compute), std::move(options), inputs,
                                            around != nullptr ? around->owner() : nullptr);
  for (auto const& input : inputs) made->add_input(remember(around, input), input);
  auto outputs = made->run(inputs);
  if (auto* const guard = around != nullptr ? around->as_guard() : nullptr) {
    guard->add_products(made, outputs);
    if (!guard->marked) ++guard->where.segment;
  }
  return outputs;
}

}  // namespace ferry::torch
