// Runs a grid of a kernel in fibers; see fibers.hpp.
#include "fibers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cuda_runtime.h"
#include "shared_memory.hpp"
#include "support/fiber.hpp"

namespace cudasim {

namespace {

constexpr int warp_lanes = 32;

enum class waits_for : std::uint8_t { nothing, barrier, warp, end };

struct cuda_thread {
  int number = 0;  ///< in the block
  uint3 index{};
  waits_for what = waits_for::nothing;
  // Of a barrier.
  char const* file = "";
  int line = 0;
  // Of a shuffle or a barrier of the warp.
  unsigned mask = 0;
  std::uint64_t bits = 0;
  int source = 0;
  bool is_barrier = false;  // of the warp

  std::unique_ptr<ferry::testing::fiber> own;

  [[nodiscard]] int lane() const noexcept { return number % warp_lanes; }
  [[nodiscard]] int warp() const noexcept { return number / warp_lanes; }
  [[nodiscard]] bool is_bit_of(unsigned lanes) const noexcept { return (lanes >> lane() & 1U) != 0; }
};

/// The fibers of one block, which run block after block.
class block_fibers {
 public:
  block_fibers(grid_run const& how, std::function<void()> const& body);
  block_fibers(block_fibers const&) = delete;
  block_fibers& operator=(block_fibers const&) = delete;
  ~block_fibers();

  void run_block();

  // By the thread that runs.
  void wait_at_barrier(char const* file, int line);
  std::uint64_t wait_in_warp(unsigned mask, std::uint64_t bits, int source, bool is_barrier);
  [[nodiscard]] access_time now() const;
  /// Once per run and text without numbers: a mistake in a loop would say the same a thousand times.
  void report(std::string const& text);
  [[nodiscard]] int current_lane() const { return current_->lane(); }
  shared_memory shared;

 private:
  void run_thread(cuda_thread& thread);
  void run_body();
  void resume(cuda_thread& thread);
  void pause() { current_->own->pause(); }

  bool run_ready_threads();
  bool release_warps();
  bool release_warp(int warp);
  void release_lanes(int warp, unsigned lanes);
  bool release_barrier();
  bool release_stuck_warp();
  [[nodiscard]] unsigned waiting_lanes(int warp, unsigned with_mask) const;
  [[nodiscard]] cuda_thread* thread_at(int warp, int lane);
  [[nodiscard]] std::size_t count(waits_for what) const;

