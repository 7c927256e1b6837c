// A session on a checked host device, with one compute stream and kernels that say what they touch. Every
// test that uses it ends with a silent stream-order checker.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "ferry/ferry.hpp"
#include "support/test_devices.hpp"

namespace ferry::testing {

/// What items are filled with.
constexpr auto ones = std::byte{1};
constexpr auto twos = std::byte{2};

class SessionTest : public ::testing::Test {
 protected:
  static constexpr std::size_t item_bytes = 64 << 10;

  /// Budgets in items. Call once, first.
  void start(policy_kind policy, std::size_t budget_items, std::size_t pinned_items = 64, config settings = {}) {
    host_device_options options{.device_bytes = 4 << 20, .pinned_bytes = 8 << 20};
    options.before_operation = [this](label const& name) {
      if (before_operation) before_operation(name);
    };
    device_ = check_order ? make_checked_host(std::move(options)) : make_host_device(std::move(options));
    settings.policy.kind = policy;
    settings.budget = byte_amount::exactly(budget_items * item_bytes);
    settings.host_budget = byte_amount::exactly(pinned_items * item_bytes);
    settings.min_bytes = 0;
    settings.chunk_bytes = 16 << 10;
    settings.log = log_level::off;
    session_.emplace(*device_, settings);
    stream_.emplace(*device_, stream_kind::compute, "compute");
  }

  /// Also what a policy would keep as a segment's input.
  void drop_everything() {
    session_->set_placement([](item_info const&) { return placement::recompute; });
  }

  void TearDown() override {
    if (!device_) return;
    session_.reset();
    stream_.reset();
    EXPECT_EQ(wrong_bytes.load(), 0);
    EXPECT_TRUE(order_violations(*device_).empty()) << order_violations(*device_).front();
  }

  void fill(void* address, std::byte value, std::size_t bytes = item_bytes) {
    std::array const accesses{writes(address, bytes)};
    device_->launch(*stream_, "fill", accesses, [=] { std::fill_n(static_cast<std::byte*>(address), bytes, value); });
  }

  void expect(void const* address, std::byte value, std::size_t bytes = item_bytes) {
    std::array const accesses{reads(address, bytes)};
    device_->launch(*stream_, "expect", accesses, [=, this] {
      auto const* const begin = static_cast<std::byte const*>(address);
      wrong_bytes += static_cast<int>(std::count_if(begin, begin + bytes, [=](std::byte b) { return b != value; }));
    });
  }

  /// Allocates, fills and saves an item.
  lease save_filled(item_key const& key, std::byte value, recipe how = {}) {
    auto memory = session_->allocate(item_bytes, *stream_);
    fill(memory.data(), value);
    return session_->save(key, std::move(memory), *stream_, std::move(how));
  }

  /// Rebuilds an item as its first input plus `step`, or as `step` alone.
  recipe adding(std::byte step, item_list inputs) {
    return {[this, step](recipe_context const& context) {
              void const* const from = context.inputs.empty() ? nullptr : context.inputs[0];
              std::array const accesses{writes(context.output, context.bytes),
                                        reads(from, from == nullptr ? 0 : context.bytes)};
              device_->launch(context.stream, "rebuild", std::span(accesses).first(from == nullptr ? 1 : 2),
                              [=, to = context.output_as<std::byte>(), bytes = context.bytes] {
                                for (std::size_t i = 0; i < bytes; ++i) {
                                  auto const base = from == nullptr
                                                        ? 0
                                                        : std::to_integer<int>(static_cast<std::byte const*>(from)[i]);
                                  to[i] = static_cast<std::byte>(base + std::to_integer<int>(step));
                                }
                              });
            },
            inputs};
  }

  /// Restores, checks and releases an item.
  void restore_and_release(item_key const& key, std::byte value) {
    {
      auto back = session_->restore(key, *stream_);
      expect(back.data(), value);
    }
    session_->release(key);
  }

  bool check_order = true;                             // set before `start`
  std::function<void(label const&)> before_operation;  // runs on streams; set before work is enqueued
  std::atomic<int> wrong_bytes{0};
  std::unique_ptr<host_device> device_;
  std::optional<stream> stream_;
  std::optional<session> session_;
};

/// Runs `call`, which must throw an `Error` whose text contains each of `words`.
template <typename Error, typename Call, typename... Words>
void expect_error(Call call, Words... words) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (Error const& e) {
    for (std::string_view const word : {std::string_view(words)...}) {
      EXPECT_NE(std::string_view(e.what()).find(word), std::string_view::npos)
          << "'" << word << "' not in: " << e.what();
    }
  }
}

}  // namespace ferry::testing
