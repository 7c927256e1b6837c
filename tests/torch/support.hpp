// What the adapter's tests share: sessions on a host device of their own, bits of tensors, the random stream.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ferry/torch.hpp"

namespace ferry::torch::testing {

struct session_options {
  std::string policy = "keep";
  std::size_t budget_bytes = std::size_t{64} << 20;
  std::size_t min_bytes = 1024;
  link_speed device_to_host{};
  link_speed host_to_device{};
};

inline config settings_of(session_options const& options) {
  config settings;
  settings.device = "host";
  settings.set("FERRY_POLICY", options.policy);
  settings.budget = byte_amount::exactly(options.budget_bytes);
  settings.host_budget = byte_amount::exactly(std::size_t{64} << 20);
  settings.min_bytes = options.min_bytes;
  settings.chunk_bytes = std::size_t{64} << 10;
  settings.log = log_level::error;
  return settings;
}

inline std::shared_ptr<host_device> device_of(session_options const& options) {
  host_device_options made;
  made.device_bytes = std::size_t{64} << 20;
  made.pinned_bytes = std::size_t{64} << 20;
  made.device_to_host = options.device_to_host;
  made.host_to_device = options.host_to_device;
  made.compute_threads = 1;
  return make_host_device(made);
}

inline session make_session(session_options const& options = {}) { return {device_of(options), settings_of(options)}; }

/// Every transfer of the step so far has ended.
inline void settle(session const& in) {
  in.with([](ferry::session& core) { core.synchronize(); });
}

inline bool same_bits(at::Tensor const& a, at::Tensor const& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  auto const x = a.detach().contiguous();
  auto const y = b.detach().contiguous();
  return std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

inline ::testing::AssertionResult same_bits(std::vector<at::Tensor> const& a, std::vector<at::Tensor> const& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " tensors against " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return ::testing::AssertionFailure() << "tensor " << i << " differs";
  }
  return ::testing::AssertionSuccess();
}

/// Where the CPU's random generator stands.
inline at::Tensor random_state() { return at::globalContext().defaultGenerator(at::kCPU).get_state(); }

/// Gradients of the leaves, and none left behind.
inline std::vector<at::Tensor> take_gradients(std::vector<at::Tensor> const& leaves) {
  std::vector<at::Tensor> taken;
  for (auto const& leaf : leaves) {
    taken.push_back(leaf.grad().defined() ? leaf.grad().clone() : at::Tensor());
    const_cast<at::Tensor&>(leaf).mutable_grad().reset();
  }
  return taken;
}

/// A tensor whose memory says when it goes.
inline at::Tensor watched(std::vector<std::int64_t> const& sizes, std::shared_ptr<bool> const& gone) {
  auto const source = at::rand(sizes);
  auto* const bytes = new std::vector<float>(source.data_ptr<float>(), source.data_ptr<float>() + source.numel());
  return at::from_blob(bytes->data(), sizes, [bytes, gone](void*) {
    delete bytes;
    *gone = true;
  });
}

}  // namespace ferry::torch::testing
