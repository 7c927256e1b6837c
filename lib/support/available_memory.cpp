#include "support/available_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>

#include "support/control_groups.hpp"

namespace ferry::support {

namespace {

std::optional<std::uint64_t> number_in(std::string const& file) {
  std::uint64_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return std::nullopt;  // there is none, or it says "max"
}

/// The sum of the lines of "NAME NUMBER" with those names.
std::uint64_t sum_in(std::string const& file, std::initializer_list<std::string_view> names) {
  std::uint64_t sum = 0;
  std::ifstream lines(file);
  std::string name;
  for (std::uint64_t number = 0; lines >> name >> number;) {
    if (std::ranges::find(names, name) != names.end()) sum += number;
  }
  return sum;
}

/// What a group's limit leaves; pages of files can be read again and do not count. None: it has no limit.
std::optional<std::uint64_t> left_by(std::string const& group) {
  auto limit = number_in(group + "/memory.max");
  auto used = number_in(group + "/memory.current");
  auto files = sum_in(group + "/memory.stat", {"active_file", "inactive_file"});
  if (!used) {
    limit = number_in(group + "/memory.limit_in_bytes");
    used = number_in(group + "/memory.usage_in_bytes");
    files = sum_in(group + "/memory.stat", {"total_active_file", "total_inactive_file"});
  }
  if (!limit || !used) return std::nullopt;
  std::uint64_t const held = *used - std::min(*used, files);
  return *limit - std::min(*limit, held);
}

std::optional<std::uint64_t> left_on_machine(std::string const& root) {
  std::ifstream lines(root + "/proc/meminfo");  // "MemAvailable:   23770640 kB"
  for (std::string line; std::getline(lines, line);) {
    std::uint64_t kib = 0;
    if (line.starts_with("MemAvailable:") && std::istringstream(line.substr(line.find(':') + 1)) >> kib)
      return kib << 10;
  }
  return std::nullopt;
}

std::uint64_t held_by_this_process(std::string const& root) {
  std::uint64_t all_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream(root + "/proc/self/statm") >> all_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

available_memory memory_available(std::string const& root) {
  available_memory found;
  auto const lower = [&](std::optional<std::uint64_t> left, std::string_view of) {
    if (left && *left < found.bytes) found = {*left, of};
  };
  lower(left_on_machine(root), "this machine");
  for (auto const& group : control_groups("memory", root)) lower(left_by(group), "this process's control group");
  std::uint64_t const unknown = std::numeric_limits<std::size_t>::max();
  found.bytes += std::min(unknown - found.bytes, held_by_this_process(root));
  return found;
}

}  // namespace ferry::support
