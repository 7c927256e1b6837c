// The world a random program runs in: a checked device with real time, or a sim device with real memory, with delays
// and faults on every stream; two compute streams, the trainer's own memory, and kernels that really write and compare.
// What goes wrong is collected, on whatever thread it is noticed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "explore/explored_device.hpp"
#include "ferry/error.hpp"
#include "ferry/host_device.hpp"
#include "ferry/session.hpp"
#include "ferry/sim_device.hpp"
#include "support/session_model.hpp"
#include "support/session_program.hpp"
#include "support/test_devices.hpp"
#include "support/weather.hpp"
#if defined(FERRY_CUDASIM)
#include "device/sim_machine.hpp"
#include "support/stepped_device.hpp"
#endif

namespace ferry::testing {

class session_world {
 public:
  static constexpr std::size_t trainers_bytes = std::size_t{64} << 20U;

  explicit session_world(program const& p)
      : sky(p.seed, p.delays_per_mille, std::max(p.longest_delay_us, 1U), p.faults),
        dev(p.explored.on ? make_explored(p)
            : p.simulated ? make_sim(p)
                          : make_host(p)),
        streams{stream(*dev, stream_kind::compute, "compute 0"), stream(*dev, stream_kind::compute, "compute 1")},
        janitor_(*dev, stream_kind::compute, "janitor"),
        dead_link_(p.explored.dead_link) {}
  session_world(session_world const&) = delete;
  session_world& operator=(session_world const&) = delete;
  /// Requires: no session uses the device any more.
  ~session_world() {
    for (auto& each : streams) stream const gone = std::move(each);  // their work is over before its memory goes
    for (auto const& each : trainers_memory_) dev->deallocate(memory_space::device, each.memory.address);
  }

  /// On an explored device each operation of a program draws from a number of its own: so, in a smaller program, those
  /// that are left meet nearly what they met before.
  void draw_from(std::uint64_t seed) {
    if (explored_ == nullptr) return;
    explored_->draw_from(seed);
    sky.draw_from(mixed(seed));
  }
  /// As long as what is returned lives, calls to an explored device may fail, if there is a storm: the session's.
  [[nodiscard]] auto in_the_open() { return exposure(explored_, sky.is_stormy()); }
  /// The trainer's own calls do not fail.
  [[nodiscard]] auto under_a_roof() { return exposure(explored_, false); }
  [[nodiscard]] std::vector<std::string> order_violations() const {
#if defined(FERRY_CUDASIM)
    if (explored_ != nullptr) return cudasim::violations();
#endif
    return explored_ != nullptr ? explored_->order_violations() : testing::order_violations(*dev);
  }
  void count_in(coverage& total) noexcept {
    if (explored_ != nullptr) explored_->count_in(total);
  }
  [[nodiscard]] bool is_lost() const noexcept { return lost_ || (explored_ != nullptr && explored_->is_lost()); }
  [[nodiscard]] std::uint64_t failed_calls() const noexcept {
    return explored_ != nullptr ? explored_->failed_calls() : 0;
  }

  /// Compares on the stream what is there with what should be.
  void compare(stream_ref on, void const* address, std::shared_ptr<content const> expected, std::string const& name) {
    std::array const accesses{reads(address, expected->size())};
    launch(on, "k compare", accesses, [this, address, expected = std::move(expected), name] {
      if (std::memcmp(address, expected->data(), expected->size()) == 0) return;
      auto const* const seen = static_cast<std::byte const*>(address);
      std::size_t at = 0;
      while (seen[at] == (*expected)[at]) ++at;
      problems.add("wrong bytes in " + name + " from " + std::to_string(at) + " of " +
                   std::to_string(expected->size()));
    });
    ++comparisons;
  }

