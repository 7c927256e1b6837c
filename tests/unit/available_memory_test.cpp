// How much memory there is to be had, from files as the system writes them.
#include "support/available_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "support/mib.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::support {
namespace {

using ferry::testing::mib;

/// A system with such files.
class AvailableMemory : public ::testing::Test {
 protected:
  void file(std::string const& path, std::string const& text) {
    auto const full = folder_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << '\n';
  }
  void machine_has(std::size_t mebibytes) {
    file("proc/meminfo", "MemTotal:  99999999 kB\nMemFree:  1 kB\nMemAvailable:  " + std::to_string(mebibytes * 1024) +
                             " kB\nBuffers:  7 kB");
  }
  [[nodiscard]] available_memory found() const { return memory_available(folder_.path().string()); }

  testing::temporary_folder folder_;
};

TEST_F(AvailableMemory, OfAnUnknownSystemHasNoEnd) {
  EXPECT_EQ(found().bytes, std::numeric_limits<std::size_t>::max());
  file("proc/meminfo", "MemTotal:  100 kB");
  file("proc/self/statm", "1000 10 1");
  EXPECT_EQ(found().bytes, std::numeric_limits<std::size_t>::max());
}

TEST_F(AvailableMemory, IsWhatTheMachineCouldGive) {
  machine_has(300);
  EXPECT_EQ(found().bytes, 300 * mib);
  EXPECT_EQ(found().of, "this machine");
}

TEST_F(AvailableMemory, IncludesWhatTheProcessHolds) {
  machine_has(300);
  file("proc/self/statm", "9999 512 1");
  EXPECT_EQ(found().bytes, 300 * mib + 512 * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

TEST_F(AvailableMemory, IsLessInAControlGroup) {
  machine_has(300);
  file("proc/self/cgroup", "0::/a.slice/b");
  file("sys/fs/cgroup/a.slice/b/memory.max", "max");
  file("sys/fs/cgroup/a.slice/b/memory.current", std::to_string(80 * mib));
  EXPECT_EQ(found().bytes, 300 * mib) << "without a limit of its own";
  file("sys/fs/cgroup/a.slice/memory.max", std::to_string(200 * mib));
  file("sys/fs/cgroup/a.slice/memory.current", std::to_string(90 * mib));
  EXPECT_EQ(found().bytes, 110 * mib) << "of the group around it";
  EXPECT_EQ(found().of, "this process's control group");
  file("sys/fs/cgroup/a.slice/memory.stat", "anon 4096\nactive_file 10485760\ninactive_file 20971520");
  EXPECT_EQ(found().bytes, 140 * mib) << "pages of files can go";
  file("sys/fs/cgroup/a.slice/memory.current", std::to_string(900 * mib));
  EXPECT_EQ(found().bytes, 0u);
  machine_has(0);
  EXPECT_EQ(found().of, "this machine");
}

TEST_F(AvailableMemory, IsLessInAGroupOfTheFirstVersion) {
  machine_has(300);
  file("proc/self/cgroup", "4:memory:/docker/1\n0::/");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  file("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(90 * mib));
  EXPECT_EQ(found().bytes, 300 * mib);
  file("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", std::to_string(100 * mib));
  file("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", std::to_string(70 * mib));
  file("sys/fs/cgroup/memory/docker/1/memory.stat", "inactive_file 4096\ntotal_inactive_file 1048576");
  EXPECT_EQ(found().bytes, 31 * mib);
}

TEST(ThisMachinesMemory, IsKnown) {
  auto const here = memory_available();
  EXPECT_GT(here.bytes, mib);
  EXPECT_LT(here.bytes, std::numeric_limits<std::size_t>::max());
}

}  // namespace
}  // namespace ferry::support
