// The offset allocator: pairs of allocate and free a second, and what is left of the slab after a million.
//
// BM_Arena frees blocks in random order, which ages a slab as badly as can be; BM_ArenaSteps allocates and frees
// as activations do. How the slab aged is in the counters:
//   fragmentation  1 - largest free block / free bytes; after a million pairs, or the mean over all of the steps
//   lost           share of the slab that is still free when filling it up first fails
//   failed         requests that failed while the slab was kept at its occupancy
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "device/arena.hpp"

namespace {

using ferry::arena;
using random_engine = std::mt19937_64;

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t gib = 1024 * mib;
constexpr std::size_t aging_pairs = 1'000'000;

std::size_t uniform_bytes(random_engine& random) {
  return std::uniform_int_distribution<std::size_t>(arena::alignment, 4 * mib)(random);
}

std::size_t log_uniform_bytes(random_engine& random) {
  return static_cast<std::size_t>(std::exp2(std::uniform_real_distribution<>(8, 22)(random)));
}

// What one transformer block saves, in proportion: each norm's statistics, its input, q, k and v, attention's
// statistics and output, and the hidden layer of the MLP before and after its activation.
constexpr std::size_t block_tensor_bytes[] = {4 * kib, 1 * mib, 3 * mib, 64 * kib, 1 * mib,
                                              4 * kib, 1 * mib, 4 * mib, 4 * mib};

std::size_t transformer_bytes(random_engine& random) {
  return block_tensor_bytes[random() % std::size(block_tensor_bytes)];
}

using size_source = std::size_t (*)(random_engine&);

/// Keeps a slab at an occupancy by freeing random blocks. Sizes and victims are drawn beforehand: the
/// benchmark times the arena, not the generator.
class random_lives {
 public:
  random_lives(size_source source, double occupancy)
      : arena_(capacity, 1U << 17U), limit_(static_cast<std::size_t>(occupancy * static_cast<double>(capacity))) {
    random_engine random(1);
    sizes_.resize(1U << 16U);
    std::generate(sizes_.begin(), sizes_.end(), [&] { return source(random); });
    live_.reserve(1U << 17U);
  }

  /// One allocation, and as many frees as it takes to make room: one on average.
  void pair() {
    std::size_t const bytes = sizes_[next_++ % sizes_.size()];
    while (arena_.used_bytes() + bytes > limit_) free_random();
    if (auto const got = arena_.allocate(bytes)) {
      live_.push_back(*got);
    } else {
      ++failed_;
    }
  }

  void fill_up() {
    while (arena_.allocate(sizes_[next_++ % sizes_.size()])) {
    }
  }

  [[nodiscard]] arena const& slab() const { return arena_; }
  [[nodiscard]] std::size_t live_count() const { return live_.size(); }
  [[nodiscard]] std::size_t failed() const { return failed_; }

 private:
  static constexpr std::size_t capacity = 8 * gib;

  void free_random() {
    victim_ = victim_ * 6364136223846793005U + 1442695040888963407U;
    std::size_t const which = static_cast<std::size_t>((victim_ >> 32U) * live_.size() >> 32U);
    arena_.free(live_[which]);
    live_[which] = live_.back();
    live_.pop_back();
  }