  /// Writes an item on the stream, knowing what it is.
  void write(stream_ref on, void* address, std::shared_ptr<content const> bytes,
             std::shared_ptr<std::atomic<bool>> produced) {
    std::array const accesses{writes(address, bytes->size())};
    launch(on, "k write", accesses, [address, bytes = std::move(bytes), produced = std::move(produced)] {
      std::memcpy(address, bytes->data(), bytes->size());
      if (produced) produced->store(true);
    });
  }

  /// Computes an item on the stream from its inputs, or a range of its rows.
  void derive(stream_ref on, void* address, std::span<void const* const> inputs, std::shared_ptr<derivation const> how,
              std::shared_ptr<std::atomic<bool>> produced, std::size_t first_row = 0) {
    byte_range const which{first_row * (how->bytes / how->rows), how->bytes};
    std::vector<memory_access> accesses{
        writes(static_cast<std::byte const*>(address) + which.from, which.to - which.from)};
    std::vector<std::span<std::byte const>> sources;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      accesses.push_back(reads(inputs[i], how->input_bytes[i]));
      sources.emplace_back(static_cast<std::byte const*>(inputs[i]), how->input_bytes[i]);
    }
    launch(on, "k derive", accesses,
           [address, sources = std::move(sources), how = std::move(how), produced = std::move(produced), which] {
             compute({static_cast<std::byte*>(address), how->bytes}, how->seed, sources, which);
             if (produced) produced->store(true);
           });
  }

  /// Orders one stream after another; what was written is produced if the second stream gets there too.
  void cross(stream_ref from, stream_ref to, std::shared_ptr<std::atomic<bool>> written,
             std::shared_ptr<std::atomic<bool>> produced) {
    if (is_lost()) return;
    event const crossing(*dev);
    crossing.record(from);
    dev->wait(to, crossing);
    launch(to, "k arrive", {},
           [written = std::move(written), produced = std::move(produced)] { produced->store(written->load()); });
  }

  [[nodiscard]] recipe recipe_for(std::shared_ptr<derivation> how, std::vector<item_key> const& inputs) {
    std::size_t const rows = how->rows;
    return {[this, how = std::move(how)](recipe_context const& context) {
              if (context.bytes != how->bytes) problems.add("a recipe was given the wrong size");
              if (context.inputs.size() != how->input_bytes.size()) problems.add("a recipe was given other inputs");
              if (how->refusals.load() > 0) {
                how->refusals.fetch_sub(1);
                throw std::runtime_error("the recipe refuses");
              }
              if (context.first_row + context.rows != how->rows) problems.add("a recipe was asked for other rows");
              derive(context.stream, context.output, context.inputs, how, nullptr, context.first_row);
            },
            item_list(inputs), rows};
  }

  /// Memory of the trainer's own, and what tells him that it may go.
  std::pair<device_view, release_callback> adoptable(std::size_t bytes) {
    auto& made = trainers_memory_.emplace_back();
    made.memory = {dev->allocate(memory_space::device, bytes), bytes};
    return {made.memory, [this, &made](event_ref done) {
              ++made.returned;
              auto const safe = under_a_roof();
              if (is_lost()) return;
              // What the trainer does next with his memory: overwrite it at once, in the order that he was promised.
              if (done) dev->wait(janitor_, done);
              std::array const accesses{writes(made.memory.address, made.memory.bytes)};
              launch(janitor_, "k overwrite", accesses,
                     [view = made.memory] { std::memset(view.address, 0xDD, view.bytes); });
            }};
  }
  /// The memory was not saved after all.
  void keep_last_adoptable() { trainers_memory_.back().returned = 1; }
  [[nodiscard]] std::size_t adopted_count() const { return trainers_memory_.size(); }

  void expect_all_memory_returned_once() {
    for (auto const& each : trainers_memory_) {
      if (each.returned != 1) problems.add("on_release was called " + std::to_string(each.returned) + " times");
    }
  }

