// Trainers whose functions compute at once, on the CPU: they write between allocate and save, read what restore gave,
// and have recipes that wait for the stream. What docs/linking.md asks of them is enough, under every policy, with a
// link that is late.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

class AtOnce : public SessionTest {
 protected:
  static constexpr std::uint32_t layers = 8;
  static constexpr std::size_t width = item_bytes / sizeof(std::uint32_t);

  static item_key key(std::uint32_t layer) { return {0, layer, "h"}; }

  /// Every value one more than that of the layer before.
  static void compute(std::uint32_t* to, std::uint32_t const* from, std::uint32_t first) {
    for (std::size_t i = 0; i < width; ++i) to[i] = (from != nullptr ? from[i] : first) + 1;
  }

  recipe rebuilding(std::uint32_t layer, std::uint32_t first) {
    auto const enqueue = [this, first](recipe_context const& to) {
      to.stream.owner()->synchronize(to.stream);
      compute(to.output_as<std::uint32_t>(), to.inputs.empty() ? nullptr : to.input_as<std::uint32_t>(0), first);
      ++rebuilt_;
    };
    recipe how;
    how.enqueue = enqueue;
    if (layer > 0) how.inputs = {key(layer - 1)};
    return how;
  }

  void train(std::uint32_t first) {
    session::step_scope step(*session_);
    lease before;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      block h = session_->allocate(item_bytes, *stream_);
      stream_->synchronize();  // somebody may still be using these bytes
      compute(h.as<std::uint32_t>(), before ? before.as<std::uint32_t>() : nullptr, first);
      before = session_->save(key(layer), std::move(h), *stream_, rebuilding(layer, first));
    }
    before.end();
    for (std::uint32_t layer = layers; layer-- > 0;) {
      lease const h = session_->restore(key(layer), *stream_);
      stream_->synchronize();  // the bytes may still be on their way
      auto const* const values = h.as<std::uint32_t>();
      wrong_ += std::count_if(values, values + width, [&](std::uint32_t value) { return value != first + layer + 1; });
      session_->release(key(layer));
    }
    step.end();
  }

  std::ptrdiff_t wrong_ = 0;
  int rebuilt_ = 0;
};

class AtOncePolicies : public AtOnce, public ::testing::WithParamInterface<policy_kind> {};

TEST_P(AtOncePolicies, FunctionsAndRecipesWaitForTheStreamAndNothingElse) {
  before_operation = [](label const&) { std::this_thread::sleep_for(std::chrono::microseconds(300)); };
  start(GetParam(), 4);
  for (std::uint32_t step = 0; step < 8; ++step) train(100 * step);
  EXPECT_EQ(wrong_, 0);
  if (GetParam() == policy_kind::recompute) {
    EXPECT_GT(rebuilt_, 0);
  } else if (GetParam() == policy_kind::offload) {
    EXPECT_GT(session_->stats().host_to_device.bytes, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, AtOncePolicies,
                         ::testing::Values(policy_kind::offload, policy_kind::recompute, policy_kind::automatic));

TEST_F(AtOnce, RecipesWaitForInputsOnTheirWay) {
  before_operation = [](label const&) { std::this_thread::sleep_for(std::chrono::microseconds(300)); };
  start(policy_kind::offload, 4);
  session_->set_placement(
      [](item_info const& item) { return item.key.segment % 2 == 1 ? placement::recompute : placement::offload; });
  for (std::uint32_t step = 0; step < 4; ++step) train(100 * step);
  EXPECT_EQ(wrong_, 0);
  EXPECT_GT(rebuilt_, 0);
  EXPECT_GT(session_->stats().host_to_device.bytes, 0u);
}

TEST_F(AtOnce, AllocatedBytesMayStillBeInUse) {
  before_operation = [](label const&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  start(policy_kind::keep, 1);
  session::step_scope step(*session_);
  block scratch = session_->allocate(item_bytes, *stream_);
  fill(scratch.data(), std::byte{1});
  auto* const there = scratch.data();
  scratch = {};
  block const h = session_->allocate(item_bytes, *stream_);
  ASSERT_EQ(h.data(), there);
  stream_->synchronize();  // the kernel has not even begun
  std::fill_n(h.as<std::byte>(), item_bytes, std::byte{2});
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(std::count(h.as<std::byte>(), h.as<std::byte>() + item_bytes, std::byte{2}), item_bytes);
}

}  // namespace
}  // namespace ferry::testing
