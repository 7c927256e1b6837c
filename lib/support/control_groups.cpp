#include "support/control_groups.hpp"

#include <fmt/format.h>

#include <fstream>

namespace ferry::support {

std::vector<std::string> control_groups(std::string_view controller, std::string const& root) {
  std::vector<std::string> folders;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // NUMBER:CONTROLLERS:PATH
    auto const first = line.find(':');
    auto const second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    auto const controllers = fmt::format(",{},", std::string_view(line).substr(first + 1, second - first - 1));
    std::string top = root + "/sys/fs/cgroup";
    if (controllers.find(fmt::format(",{},", controller)) != std::string::npos) {
      top.append("/").append(controller);
    } else if (controllers != ",,") {  // of the second version, which has all controllers in one place
      continue;
    }
    std::string path = line.substr(second + 1);
    for (;;) {
      folders.push_back(top + path);
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return folders;
}

}  // namespace ferry::support