  grid_run const& how_;
  std::function<void()> const& body_;
  std::vector<cuda_thread> threads_;
  std::vector<std::size_t> order_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> warp_epochs_;
  std::uint64_t block_epoch_ = 0;
  cuda_thread* current_ = nullptr;
  bool quit_ = false;
  std::set<std::string> reported_;
};

thread_local block_fibers* running = nullptr;

void order_threads(std::vector<std::size_t>& order, thread_order how, std::mt19937_64& random) {
  if (how == thread_order::shuffled) std::shuffle(order.begin(), order.end(), random);
}

std::vector<std::size_t> first_order(std::size_t count, thread_order how) {
  std::vector<std::size_t> result(count);
  std::iota(result.begin(), result.end(), std::size_t{0});
  if (how == thread_order::reverse) std::ranges::reverse(result);
  return result;
}

block_fibers::block_fibers(grid_run const& how, std::function<void()> const& body)
    : how_(how), body_(body), random_(how.seed) {
  std::size_t const count = std::size_t{how.block.x} * how.block.y * how.block.z;
  threads_.resize(count);
  order_ = first_order(count, how.order);
  warp_epochs_.resize((count + warp_lanes - 1) / warp_lanes);
  for (std::size_t i = 0; i < count; ++i) {
    auto const number = static_cast<unsigned>(i);
    threads_[i].number = static_cast<int>(i);
    threads_[i].index = {number % how.block.x, number / how.block.x % how.block.y,
                         number / (how.block.x * how.block.y)};
    threads_[i].own = std::make_unique<ferry::testing::fiber>([this, &thread = threads_[i]] { run_thread(thread); });
  }
}

block_fibers::~block_fibers() {
  quit_ = true;
  for (auto& each : threads_) resume(each);  // each returns
}

void block_fibers::run_thread(cuda_thread& thread) {
  while (!quit_) {
    run_body();
    thread.what = waits_for::end;
    pause();
  }
}

void block_fibers::run_body() {
  try {
    body_();
  } catch (std::exception const& cause) {
    report(fmt::format("kernel that throws: {}", cause.what()));
  }
}

void block_fibers::resume(cuda_thread& thread) {
  current_ = &thread;
  threadIdx = thread.index;
  thread.own->resume();
}

void block_fibers::wait_at_barrier(char const* file, int line) {
  char const* const slash = std::strrchr(file, '/');
  current_->file = slash != nullptr ? slash + 1 : file;
  current_->line = line;
  current_->what = waits_for::barrier;
  pause();
}

std::uint64_t block_fibers::wait_in_warp(unsigned mask, std::uint64_t bits, int source, bool is_barrier) {
  cuda_thread& own = *current_;
  if (!own.is_bit_of(mask)) {
    report(fmt::format("shuffle with absent lanes: lane {} is not in its own mask {:#x}", own.lane(), mask));
    return bits;
  }
  if (!is_barrier && (mask >> (source & (warp_lanes - 1)) & 1U) == 0) {
    report(fmt::format("shuffle with absent lanes: lane {} asks for lane {}, which is not in the mask {:#x}",
                       own.lane(), source, mask));
  }
  own.mask = mask;
  own.bits = bits;
  own.source = source;
  own.is_barrier = is_barrier;
  own.what = waits_for::warp;
  pause();
  return own.bits;
}

access_time block_fibers::now() const {
  return {current_->number, current_->warp(), block_epoch_, warp_epochs_[static_cast<std::size_t>(current_->warp())]};
}

void block_fibers::report(std::string const& text) {
  std::string kind;
  std::ranges::copy_if(text, std::back_inserter(kind), [](char c) { return c < '0' || c > '9'; });
  if (!reported_.insert(kind).second) return;
  sim().report(fmt::format("{} (kernel '{}', block {})", text, how_.kernel, blockIdx.x));
}

std::size_t block_fibers::count(waits_for what) const {
  return static_cast<std::size_t>(std::ranges::count(threads_, what, &cuda_thread::what));
}

cuda_thread* block_fibers::thread_at(int warp, int lane) {
  auto const index = static_cast<std::size_t>(warp * warp_lanes + lane);
  return index < threads_.size() ? &threads_[index] : nullptr;
}

bool block_fibers::run_ready_threads() {
  bool ran = false;
  order_threads(order_, how_.order, random_);
  for (auto const i : order_) {
    if (threads_[i].what != waits_for::nothing) continue;
    resume(threads_[i]);
    ran = true;
  }
  return ran;
}

unsigned block_fibers::waiting_lanes(int warp, unsigned with_mask) const {
  unsigned result = 0;
  for (auto const& each : threads_) {
    bool const waits = each.warp() == warp && each.what == waits_for::warp && each.mask == with_mask;
    if (waits) result |= 1U << each.lane();
  }
  return result;
}

void block_fibers::release_lanes(int warp, unsigned lanes) {
  std::uint64_t brought[warp_lanes] = {};
  bool is_barrier = false;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    if ((lanes >> lane & 1U) != 0) brought[lane] = thread_at(warp, lane)->bits;
  }
  for (int lane = 0; lane < warp_lanes; ++lane) {
    if ((lanes >> lane & 1U) == 0) continue;
    cuda_thread& each = *thread_at(warp, lane);
    bool const there = (lanes >> (each.source & (warp_lanes - 1)) & 1U) != 0;
    if (there) each.bits = brought[each.source & (warp_lanes - 1)];
    each.what = waits_for::nothing;
    is_barrier = is_barrier || each.is_barrier;
  }
  // A shuffle exchanges values, but orders no memory.
  if (is_barrier) ++warp_epochs_[static_cast<std::size_t>(warp)];
}

bool block_fibers::release_warp(int warp) {
  bool released = false;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    cuda_thread const* const each = thread_at(warp, lane);
    if (each == nullptr || each->what != waits_for::warp) continue;
    unsigned const mask = each->mask;
    if (waiting_lanes(warp, mask) != mask) continue;
    release_lanes(warp, mask);
    released = true;
  }
  return released;
}

