// From settings to a device, and the link bandwidth that fits this machine when the settings leave it open.
// Owns nothing; any thread may call it.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ferry/config.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/host_device.hpp"
#include "ferry/sim_device.hpp"
#include "support/threads.hpp"

namespace ferry {

namespace {

// Sums in flight: enough to hide a multiply-add's latency on two pipes. Spelt out, because a compiler that
// does not unroll a loop over an array keeps the array in memory and measures that.
constexpr std::size_t chains = 10;

// Vectors of the compiler's own, of one register each; in structs, because attributes of a type get lost in templates.
struct vectors_16 {
  using type = float __attribute__((vector_size(16)));
};
struct vectors_32 {
  using type = float __attribute__((vector_size(32)));
};
struct vectors_64 {
  using type = float __attribute__((vector_size(64)));
};

/// Runs multiply-adds on such vectors and returns something that depends on all of them. Inlined into
/// each variant below, and so compiled for its instructions.
template <typename Vectors>
[[gnu::always_inline]] inline float multiply_add_rounds(std::size_t rounds) {
  using vector = typename Vectors::type;
  vector const factor = vector{} + 0.999F;
  vector const step = vector{} + 0.001F;
  vector a = step, b = step, c = step, d = step, e = step, f = step, g = step, h = step, i = step, j = step;
  for (std::size_t round = 0; round < rounds; ++round) {
    a = a * factor + step;
    b = b * factor + step;
    c = c * factor + step;
    d = d * factor + step;
    e = e * factor + step;
    f = f * factor + step;
    g = g * factor + step;
    h = h * factor + step;
    i = i * factor + step;
    j = j * factor + step;
  }
  vector const total = a + b + c + d + e + f + g + h + i + j;
  return total[0] + total[3];
}

// Chosen by hand rather than by target_clones, whose resolvers run before a sanitizer is ready for them.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) float multiply_add_avx512(std::size_t rounds) {
  return multiply_add_rounds<vectors_64>(rounds);
}
__attribute__((target("avx2,fma"))) float multiply_add_avx2(std::size_t rounds) {
  return multiply_add_rounds<vectors_32>(rounds);
}
#endif
float multiply_add_portable(std::size_t rounds) { return multiply_add_rounds<vectors_16>(rounds); }

struct multiply_add_variant {
  float (*run)(std::size_t rounds);
  std::size_t lanes;
};

multiply_add_variant fastest_variant() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {multiply_add_avx512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {multiply_add_avx2, 8};
#endif
  return {multiply_add_portable, 4};
}

/// GFLOP/s of one thread: the best of several short runs, because others may be using the machine.
double multiply_add_gflops() {
  using clock = std::chrono::steady_clock;
  constexpr std::size_t rounds = 20'000;
  auto const variant = fastest_variant();
  auto const operations = static_cast<double>(rounds * chains * variant.lanes * 2);
  auto const begin = clock::now();
  double best = 0;
  for (auto start = begin; start - begin < std::chrono::milliseconds(5);) {
    // The volatile sink keeps the compiler from dropping the loop.
    [[maybe_unused]] float volatile const sink = variant.run(rounds);
    auto const end = clock::now();
    best = std::max(best, operations / std::chrono::duration<double, std::nano>(end - start).count());
    start = end;
  }
  return best;
}

}  // namespace

double balanced_link_gbps(unsigned compute_threads) {
  // An A100 computes a 7B-class block (width 4096, 2-byte activations) at 187 TFLOP/s and moves its saved
  // bytes at 25 GB/s. Saved bytes per FLOP grow with the bytes of an element and fall with the width, as a
  // token's activations are proportional to the width and its FLOPs to the width squared. Models that run
  // on a CPU use 4-byte activations and a width of about 512, so the same ratio of transfer to compute
  // time wants a link that is 2 * 8 times faster for its FLOP/s. Matrix products reach about 0.8 of the
  // multiply-add peak that is measured here.
  constexpr double a100_gbps = 25;
  constexpr double a100_gflops = 187e3;
  constexpr double element_ratio = 4.0 / 2.0;
  constexpr double width_ratio = 4096.0 / 512.0;
  constexpr double product_efficiency = 0.8;
  constexpr double least_gbps = 0.05;
  constexpr double most_gbps = 50;

  double const gflops = product_efficiency * multiply_add_gflops() * support::compute_threads(compute_threads).threads;
  return std::clamp(gflops * (a100_gbps / a100_gflops) * element_ratio * width_ratio, least_gbps, most_gbps);
}

namespace {

/// Memory and links, which the host and the sim device have in common.
template <typename Options>
void set_sizes(Options& options, config const& settings, link_value const& gbps) {
  if (settings.device_bytes != 0) options.device_bytes = settings.device_bytes;
  if (settings.pinned_bytes != 0) options.pinned_bytes = settings.pinned_bytes;
  options.device_to_host = {gbps.device_to_host, settings.link_latency_us.device_to_host};
  options.host_to_device = {gbps.host_to_device, settings.link_latency_us.host_to_device};
}

/// GB/s to begin with.
link_value first_gbps(config const& settings, double automatic) {
  if (!settings.link_schedule.empty()) {
    auto const& first = settings.link_schedule.front();
    return {first.device_to_host, first.host_to_device};
  }
  if (settings.link_gbps.automatic) return {automatic, automatic};
  return settings.link_gbps;
}

}  // namespace

host_device_options host_options(config const& settings) {
  host_device_options options;
  options.compute_threads = settings.compute_threads;
  options.check_order = settings.check_order;
  bool const measure = settings.link_gbps.automatic && settings.link_schedule.empty();
  set_sizes(options, settings, first_gbps(settings, measure ? balanced_link_gbps(settings.compute_threads) : 0));
  return options;
}

sim_device_options sim_options(config const& settings) {
  constexpr double pcie4_gbps = 25;  // what 16 lanes carry of their 31.5 GB/s
  constexpr double a100_memory_gbps = 2039;
  sim_device_options options;
  set_sizes(options, settings, first_gbps(settings, pcie4_gbps));
  options.memory_gbps = a100_memory_gbps;
  options.backed = true;
  return options;
}

cuda_device_options cuda_options(config const& settings) {
  constexpr std::string_view numbered = "cuda:";
  cuda_device_options options;
  if (settings.device.starts_with(numbered)) options.ordinal = std::stoi(settings.device.substr(numbered.size()));
  options.device_bytes = settings.device_bytes;
  options.pinned_bytes = settings.pinned_bytes;
  options.calibrate = true;
  return options;
}

std::unique_ptr<device> make_device(config const& settings) {
  bool const automatic = settings.device == "auto";
  if (settings.device == "sim") return make_sim_device(sim_options(settings));
  if (settings.device.starts_with("cuda") || (automatic && find_cuda().why_not.empty())) {
    return make_cuda_device(cuda_options(settings));
  }
  return make_host_device(host_options(settings));
}

}  // namespace ferry
