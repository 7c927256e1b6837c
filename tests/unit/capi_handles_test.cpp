// The table behind the C interface's handles, and statuses of exceptions that no test in C can bring about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "capi/handles.hpp"
#include "capi/status.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/device.hpp"

namespace ferry::capi {
namespace {

using ::testing::HasSubstr;

struct thing {
  static constexpr auto kind = handle_kind::plan;
  int value = 0;
  owned_slot slot{};
};

void* publish(thing& object) { return handles::publish(object.slot.index(), thing::kind, &object); }

TEST(CapiHandles, StandForTheirObjectUntilRetired) {
  thing object;
  void* const handle = publish(object);
  EXPECT_EQ(&*in_use<thing>(handle, "it"), &object);
  EXPECT_TRUE(handles::retire(handle, 0));
  EXPECT_THROW(in_use<thing>(handle, "it"), refusal);
  EXPECT_FALSE(handles::retire(handle, 0));
}

TEST(CapiHandles, AreNotRetiredWhileInUse) {
  thing object;
  void* const handle = publish(object);
  {
    in_use<thing> first(handle, "it");
    in_use<thing> second(handle, "it");
    EXPECT_FALSE(first.retire());
    in_use<thing> const moved = std::move(second);
    EXPECT_FALSE(first.retire());
  }
  in_use<thing> last(handle, "it");
  EXPECT_TRUE(last.retire());
  EXPECT_FALSE(last);
}

TEST(CapiHandles, OfASlotAreNewEachTime) {
  thing object;
  std::set<void*> seen;
  for (int i = 0; i < 10'000; ++i) {
    void* const handle = publish(object);
    EXPECT_TRUE(seen.insert(handle).second);
    ASSERT_TRUE(handles::retire(handle, 0));
  }
}

TEST(CapiHandles, LookLikeNoAddress) {
  thing object;
  void* const handle = publish(object);
  EXPECT_TRUE(handles::looks_like_one(handle));
  EXPECT_FALSE(handles::looks_like_one(&object));
  EXPECT_FALSE(handles::looks_like_one(nullptr));
  ASSERT_TRUE(handles::retire(handle, 0));
}

TEST(CapiHandles, ThereAreMoreThanOnePageOf) {
  std::vector<std::unique_ptr<thing>> things;
  std::vector<void*> all;
  for (int i = 0; i < 10'000; ++i) {
    things.push_back(std::make_unique<thing>());
    things.back()->value = i;
    all.push_back(publish(*things.back()));
  }
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_EQ(in_use<thing>(all[static_cast<std::size_t>(i)], "it")->value, i);
    ASSERT_TRUE(handles::retire(all[static_cast<std::size_t>(i)], 0));
  }
}

/// Some use a handle while one retires it and gives the slot to another object: nobody sees the wrong one.
TEST(CapiHandles, AreSafeAmongThreads) {
  thing first{.value = 1};
  std::atomic<void*> handle = publish(first);
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i) {
    users.emplace_back([&] {
      while (!over) {
        try {
          in_use<thing> const used(handle, "it");
          if (used->value != 1) ++wrong;
        } catch (refusal const&) {
        }
      }
    });
  }
  for (int i = 0; i < 2'000; ++i) {
    void* const old = handle;
    while (!handles::retire(old, 0)) std::this_thread::yield();
    first.value = 2;  // nobody uses it now
    first.value = 1;
    handle = publish(first);
  }
  over = true;
  for (auto& user : users) user.join();
  EXPECT_EQ(wrong, 0);
  ASSERT_TRUE(handles::retire(handle, 0));
}

template <typename Exception>
ferry_status status_of(Exception const& thrown) {
  return guarded("ferry_call", [&] { throw thrown; });
}

TEST(CapiStatus, NamesTheKindOfFailure) {
  EXPECT_EQ(status_of(transfer_error("lost")), FERRY_ERROR_TRANSFER);
  EXPECT_STREQ(ferry_last_error(), "lost");
  EXPECT_EQ(status_of(deadlock_error("stuck")), FERRY_ERROR_DEADLOCK);
  EXPECT_EQ(status_of(cuda_error("failed", {})), FERRY_ERROR_CUDA);
  EXPECT_EQ(status_of(internal_error("broken")), FERRY_ERROR_INTERNAL);
  EXPECT_EQ(status_of(error("not now")), FERRY_ERROR_WRONG_STATE);
  EXPECT_EQ(status_of(std::bad_alloc()), FERRY_ERROR_OUT_OF_HOST_MEMORY);
  EXPECT_THAT(ferry_last_error(), HasSubstr("ferry_call"));
  EXPECT_EQ(status_of(std::logic_error("what")), FERRY_ERROR_INTERNAL);
  EXPECT_THAT(ferry_last_error(), HasSubstr("a bug in Ferry"));
  EXPECT_EQ(status_of(42), FERRY_ERROR_INTERNAL);
  EXPECT_EQ(status_of(out_of_device_memory("full", 7, 5)), FERRY_ERROR_OUT_OF_DEVICE_MEMORY);
  std::uint64_t needed = 0;
  std::uint64_t limit = 0;
  ferry_last_error_bytes(&needed, &limit);
  EXPECT_EQ(needed, 7);
  EXPECT_EQ(limit, 5);
}

TEST(CapiStatus, CutsWordsThatAreTooLong) {
  EXPECT_EQ(status_of(error(std::string(10'000, 'x'))), FERRY_ERROR_WRONG_STATE);
  EXPECT_EQ(std::string(ferry_last_error()).size(), 2047);
  EXPECT_EQ(status_of(error("short")), FERRY_ERROR_WRONG_STATE);
  EXPECT_STREQ(ferry_last_error(), "short");
}

}  // namespace
}  // namespace ferry::capi
