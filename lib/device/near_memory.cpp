#include "device/near_memory.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry {

int numa_node_of(std::string_view pci_bus_id, std::string const& sysfs) {
  std::string name(pci_bus_id);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::ifstream file(sysfs + "/bus/pci/devices/" + name + "/numa_node");
  int node = -1;
  return file >> node && node >= 0 ? node : -1;
}

near_memory::near_memory(int node) noexcept {
  if (node < 0 || static_cast<unsigned long>(node) >= most_nodes) return;
  constexpr unsigned long bits = 8 * sizeof(unsigned long);
  unsigned long wanted[most_nodes / bits]{};
  wanted[static_cast<unsigned long>(node) / bits] = 1UL << (static_cast<unsigned long>(node) % bits);
  // The system's calls themselves: libnuma has nothing to add to them. Where the kernel knows no nodes they fail.
  if (syscall(SYS_get_mempolicy, &mode_before_, nodes_before_, most_nodes, nullptr, 0UL) != 0) return;
  changed_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted, most_nodes) == 0;
}

near_memory::~near_memory() {
  if (changed_) syscall(SYS_set_mempolicy, mode_before_, nodes_before_, most_nodes);
}

}  // namespace ferry
