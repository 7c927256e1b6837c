// Hardware by name, out of the catalogue that ships with the library.
#include "ferry/plan.hpp"
#include "plan/gpus.hpp"

namespace ferry {

hardware named_hardware(std::string_view name) {
  return planning::hardware_of(planning::gpu_catalogue::shipped().find(name));
}

std::vector<std::string> hardware_names() { return planning::gpu_catalogue::shipped().names(); }

}  // namespace ferry
