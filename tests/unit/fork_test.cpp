// fork() after a session was made: the child is told so, and may go without hanging; the parent goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "ferry/ferry.hpp"

namespace ferry {
namespace {

constexpr std::size_t item_bytes = 64 << 10;
constexpr unsigned hang_seconds = 60;

config settings() {
  config made;
  made.budget = byte_amount::exactly(16 * item_bytes);
  made.host_budget = byte_amount::exactly(16 * item_bytes);
  made.policy.kind = policy_kind::offload;
  made.log = log_level::off;
  return made;
}

/// A device, a stream, a session with a saved item, a block and a lease; and a thread for each stream.
struct trainer {
  trainer() {
    on->begin_step();
    held = on->allocate(item_bytes, *compute);
    kept = on->save({0, 0, "h"}, on->allocate(item_bytes, *compute), *compute);
  }
  std::unique_ptr<host_device> dev = make_host_device({.device_bytes = 4 << 20, .pinned_bytes = 4 << 20});
  std::optional<stream> compute{std::in_place, *dev, stream_kind::compute, "compute"};
  std::optional<session> on{std::in_place, *dev, settings()};
  block held;
  lease kept;
};

/// The C library takes the locks of its allocator before it forks. AddressSanitizer's has others, of which it knows
/// nothing: one that a thread holds, as a thread that is about to start does, stays locked in the child for ever.
void wait_until_others_sleep() {
#if defined(__SANITIZE_ADDRESS__)
  auto const is_awake = [](std::filesystem::path const& thread) {
    std::ifstream file(thread / "stat");
    std::string const text{std::istreambuf_iterator<char>(file), {}};
    auto const after_name = text.rfind(") ");
    return after_name != std::string::npos && text[after_name + 2] != 'S';
  };
  auto const others_awake = [&] {
    std::filesystem::directory_iterator const threads("/proc/self/task");
    return std::ranges::any_of(threads, [&](std::filesystem::path const& each) {
      return each.filename() != std::to_string(gettid()) && is_awake(each);
    });
  };
  while (others_awake()) std::this_thread::yield();
#endif
}

/// Runs in a child; its exit code, or minus the signal that ended it.
int in_child(std::function<int()> const& run) {
  wait_until_others_sleep();
  pid_t const child = fork();
  if (child == 0) {
    alarm(hang_seconds);
    _exit(run());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool refused(std::function<void()> const& call) {
  try {
    call();
  } catch (forked_process const& told) {
    std::string const text = told.what();
    return text.find("fork") != std::string::npos && text.find("child") != std::string::npos;
  }
  return false;
}

TEST(Fork, TheChildIsToldByEveryCallThatWouldNeedAThread) {
  trainer here;
  int const said = in_child([&] {
    item_key const key{0, 0, "h"};
    event const mark(*here.dev);
    int n = 0;
    for (auto const& call : std::initializer_list<std::function<void()>>{
             [&] { static_cast<void>(here.on->restore(key, *here.compute)); },
             [&] { static_cast<void>(here.on->allocate(item_bytes, *here.compute)); }, [&] { here.on->release(key); },
             [&] { here.on->end_step(); }, [&] { here.on->synchronize(); },
             [&] { static_cast<void>(here.on->stats()); }, [&] { here.compute->synchronize(); },
             [&] { mark.record(*here.compute); }, [&] { here.dev->synchronize(mark); },
             [&] { here.dev->launch(*here.compute, "late", {}, [] {}); },
             [&] { stream const another(*here.dev, stream_kind::compute, "another"); },
             [&] { session const another(*here.dev, settings()); }}) {
      ++n;
      if (!refused(call)) return n;
    }
    return 0;
  });
  EXPECT_EQ(said, 0) << "the call that was not refused, counted from 1, or minus a signal";
}

TEST(Fork, TheChildMayDestroyEverythingAndTheParentGoesOn) {
  trainer here;
  EXPECT_EQ(in_child([&] {
              here.kept = {};
              here.held = {};
              here.on.reset();
              here.compute.reset();
              here.dev.reset();
              return 0;
            }),
            0);
  here.kept.end();
  EXPECT_NE(here.on->restore({0, 0, "h"}, *here.compute).data(), nullptr);
  here.on->end_step();
  here.compute->synchronize();
}

TEST(Fork, AChildMakesADeviceAndASessionOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer takes the child's new threads for those of the parent's whose stacks they get";
#endif
  trainer const here;
  EXPECT_EQ(in_child([] {
              trainer own;
              own.kept.end();
              own.on->synchronize();
              bool const there = own.on->restore({0, 0, "h"}, *own.compute).data() != nullptr;
              own.on->end_step();
              own.held = {};
              return there ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace ferry
