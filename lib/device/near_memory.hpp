// Memory of the NUMA node that a PCI device is attached to.
#pragma once

#include <string>
#include <string_view>

namespace ferry {

/// The node of the PCI device "0000:3b:00.0"; -1 where the machine does not tell.
[[nodiscard]] int numa_node_of(std::string_view pci_bus_id, std::string const& sysfs = "/sys");

/// As long as it lives, memory that the calling thread touches first comes from the node if that has room. Does nothing
/// for node -1, and on a system that knows no nodes.
class near_memory {
 public:
  explicit near_memory(int node) noexcept;
  near_memory(near_memory const&) = delete;
  near_memory& operator=(near_memory const&) = delete;
  ~near_memory();

 private:
  static constexpr unsigned long most_nodes = 1024;
  int mode_before_ = 0;
  unsigned long nodes_before_[most_nodes / (8 * sizeof(unsigned long))]{};
  bool changed_ = false;
};

}  // namespace ferry
