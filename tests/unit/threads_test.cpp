// How many threads computation may use, and where the number comes from.
#include "support/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <sched.h>
#include <stdlib.h>

#include "support/temporary_folder.hpp"

namespace ferry::support {
namespace {

unsigned threads(char const* num_threads, char const* limit = nullptr, unsigned cores = 8) {
  return threads_as_openmp(num_threads, limit, cores).threads;
}

TEST(Threads, AreAsManyAsOpenMPWouldUse) {
  EXPECT_EQ(threads(nullptr), 8u);
  EXPECT_EQ(threads("3"), 3u);
  EXPECT_EQ(threads(" 3 "), 3u);
  EXPECT_EQ(threads("+3"), 3u);
  EXPECT_EQ(threads("4,3,2"), 4u);
  EXPECT_EQ(threads("4 , 3"), 4u);
  EXPECT_EQ(threads("8"), 8u);
}

TEST(Threads, AreNoMoreThanThereAreCores) {
  EXPECT_EQ(threads("9"), 8u);
  EXPECT_EQ(threads("4294967297"), 8u);
  EXPECT_EQ(threads(nullptr, "100"), 8u);
}

TEST(Threads, KeepToTheLimit) {
  EXPECT_EQ(threads(nullptr, "5"), 5u);
  EXPECT_EQ(threads("6", "5"), 5u);
  EXPECT_EQ(threads("4", "5"), 4u);
}

TEST(Threads, IgnoreWhatOpenMPIgnores) {
  for (char const* wrong : {"", " ", "0", "-2", "two", "2x", "2;3", "2,", ",2", "2,0", "2,,3", "0x2", "1e1",
                            "99999999999999999999999", "auto", "+", "+-2"}) {
    SCOPED_TRACE(wrong);
    EXPECT_EQ(threads(wrong), 8u);
    EXPECT_EQ(threads("6", wrong), 6u);
  }
  EXPECT_EQ(threads("6", "2,3"), 6u);  // a limit is one number
}

TEST(Threads, SayWhereTheNumberComesFrom) {
  EXPECT_EQ(threads_as_openmp(nullptr, nullptr, 8).from, "cores of this process");
  EXPECT_EQ(threads_as_openmp("12", nullptr, 8).from, "cores of this process");
  EXPECT_EQ(threads_as_openmp("8", "8", 8).from, "OMP_NUM_THREADS");
  EXPECT_EQ(threads_as_openmp("3", nullptr, 8).from, "OMP_NUM_THREADS");
  EXPECT_EQ(threads_as_openmp("5", "2", 8).from, "OMP_THREAD_LIMIT");
  EXPECT_EQ(compute_threads(5).from, "FERRY_COMPUTE_THREADS");
}

TEST(Threads, LeaveACoreToTheCopiesUnlessSomebodySaysHowMany) {
  auto const left = [](char const* num_threads, unsigned cores) {
    return less_one_for_copies(threads_as_openmp(num_threads, nullptr, cores));
  };
  EXPECT_EQ(left(nullptr, 8).threads, 7u);
  EXPECT_EQ(left(nullptr, 8).from, "cores of this process but one, which is for copies");
  EXPECT_EQ(left(nullptr, 2).threads, 1u);
  EXPECT_EQ(left(nullptr, 1).threads, 1u);
  EXPECT_EQ(left(nullptr, 1).from, "cores of this process");
  EXPECT_EQ(left("8", 8).threads, 8u);
  EXPECT_EQ(left("9", 8).threads, 7u);  // more than there are says nothing
  EXPECT_EQ(left("3", 8).threads, 3u);
}

/// As long as it lives, a variable is another.
class environment {
 public:
  environment(char const* name, char const* value) : name_(name) {
    if (char const* const is = getenv(name)) before_ = is;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  environment(environment const&) = delete;
  environment& operator=(environment const&) = delete;
  ~environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  char const* name_;
  std::optional<std::string> before_;
};

TEST(Threads, AreReadFromTheEnvironment) {
  environment const no_limit("OMP_THREAD_LIMIT", nullptr);
  {
    environment const one("OMP_NUM_THREADS", "1,7");
    EXPECT_EQ(compute_threads(0).threads, 1u);
    EXPECT_EQ(compute_threads(0).from, "OMP_NUM_THREADS");
    EXPECT_EQ(compute_threads(5).threads, 5u);  // said for Ferry: taken as it stands
  }
  environment const none("OMP_NUM_THREADS", nullptr);
  EXPECT_EQ(threads_as_openmp().threads, usable_cores());
  EXPECT_EQ(compute_threads(0).threads, std::max(2u, usable_cores()) - 1);
}

TEST(Threads, KeepToTheAffinityMask) {
  unsigned found = 0;
  std::thread([&found] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    int core = 0;
    while (!CPU_ISSET(core, &mask)) ++core;
    CPU_ZERO(&mask);
    CPU_SET(core, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    found = usable_cores();
  }).join();
  EXPECT_EQ(found, 1u);
}

/// A system with such files.
class Quota : public ::testing::Test {
 protected:
  void file(std::string const& path, std::string const& text) {
    auto const full = folder_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << '\n';
  }
  [[nodiscard]] unsigned cores() const { return usable_cores(folder_.path().string()); }

  unsigned const all_ = usable_cores("/no/such/folder");
  testing::temporary_folder folder_;
};

TEST_F(Quota, OfNoGroupIsAllThereIs) {
  EXPECT_EQ(cores(), all_);
  file("proc/self/cgroup", "0::/");
  EXPECT_EQ(cores(), all_);
  file("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(cores(), all_);
  file("proc/self/cgroup", "what\n:\n0:cpuset:/x");
  EXPECT_EQ(cores(), all_);
}

TEST_F(Quota, OfAGroupCountsInWholeCores) {
  file("proc/self/cgroup", "0::/a.slice/b");
  file("sys/fs/cgroup/a.slice/b/cpu.max", "50000 100000");
  EXPECT_EQ(cores(), 1u);
  file("sys/fs/cgroup/a.slice/b/cpu.max", "100000000 100000");
  EXPECT_EQ(cores(), all_);
}

TEST_F(Quota, OfAGroupAroundCountsToo) {
  file("proc/self/cgroup", "0::/a.slice/b");
  file("sys/fs/cgroup/a.slice/b/cpu.max", "max 100000");
  file("sys/fs/cgroup/a.slice/cpu.max", "100000 100000");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(Quota, OfTheFirstVersionCountsToo) {
  file("proc/self/cgroup", "3:memory:/x\n2:cpuacct,cpu:/docker/1\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cores(), all_);
  file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "70000");
  EXPECT_EQ(cores(), 1u);
}

}  // namespace
}  // namespace ferry::support