  arena arena_;
  std::size_t limit_;
  std::vector<std::size_t> sizes_;
  std::vector<arena::block> live_;
  std::size_t next_ = 0;
  std::uint64_t victim_ = 1;
  std::size_t failed_ = 0;
};

double free_share(arena const& slab) {
  return static_cast<double>(slab.free_bytes()) / static_cast<double>(slab.capacity_bytes());
}

void BM_Arena(benchmark::State& state, size_source source) {
  random_lives lives(source, static_cast<double>(state.range(0)) / 100.0);
  for (std::size_t i = 0; i < aging_pairs; ++i) lives.pair();
  state.counters["fragmentation"] = lives.slab().fragmentation();
  state.counters["failed"] = static_cast<double>(lives.failed());
  state.counters["live"] = static_cast<double>(lives.live_count());

  for (auto _ : state) lives.pair();
  state.SetItemsProcessed(state.iterations());

  lives.fill_up();
  state.counters["lost"] = free_share(lives.slab());
}
BENCHMARK_CAPTURE(BM_Arena, random_transformer, transformer_bytes)->ArgName("occupancy")->Arg(50)->Arg(75)->Arg(85);
BENCHMARK_CAPTURE(BM_Arena, random_uniform, uniform_bytes)->ArgName("occupancy")->Arg(50)->Arg(75)->Arg(85);
BENCHMARK_CAPTURE(BM_Arena, random_log_uniform, log_uniform_bytes)->ArgName("occupancy")->Arg(50)->Arg(75)->Arg(85);

/// The life of activations: a chain of blocks saved forward and released in reverse. Half of the large tensors
/// are offloaded (their bytes go a few saves later, in no fixed order) and brought back two blocks ahead of use.
class activation_steps {
 public:
  explicit activation_steps(std::size_t capacity) : arena_(capacity), chain_(96) {
    for (auto& saved : chain_) saved.reserve(std::size(block_tensor_bytes));
  }

  void step() {
    for (auto& saved : chain_) save(saved);
    finish_offloads(0);
    for (std::size_t at = chain_.size(); at-- > 0;) {
      for (std::size_t ahead = 0; ahead <= std::min<std::size_t>(2, at); ++ahead) prefetch(chain_[at - ahead]);
      for (tensor const& used : chain_[at]) arena_.free(*used.place);
      chain_[at].clear();
    }
  }

  [[nodiscard]] std::size_t pairs() const { return pairs_; }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_bytes_; }
  [[nodiscard]] double mean_fragmentation() const { return fragmentation_sum_ / static_cast<double>(pairs_); }

 private:
  struct tensor {
    std::size_t bytes = 0;
    std::optional<arena::block> place;
  };

  void save(std::vector<tensor>& saved) {
    for (std::size_t const bytes : block_tensor_bytes) {
      saved.push_back({bytes, allocate(bytes)});
      if (bytes >= mib && random_() % 2 == 0) offloading_.push_back(&saved.back());
      finish_offloads(8);
    }
  }

  void finish_offloads(std::size_t most_in_flight) {
    while (offloading_.size() > most_in_flight) {
      auto const done =
          offloading_.begin() + static_cast<std::ptrdiff_t>(random_() % std::min<std::size_t>(4, offloading_.size()));
      arena_.free(*(*done)->place);
      (*done)->place.reset();
      offloading_.erase(done);
    }
  }

  void prefetch(std::vector<tensor>& saved) {
    for (tensor& wanted : saved) {
      if (!wanted.place) wanted.place = allocate(wanted.bytes);
    }
  }

  arena::block allocate(std::size_t bytes) {
    auto const got = arena_.allocate(bytes);
    if (!got) throw std::runtime_error("a step that should fit does not: the slab is too fragmented");
    ++pairs_;
    peak_bytes_ = std::max(peak_bytes_, arena_.used_bytes());
    fragmentation_sum_ += arena_.fragmentation();
    return *got;
  }

  arena arena_;
  std::vector<std::vector<tensor>> chain_;
  std::vector<tensor*> offloading_;
  random_engine random_{1};
  std::size_t pairs_ = 0;
  std::size_t peak_bytes_ = 0;
  double fragmentation_sum_ = 0;
};

/// `occupancy` is that of the step's peak. The time includes the simulation of the step.
void BM_ArenaSteps(benchmark::State& state) {
  activation_steps roomy(64 * gib);
  for (int i = 0; i < 100; ++i) roomy.step();
  activation_steps steps(roomy.peak_bytes() * 100 / static_cast<std::size_t>(state.range(0)));
  while (steps.pairs() < aging_pairs) steps.step();
  std::size_t const before = steps.pairs();
  for (auto _ : state) steps.step();
  state.SetItemsProcessed(static_cast<std::int64_t>(steps.pairs() - before));
  state.counters["fragmentation"] = steps.mean_fragmentation();
}
BENCHMARK(BM_ArenaSteps)->ArgName("occupancy")->Arg(50)->Arg(75)->Arg(90)->Unit(benchmark::kMicrosecond);

}  // namespace
