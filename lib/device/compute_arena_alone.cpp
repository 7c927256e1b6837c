#include "device/compute_arena.hpp"

namespace ferry {

struct compute_arena::inside {};

compute_arena::compute_arena(unsigned) {}
compute_arena::~compute_arena() = default;

void compute_arena::run(unique_function<void()>& work) { work(); }

}  // namespace ferry