bool block_fibers::release_warps() {
  bool released = false;
  for (int warp = 0; warp < static_cast<int>(warp_epochs_.size()); ++warp) released |= release_warp(warp);
  return released;
}

/// Nobody can go on, and lanes wait for others of their warp: these others will not come.
bool block_fibers::release_stuck_warp() {
  auto const stuck = std::ranges::find(threads_, waits_for::warp, &cuda_thread::what);
  if (stuck == threads_.end()) return false;
  unsigned const present = waiting_lanes(stuck->warp(), stuck->mask);
  report(fmt::format("shuffle with absent lanes: the mask {:#x} names lanes {:#x} that do not take part", stuck->mask,
                     stuck->mask & ~present));
  release_lanes(stuck->warp(), present);
  return true;
}

bool block_fibers::release_barrier() {
  std::size_t const waiting = count(waits_for::barrier);
  if (waiting == 0) return false;
  auto const first = std::ranges::find(threads_, waits_for::barrier, &cuda_thread::what);
  if (waiting != threads_.size()) {
    report(fmt::format("divergent barrier: {} threads wait at {}:{}, and {} have left the kernel", waiting, first->file,
                       first->line, threads_.size() - waiting));
  }
  for (auto& each : threads_) {
    if (each.what != waits_for::barrier) continue;
    bool const same = each.line == first->line && std::strcmp(each.file, first->file) == 0;
    if (!same) {
      report(fmt::format("divergent barrier: thread {} waits at {}:{}, thread {} at {}:{}", first->number, first->file,
                         first->line, each.number, each.file, each.line));
    }
    each.what = waits_for::nothing;
  }
  ++block_epoch_;
  return true;
}

void block_fibers::run_block() {
  shared.poison();
  ++block_epoch_;
  for (auto& each : threads_) each.what = waits_for::nothing;
  running = this;
  while (run_ready_threads() || release_warps() || release_stuck_warp() || release_barrier()) {
  }
  running = nullptr;
}

}  // namespace

void run_in_fibers(grid_run const& how, std::function<void()> const& thread_body) {
  std::size_t const blocks = std::size_t{how.grid.x} * how.grid.y * how.grid.z;
  auto order = first_order(blocks, how.order);
  std::mt19937_64 random(how.seed);
  order_threads(order, how.order, random);
  blockDim = how.block;
  gridDim = how.grid;
  block_fibers fibers(how, thread_body);
  for (auto const number : order) {
    auto const i = static_cast<unsigned>(number);
    blockIdx = {i % how.grid.x, i / how.grid.x % how.grid.y, i / (how.grid.x * how.grid.y)};
    fibers.run_block();
  }
}

namespace detail {

namespace {

block_fibers& of_this_thread(char const* what) {
  if (running == nullptr) throw ferry::error(fmt::format("{} outside of a kernel", what));
  return *running;
}

}  // namespace

void block_barrier(char const* file, int line) { of_this_thread("__syncthreads").wait_at_barrier(file, line); }
void warp_barrier(unsigned mask) { of_this_thread("__syncwarp").wait_in_warp(mask, 0, 0, true); }
std::uint64_t exchange(unsigned mask, std::uint64_t bits, int source) {
  return of_this_thread("a shuffle").wait_in_warp(mask, bits, source, false);
}
int lane() { return of_this_thread("a lane").current_lane(); }

shared_storage& shared_array_of_block(void const* declaration, std::size_t element_bytes, std::size_t count,
                                      char const* name) {
  return of_this_thread("shared memory").shared.find(declaration, element_bytes, count, name);
}

void read_shared(shared_storage& from, std::size_t index, void* to) {
  auto& block = of_this_thread("shared memory");
  auto const wrong = from.read(index, to, block.now());
  if (!wrong.empty()) block.report(wrong);
}

void write_shared(shared_storage& to, std::size_t index, void const* from) {
  auto& block = of_this_thread("shared memory");
  auto const wrong = to.write(index, from, block.now());
  if (!wrong.empty()) block.report(wrong);
}

}  // namespace detail

}  // namespace cudasim
