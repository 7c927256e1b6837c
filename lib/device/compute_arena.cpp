#include "device/compute_arena.hpp"

#include <tbb/task_arena.h>

namespace ferry {

struct compute_arena::inside {
  tbb::task_arena arena;
};

compute_arena::compute_arena(unsigned threads)
    : inside_(new compute_arena::inside{tbb::task_arena(static_cast<int>(threads))}) {
  inside_->arena.initialize();  // rather than in the first launch
}

compute_arena::~compute_arena() = default;

void compute_arena::run(unique_function<void()>& work) {
  inside_->arena.execute([&work] { work(); });
}

}  // namespace ferry
