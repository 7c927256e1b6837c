// Bad input: each mistake is a typed error that says what to change, and the session goes on.
#include <thread>

#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

using SessionErrors = SessionTest;

TEST_F(SessionErrors, ZeroBytes) {
  start(policy_kind::offload, 4);
  session_->begin_step();
  expect_error<invalid_argument>([&] { static_cast<void>(session_->allocate(0, *stream_, "h")); }, "'h'", "zero bytes");
}

TEST_F(SessionErrors, HugeSizesDoNotOverflow) {
  start(policy_kind::offload, 4);
  session_->begin_step();
  for (std::size_t const bytes : {~std::size_t{0}, ~std::size_t{0} - 300, std::size_t{1} << 62}) {
    expect_error<out_of_device_memory>([&] { static_cast<void>(session_->allocate(bytes, *stream_)); }, "FERRY_BUDGET");
  }
}

TEST_F(SessionErrors, BudgetSmallerThanOneItem) {
  start(policy_kind::offload, 1);
  session_->begin_step();
  expect_error<out_of_device_memory>([&] { static_cast<void>(session_->allocate(2 * item_bytes, *stream_, "wide")); },
                                     "'wide'", "128 KiB", "64.0 KiB", "raise FERRY_BUDGET");
}

TEST_F(SessionErrors, BudgetSmallerThanOneSegment) {
  start(policy_kind::offload, 2);
  session_->begin_step();
  auto const a = session_->allocate(item_bytes, *stream_);
  auto const b = save_filled({0, 0, "b"}, ones);
  expect_error<out_of_device_memory>([&] { static_cast<void>(session_->allocate(item_bytes, *stream_)); },
                                     "one segment needs at least 192 KiB", "FERRY_BUDGET");
}

TEST_F(SessionErrors, KeepSaysWhatWouldHelp) {
  start(policy_kind::keep, 2);
  session_->begin_step();
  save_filled({0, 0, "h"}, ones);
  save_filled({0, 1, "h"}, ones);
  expect_error<out_of_device_memory>([&] { save_filled({0, 2, "h"}, ones); }, "FERRY_POLICY=offload");
  restore_and_release({0, 1, "h"}, ones);
  save_filled({0, 2, "h"}, ones);  // the session goes on
}

TEST_F(SessionErrors, ExhaustedPinnedMemoryIsNamed) {
  start(policy_kind::offload, 3, 1);
  session_->begin_step();
  expect_error<out_of_device_memory>(
      [&] {
        for (std::uint32_t s = 0; s < 8; ++s) save_filled({0, s, "h"}, ones);
      },
      "FERRY_HOST_BUDGET");
  EXPECT_GT(session_->stats().count(reason::kept_pinned_full), 0);
}

TEST_F(SessionErrors, BudgetBeyondTheDevice) {
  start(policy_kind::offload, 1);
  config settings;
  settings.budget = byte_amount::exactly(std::size_t{1} << 40);
  expect_error<out_of_device_memory>([&] { session(*device_, settings); }, "FERRY_BUDGET", "lower it");
  settings.budget = byte_amount::exactly(item_bytes);
  settings.host_budget = byte_amount::exactly(std::size_t{1} << 40);
  expect_error<out_of_pinned_memory>([&] { session(*device_, settings); }, "FERRY_HOST_BUDGET", "lower it");
  settings.budget = byte_amount::exactly(0);
  expect_error<invalid_argument>([&] { session(*device_, settings); }, "FERRY_BUDGET");
}

TEST_F(SessionErrors, SavingAKeyTwice) {
  start(policy_kind::keep, 4);
  session_->begin_step();
  save_filled({0, 3, "h"}, ones);
  auto memory = session_->allocate(item_bytes, *stream_);
  expect_error<duplicate_key>(
      [&] {
        session_->save({0, 3, "h"}, std::move(memory), *stream_);
      },
      "h (segment 3", "saved already");
  EXPECT_TRUE(memory) << "the block is still the caller's";
}

TEST_F(SessionErrors, RestoringWhatIsNotThere) {
  start(policy_kind::keep, 4);
  session_->begin_step();
  expect_error<unknown_key>(
      [&] {
        static_cast<void>(session_->restore({1, 2, "h"}, *stream_));
      },
      "h (segment 2", "was not saved");
  save_filled({1, 2, "h"}, ones);
  session_->release({1, 2, "h"});
  expect_error<unknown_key>([&] { static_cast<void>(session_->restore({1, 2, "h"}, *stream_)); }, "has been released");
  expect_error<unknown_key>([&] { session_->release({1, 2, "h"}); }, "has been released");
}

