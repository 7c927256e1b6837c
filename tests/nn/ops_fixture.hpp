// A checked host device with a compute stream and the operations on it, and tensors that go there and come back. Every
// test that uses it ends with a silent stream-order checker.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "ferry/host_device.hpp"
#include "ferry/nn/ops.hpp"

namespace ferry::nn::testing {

inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

struct row_shape {
  int rows, C;
};

/// One value; remainders of every vector width; more rows than a block has, and not a multiple of it.
inline constexpr row_shape row_shapes[]{{1, 1},  {1, 2},   {2, 3},    {5, 7},    {31, 8},   {32, 16},  {33, 33},
                                        {64, 5}, {65, 64}, {97, 100}, {40, 255}, {3, 1024}, {200, 65}, {1, 4099}};

/// The same values in every run and on every machine.
class random_values {
 public:
  explicit random_values(std::uint32_t seed = 1) : random_(seed) {}

  /// Evenly spread over [-scale, scale).
  std::vector<float> operator()(std::size_t count, float scale = 1) {
    std::vector<float> drawn(count);
    for (float& value : drawn) value = (static_cast<float>(random_() >> 8U) * 0x1p-23F - 1) * scale;
    return drawn;
  }
  std::vector<std::int32_t> below(std::int32_t limit, std::size_t count) {
    std::vector<std::int32_t> drawn(count);
    for (auto& value : drawn) value = static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(limit));
    return drawn;
  }

 private:
  std::mt19937 random_;
};

/// Device memory of `size()` values; passes as a pointer to them.
template <typename T>
class tensor {
 public:
  tensor(device& on, std::size_t count) : memory_(on, memory_space::device, count * sizeof(T)) {}
  operator T*() const noexcept { return data(); }
  [[nodiscard]] T* data() const noexcept { return memory_.as<T>(); }
  [[nodiscard]] std::size_t size() const noexcept { return memory_.bytes() / sizeof(T); }

 private:
  memory memory_;
};

class ops_world {
 public:
  /// Between one tensor and the next `gap_bytes` are left free, so that worlds can differ in their addresses.
  explicit ops_world(unsigned compute_threads = 2, std::size_t gap_bytes = 0)
      : device_(make_host_device({.device_bytes = std::size_t{256} << 20,
                                  .pinned_bytes = std::size_t{1} << 20,
                                  .compute_threads = compute_threads,
                                  .check_order = true})),
        stream_(*device_, stream_kind::compute, "compute"),
        ops_(make_host_ops(*device_)),
        gap_bytes_(gap_bytes) {}

  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  ops* operator->() const noexcept { return ops_.get(); }

  template <typename T>
  tensor<T> upload(std::vector<T> const& from) {
    if (gap_bytes_ > 0) gaps_.emplace_back(*device_, memory_space::device, gap_bytes_);
    tensor<T> there(*device_, from.size());
    device_->order()->host_access(writes(there, from.size() * sizeof(T)), "upload");
    std::copy(from.begin(), from.end(), there.data());
    return there;
  }
  /// What an operation writes without reading it: any of it that stays shows.
  tensor<float> poisoned(std::size_t count) { return upload(std::vector<float>(count, not_a_number)); }

  template <typename T>
  std::vector<T> download(tensor<T> const& there) {
    stream_.synchronize();
    device_->order()->host_access(reads(there, there.size() * sizeof(T)), "download");
    return {there.data(), there.data() + there.size()};
  }

  void expect_ordered() const {
    stream_.synchronize();
    EXPECT_TRUE(device_->order_violations().empty()) << device_->order_violations().front();
  }

 private:
  std::unique_ptr<host_device> device_;
  ferry::stream stream_;
  std::unique_ptr<ops> ops_;
  std::size_t gap_bytes_;
  std::vector<memory> gaps_;
};

class OpsTest : public ::testing::Test {
 protected:
  void TearDown() override { world.expect_ordered(); }

  ops_world world;
  random_values random;
};

}  // namespace ferry::nn::testing
