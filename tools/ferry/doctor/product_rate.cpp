#include "doctor/product_rate.hpp"

namespace ferry::command {

double fixed_rows(hardware const& on, precision numbers) noexcept {
  constexpr double half_a_wave = 128;
  if (on.tflops <= 0 || on.memory_gbps <= 0) return half_a_wave;
  // Per weight: two reads, and a read and a write of its gradient, beside two operations of each row in three products.
  double const bytes = 4.0 * static_cast<double>(element_bytes(numbers));
  constexpr double operations = 6;
  return half_a_wave + bytes / operations * on.tflops * 1e3 / on.memory_gbps;
}

double slowdown_of_parts(model const& of, hardware const& on, int micro_batch) noexcept {
  double const fixed = fixed_rows(on, of.numbers);
  auto const time_of_a_row = [&](int sequences) { return 1 + fixed / (static_cast<double>(sequences) * of.context); };
  return time_of_a_row(micro_batch) / time_of_a_row(of.batch);
}

hardware for_parts(hardware on, model const& of, int micro_batch) {
  on.tflops /= slowdown_of_parts(of, on, micro_batch);
  return on;
}

}  // namespace ferry::command