  /// Waits for every stream; a failure is returned, not thrown, and afterwards the streams work again.
  std::vector<std::string> settle() {
    std::vector<std::string> failures;
    for (stream_ref const each : {streams[0].ref(), streams[1].ref(), janitor_.ref()}) {
      if (is_lost()) break;
      try {
        dev->synchronize(each);
      } catch (deadlock_error const&) {
        if (!dead_link_) throw;
      } catch (stream_error const& failure) {
        // Memory may come back behind work that failed long ago; that is no failure of its own.
        if (each != janitor_.ref() || sky.strikes() == 0) failures.emplace_back(failure.what());
      }
    }
    return failures;
  }

  complaints problems;
  std::uint64_t comparisons = 0;
  weather sky;

 private:
  explored_device* explored_ = nullptr;  // the device, if it is one
  bool lost_ = false;                    // what stands behind it was
#if defined(FERRY_CUDASIM)
  std::array<sim_pace, 2> paces_;  // of the link's directions
  std::uint64_t cuda_calls_ = 0;
#endif

 public:
  std::unique_ptr<device> dev;
  std::array<stream, 2> streams;

 private:
  std::unique_ptr<device> make_host(program const& p) {
    auto made = make_real_device({.device_bytes = p.budget + trainers_bytes,
                                  .pinned_bytes = std::max<std::size_t>(p.host_budget, 4096),
                                  .device_to_host = p.device_to_host,
                                  .host_to_device = p.host_to_device,
                                  .compute_threads = 1,
                                  .before_operation = [this](label const& operation) { before(operation); }});
#if defined(FERRY_CUDASIM)
    cudasim::set_before_call([this](char const* function) { return before_call(function); });
#endif
    return made;
  }
  std::unique_ptr<sim_device> make_sim(program const& p) {
    return make_sim_device({.device_bytes = p.budget + trainers_bytes,
                            .pinned_bytes = std::max<std::size_t>(p.host_budget, 4096),
                            .device_to_host = p.device_to_host,
                            .host_to_device = p.host_to_device,
                            .kernel_cost = [this](label const&, auto) { return sky.delay(); },
                            .backed = true,
                            .recalls_copies = p.explored.recalls_copies,
                            .slow_downs = stalls_of(p),
                            .before_operation = [this](label const& operation) { before_simulated(operation); },
                            .quiet = p.explored.dead_link});
  }
  std::unique_ptr<device> make_explored(program const& p) {
    sky.break_link_at(p.explored.broken_at);
#if defined(FERRY_CUDASIM)
    auto made = make_explored_cuda(p);
#else
    auto simulated = make_sim(p);
    sim_device& clock = *simulated;
    auto made = std::make_unique<explored_device>(std::move(simulated), clock, p.explored, p.seed);
#endif
    explored_ = made.get();
    return made;
  }
  void before_simulated(label const& operation) {
    if (is_lost()) throw std::runtime_error("the device is lost");
    sky.strike(operation);
  }
  /// The link stands still, or nearly so, for some time.
  static std::vector<sim_slow_down> stalls_of(program const& p) {
    using namespace std::chrono_literals;
    std::vector<sim_slow_down> stalls;
    chance draw(p.seed);
    for (unsigned i = 0; i < p.explored.stalls; ++i) {
      bool const out = draw.below(2) == 0;
      auto const from = std::chrono::nanoseconds(draw.below(std::chrono::nanoseconds(20ms).count()));
      auto const span = std::chrono::nanoseconds(draw.up_to(std::chrono::nanoseconds(10ms).count()));
      double const factor = draw.below(2) == 0 ? sim_slow_down::standstill : static_cast<double>(2 + draw.below(50));
      stalls.push_back({out ? sim_engine::device_to_host : sim_engine::host_to_device, factor, from, from + span});
    }
    if (p.explored.dead_link) {
      auto const from = std::chrono::nanoseconds(draw.below(std::chrono::nanoseconds(5ms).count()));
      stalls.push_back({.what = draw.below(2) == 0 ? sim_engine::device_to_host : sim_engine::host_to_device,
                        .factor = sim_slow_down::standstill,
                        .from = from});
    }
    return stalls;
  }

#if defined(FERRY_CUDASIM)
  /// The CUDA device itself, over an emulation whose streams are advanced by this thread. Calls fail there.
  std::unique_ptr<explored_device> make_explored_cuda(program const& p) {
    cudasim::reset({.protect_device_memory = false, .kernels = cudasim::mode::serial, .stepped = true});
    for (auto const& each : stalls_of(p)) paces_[each.what == sim_engine::device_to_host ? 0 : 1].add(each);
    auto stepped = std::make_unique<stepped_device>(
        cuda_device_options{.device_bytes = p.budget + trainers_bytes,
                            .pinned_bytes = std::max<std::size_t>(p.host_budget, 4096),
                            .order = &cudasim::order()},
        stepped_costs{
            .launch = [this](label const&) { return sky.delay(); },
            .copy = [this, &p](std::string_view kind, std::size_t bytes) { return copy_cost(p, kind, bytes); }});
    cudasim::set_before_call([this, &p](char const* function) { return before_explored_call(p.explored, function); });
    exploration how = p.explored;
    how.failing_calls = 0;
    how.lost_at = 0;
    return std::make_unique<explored_device>(std::move(stepped), cudasim::clock(), how, p.seed);
  }
  std::chrono::nanoseconds copy_cost(program const& p, std::string_view kind, std::size_t bytes) const {
    bool const out = kind == "copy D2H";
    auto const& link = out ? p.device_to_host : p.host_to_device;
    if (link.gbps <= 0) return std::chrono::nanoseconds(0);
    auto const now = cudasim::clock().now();
    std::chrono::nanoseconds const span(std::llround(1e3 * link.latency_us + static_cast<double>(bytes) / link.gbps));
    auto const end = paces_[out ? 0 : 1].end_of(now, span);
    return std::min<std::chrono::nanoseconds>(end - now, std::chrono::hours(20));
  }
  cudaError_t before_explored_call(exploration const& how, std::string_view function) {
    if (explored_ == nullptr || !explored_->is_stormy()) return cudaSuccess;
    if (how.lost_at > 0 && ++cuda_calls_ == how.lost_at) {
      lost_ = true;
      cudasim::break_device(0, cudaErrorIllegalAddress);
    }
    // An error of any other call makes the device lost.
    for (auto const* const passing : {"cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent",
                                      "cudaEventCreateWithFlags", "cudaLaunchHostFunc", "cudaEventElapsedTime"}) {
      if (function == passing && sky.call_fails(how.failing_calls)) return cudaErrorInvalidValue;
    }
    return before_call(function);
  }
  // What is enqueued on a GPU runs: a copy fails, if at all, when it is enqueued, and a kernel in its own function.
  void before(label const&) { std::this_thread::sleep_for(sky.delay()); }
  cudaError_t before_call(std::string_view function) {
    try {
      if (function == "cudaMemcpyAsync") sky.strike("i");
      return cudaSuccess;
    } catch (std::runtime_error const&) {
      return cudaErrorInvalidValue;
    }
  }
  unique_function<void()> exposed(label const& name, unique_function<void()> work) {
    return [this, name, work = std::move(work)]() mutable {
      sky.strike(name);
      work();
    };
  }
#else
  void before(label const& operation) { sky(operation); }
  static unique_function<void()> exposed(label const&, unique_function<void()> work) { return work; }
#endif
  void launch(stream_ref on, label const& name, std::span<memory_access const> accesses, unique_function<void()> work) {
    if (is_lost()) return;
    dev->launch(on, name, accesses, exposed(name, std::move(work)));
  }

  struct owned_memory {
    device_view memory;
    int returned = 0;
  };
  std::deque<owned_memory> trainers_memory_;
  stream janitor_;
  bool const dead_link_;
};

}  // namespace ferry::testing