TEST_F(SessionErrors, ForeignAndNullStreams) {
  start(policy_kind::keep, 4);
  auto const other = make_checked_host({.device_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  stream const foreign(*other, stream_kind::compute, "foreign");
  session_->begin_step();
  save_filled({0, 0, "h"}, ones);
  expect_error<invalid_argument>([&] { static_cast<void>(session_->restore({0, 0, "h"}, foreign)); }, "another device");
  expect_error<invalid_argument>([&] { static_cast<void>(session_->allocate(1, foreign)); }, "another device");
  expect_error<invalid_argument>([&] { static_cast<void>(session_->restore({0, 0, "h"}, stream_ref{})); }, "null");
}

TEST_F(SessionErrors, NullAndEmptyMemory) {
  start(policy_kind::keep, 4);
  session_->begin_step();
  expect_error<invalid_argument>(
      [&] {
        session_->save({0, 0, "h"}, device_view{nullptr, 64}, *stream_, {});
      },
      "null pointer");
  char byte = 0;
  expect_error<invalid_argument>(
      [&] {
        session_->save({0, 0, "h"}, device_view{&byte, 0}, *stream_, {});
      },
      "zero bytes");
  expect_error<invalid_argument>([&] { session_->save({0, 0, "h"}, block{}, *stream_); }, "empty");
}

TEST_F(SessionErrors, ABlockOfAnotherSession) {
  start(policy_kind::keep, 4);
  config settings;
  settings.budget = byte_amount::exactly(item_bytes);
  settings.host_budget = byte_amount::exactly(item_bytes);
  session other(*device_, settings);
  auto memory = other.allocate(256, *stream_);
  session_->begin_step();
  expect_error<invalid_argument>([&] { session_->save({0, 0, "h"}, std::move(memory), *stream_); }, "another session");
}

TEST_F(SessionErrors, StepsBeginBeforeTheyEnd) {
  start(policy_kind::keep, 4);
  expect_error<error>([&] { session_->end_step(); }, "begin_step");
  expect_error<error>([&] { static_cast<void>(session_->restore({0, 0, "h"}, *stream_)); }, "begin_step");
  session_->begin_step();
  expect_error<error>([&] { session_->begin_step(); }, "end_step");
}

TEST_F(SessionErrors, ARecipeThatThrows) {
  start(policy_kind::recompute, 4);
  session_->begin_step();
  bool broken = true;
  auto how = adding(ones, {});
  recipe faulty{[&, inner = std::make_shared<recipe>(std::move(how))](recipe_context const& context) {
                  if (broken) throw std::runtime_error("no random state");
                  inner->enqueue(context);
                },
                {}};
  save_filled({0, 0, "h"}, ones, std::move(faulty));
  expect_error<recipe_error>(
      [&] {
        static_cast<void>(session_->restore({0, 0, "h"}, *stream_));
      },
      "h (segment 0", "no random state");
  broken = false;
  restore_and_release({0, 0, "h"}, ones);  // nothing was lost
}

TEST_F(SessionErrors, RecipesInACircle) {
  start(policy_kind::recompute, 4);
  drop_everything();
  session_->begin_step();
  save_filled({0, 0, "a"}, ones, adding(ones, {{0, 1, "b"}}));
  save_filled({0, 1, "b"}, ones, adding(ones, {{0, 0, "a"}}));
  expect_error<recipe_error>(
      [&] {
        static_cast<void>(session_->restore({0, 1, "b"}, *stream_));
      },
      "circle", "b (segment 1", "a (segment 0");
}

TEST_F(SessionErrors, ARecipeWhoseInputIsGone) {
  start(policy_kind::recompute, 4);
  drop_everything();
  session_->begin_step();
  save_filled({0, 0, "x"}, ones);
  save_filled({0, 1, "h"}, std::byte{2}, adding(ones, {{0, 0, "x"}}));
  session_->release({0, 0, "x"});
  expect_error<recipe_error>(
      [&] {
        static_cast<void>(session_->restore({0, 1, "h"}, *stream_));
      },
      "h (segment 1", "needs x (segment 0");
}

TEST_F(SessionErrors, TooLongNames) {
  EXPECT_NO_THROW(static_cast<void>(item_key{0, 0, std::string(63, 'x')}));
  expect_error<invalid_argument>([] { static_cast<void>(item_key{0, 0, std::string(64, 'x')}); }, "longer than 63");
}

TEST_F(SessionErrors, SettingsThatNameAnotherDevice) {
  device_ = make_checked_host({.device_bytes = 4 << 20, .pinned_bytes = 8 << 20});
  config settings;
  settings.budget = byte_amount::exactly(item_bytes);
  for (char const* const other : {"sim", "cuda", "cuda:1"}) {
    settings.device = other;
    expect_error<invalid_argument>([&] { session const made(*device_, settings); }, other, "is given host",
                                   "make_device(settings)");
  }
  for (char const* const same : {"auto", "host"}) {
    settings.device = same;
    EXPECT_NO_THROW(session(*device_, settings));
  }
}

TEST_F(SessionErrors, AFailedKernelSurfacesWithItsName) {
  start(policy_kind::keep, 4);
  session_->begin_step();
  auto memory = session_->allocate(item_bytes, *stream_);
  std::array const accesses{writes(memory.data(), item_bytes)};
  device_->launch(*stream_, "layer norm", accesses, [] { throw std::runtime_error("not a number"); });
  session_->save({0, 0, "h"}, std::move(memory), *stream_);
  event const done(*device_);
  done.record(*stream_);
  while (device_->query(done) == event_status::pending) std::this_thread::yield();
  expect_error<stream_error>(
      [&] {
        static_cast<void>(session_->restore({0, 0, "h"}, *stream_));
      },
      "layer norm", "not a number");
}

TEST_F(SessionErrors, StatisticsNeedAWritableFile) {
  start(policy_kind::keep, 4);
  config settings;
  settings.budget = byte_amount::exactly(item_bytes);
  settings.stats_file = "/no/such/folder/stats.json";
  expect_error<setting_error>([&] { session(*device_, settings); }, "FERRY_STATS", "/no/such/folder/stats.json");
}

}  // namespace
}  // namespace ferry::testing
