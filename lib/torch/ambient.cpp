#include "torch/ambient.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Generator.h>
#include <torch/version.h>

#include <algorithm>
#include <mutex>

namespace ferry::torch::detail {

namespace {

at::Tensor random_state(c10::Device of) {
  auto generator = at::globalContext().defaultGenerator(of);
  std::scoped_lock const lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(c10::Device of, at::Tensor const& to) {
  auto generator = at::globalContext().defaultGenerator(of);
  std::scoped_lock const lock(generator.mutex());
  generator.set_state(to);
}

#if TORCH_VERSION_MAJOR >= 2
autocast_mode autocast_of(c10::DeviceType device) {
  return {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}
void set_autocast(autocast_mode const& to) {
  at::autocast::set_autocast_enabled(to.device, to.enabled);
  at::autocast::set_autocast_dtype(to.device, to.type);
}
#else
autocast_mode autocast_of(c10::DeviceType device) {
  if (device == c10::kCPU) return {device, at::autocast::is_cpu_enabled(), at::autocast::get_autocast_cpu_dtype()};
  return {device, at::autocast::is_enabled(), at::autocast::get_autocast_gpu_dtype()};
}
void set_autocast(autocast_mode const& to) {
  if (to.device == c10::kCPU) {
    at::autocast::set_cpu_enabled(to.enabled);
    at::autocast::set_autocast_cpu_dtype(to.type);
  } else {
    at::autocast::set_enabled(to.enabled);
    at::autocast::set_autocast_gpu_dtype(to.type);
  }
}
#endif

}  // namespace

ambient::ambient(std::vector<at::Tensor> const& inputs, bool random)
    : autocast_{autocast_of(c10::kCPU), autocast_of(c10::kCUDA)},
      autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
  if (!random) return;
  random_.emplace_back(c10::Device(c10::kCPU), random_state(c10::kCPU));
  for (auto const& input : inputs) {
    if (!input.defined() || !input.is_cuda()) continue;
    auto const here = input.device();
    bool const known = std::ranges::any_of(random_, [&](auto const& of) { return of.first == here; });
    if (!known) random_.emplace_back(here, random_state(here));
  }
}

ambient_scope::ambient_scope(ambient const& wanted) {
  before_ = ambient({}, false);
  for (auto const& [device, to] : wanted.random_) {
    before_.random_.emplace_back(device, random_state(device));
    set_random_state(device, to);
  }
  for (auto const& mode : wanted.autocast_) set_autocast(mode);
  at::autocast::set_autocast_cache_enabled(wanted.autocast_cache_);
}

ambient_scope::~ambient_scope() {
  bool any = false;
  for (auto const& mode : before_.autocast_) {
    any |= mode.enabled;
    set_autocast(mode);
  }
  at::autocast::set_autocast_cache_enabled(before_.autocast_cache_);
  if (!any) at::autocast::clear_cache();  // casts of this run lead into a graph that is gone
  for (auto const& [device, to] : before_.random_) set_random_state(device, to);
}

}  // namespace ferry::torch::detail
