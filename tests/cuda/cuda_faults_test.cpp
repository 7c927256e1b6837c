// Any call of CUDA's may fail, at any time. Whatever fails and whenever: no crash, no leak, an error with a type, and
// as long as the device is not lost, no item either: whoever calls again gets every byte.
//
// A small training is run once to count its calls, and then again for every one of them, with that one failing.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/cuda_fixture.hpp"

namespace ferry::testing {
namespace {

constexpr std::size_t item_bytes = 48 << 10;
constexpr std::uint32_t segments = 3;
constexpr int steps = 2;

/// What one run came to.
struct outcome {
  int errors = 0;     ///< that the trainer saw
  bool lost = false;  ///< the device, after one of them
  int wrong_bytes = 0;
  std::string untyped;  ///< an exception that is none of Ferry's
  std::map<std::string, std::size_t> calls;
};

/// A trainer who calls again what has failed, as long as there is a device.
class stubborn_trainer {
 public:
  outcome train() {
    try {
      run();
    } catch (error const&) {
      ++seen_.errors;
    } catch (std::exception const& other) {
      seen_.untyped = other.what();
    }
    session_.reset();
    compute_.reset();
    if (device_ != nullptr) seen_.lost = !device_->lost().empty();
    device_.reset();
    seen_.wrong_bytes = wrong_bytes_.load();
    seen_.calls = cudasim::calls();
    return seen_;
  }

 private:
  void run() {
    insist([&] {
      device_ = make_cuda_device({.device_bytes = 4 << 20, .pinned_bytes = 4 << 20, .order = &cudasim::order()});
    });
    insist([&] { compute_ = std::make_unique<stream>(*device_, stream_kind::compute, "compute"); });
    config settings;
    settings.policy.kind = policy_kind::offload;
    settings.budget = byte_amount::exactly(5 * item_bytes);
    settings.host_budget = byte_amount::exactly(16 * item_bytes);
    settings.chunk_bytes = 20'000;
    settings.min_bytes = 0;
    settings.log = log_level::off;
    insist([&] { session_ = std::make_unique<session>(*device_, settings); });
    session_->set_placement([](item_info const& item) {
      return item.key.name == label("rebuilt") ? placement::recompute : placement::offload;
    });
    for (int step = 0; step < steps; ++step) train_step();
    insist([&] { session_->synchronize(); });
    insist([&] { compute_->synchronize(); });
  }

  void train_step() {
    insist([&] { session_->begin_step(); });
    for (std::uint32_t s = 0; s < segments; ++s) {
      save(key(s, "input"), value_of(s), {});
      save(key(s, "rebuilt"), value_of(s), copying(key(s, "input")));
      save(key(s, "moved"), value_of(s), copying(key(s, "input")));
    }
    for (std::uint32_t s = segments; s-- > 0;) {
      use(key(s, "moved"), value_of(s));
      use(key(s, "rebuilt"), value_of(s));
      use(key(s, "input"), value_of(s));
    }
    insist([&] { session_->end_step(); });
  }

  static item_key key(std::uint32_t segment, char const* name) { return {0, segment, name}; }
  static std::byte value_of(std::uint32_t segment) { return static_cast<std::byte>(17 * (segment + 1)); }

  void save(item_key const& key, std::byte value, recipe how) {
    insist([&] {
      auto memory = session_->allocate(item_bytes, *compute_);
      std::array const accesses{writes(memory.data(), item_bytes)};
      device_->launch(*compute_, "fill", accesses,
                      [to = memory.as<std::byte>(), value] { std::fill_n(to, item_bytes, value); });
      session_->save(key, std::move(memory), *compute_, how ? copying(*how.inputs.keys().begin()) : recipe{}).end();
    });
  }

  recipe copying(item_key const& from) {
    return {[this](recipe_context const& to) {
              std::array const accesses{writes(to.output, to.bytes), reads(to.inputs[0], to.bytes)};
              device_->launch(to.stream, "copy", accesses,
                              [out = to.output_as<std::byte>(), in = to.input_as<std::byte>(0), bytes = to.bytes] {
                                std::copy_n(in, bytes, out);
                              });
            },
            item_list{from}};
  }

  void use(item_key const& key, std::byte value) {
    insist([&] {
      auto const back = session_->restore(key, *compute_);
      std::array const accesses{reads(back.data(), item_bytes)};
      device_->launch(*compute_, "expect", accesses, [this, at = back.as<std::byte>(), value] {
        if (!std::all_of(at, at + item_bytes, [&](std::byte b) { return b == value; })) ++wrong_bytes_;
      });
    });
    insist([&] { session_->release(key); });
  }

  void insist(std::function<void()> const& call) {
    for (int tries = 0;; ++tries) {
      try {
        return call();
      } catch (error const&) {
        bool const lost = device_ != nullptr && !device_->lost().empty();
        if (lost || tries == 3) throw;
        ++seen_.errors;
      }
    }
  }

  outcome seen_;
  std::atomic<int> wrong_bytes_{0};
  std::unique_ptr<cuda_device> device_;
  std::unique_ptr<stream> compute_;
  std::unique_ptr<session> session_;
};

void begin_anew() { cudasim::reset({.protect_device_memory = false}); }

/// Polls come as often as they come: enough of them to meet every place where one is made.
constexpr std::size_t most_of_a_kind = 150;

/// Everything but the harness's own calls.
std::map<std::string, std::size_t> calls_of_a_run() {
  begin_anew();
  auto const clean = stubborn_trainer().train();
  EXPECT_EQ(clean.errors, 0);
  EXPECT_EQ(clean.untyped, "");
  EXPECT_EQ(clean.wrong_bytes, 0);
  EXPECT_EQ(cudasim::live().text(), "nothing");
  EXPECT_THAT(cudasim::violations(), ::testing::IsEmpty());
  auto calls = clean.calls;
  for (char const* const harmless : {"cudaGetLastError", "cudaGetErrorName", "cudaGetErrorString"}) {
    calls.erase(harmless);
  }
  return calls;
}

template <typename Check>
void for_every_call(cudaError_t code, Check const& check) {
  std::size_t runs = 0;
  for (auto const& [function, count] : calls_of_a_run()) {
    for (std::size_t nth = 1; nth <= std::min(count, most_of_a_kind); ++nth) {
      SCOPED_TRACE(function + " number " + std::to_string(nth) + " fails");
      begin_anew();
      cudasim::fail(function, static_cast<int>(nth), code);
      auto const seen = stubborn_trainer().train();
      EXPECT_EQ(seen.untyped, "");
      EXPECT_EQ(seen.wrong_bytes, 0);
      check(function, seen);
      ++runs;
      if (::testing::Test::HasFailure()) return;
    }
  }
  std::printf("%zu runs\n", runs);
}

TEST(CudaFaults, ACallThatFailsOnceLosesNothing) {
  for_every_call(cudaErrorUnknown, [](std::string const& function, outcome const& seen) {
    bool const destroys = function.find("Destroy") != std::string::npos || function.find("Free") != std::string::npos;
    if (!destroys) {
      EXPECT_EQ(cudasim::live().text(), "nothing");  // a failed destruction leaves its object, and nothing else can
    }
    bool const tells_of_work = function == "cudaEventQuery" || function.find("Synchronize") != std::string::npos;
    if (!tells_of_work) {
      EXPECT_FALSE(seen.lost);
    }
    EXPECT_THAT(cudasim::violations(), ::testing::IsEmpty());
  });
}

TEST(CudaFaults, MemoryThatIsNotThereOnceIsAnError) {
  for (char const* const function : {"cudaMalloc", "cudaHostAlloc"}) {
    auto const count = calls_of_a_run()[function];
    EXPECT_GT(count, 0U);
    for (std::size_t nth = 1; nth <= count; ++nth) {
      begin_anew();
      cudasim::fail(function, static_cast<int>(nth), cudaErrorMemoryAllocation);
      auto const seen = stubborn_trainer().train();
      EXPECT_EQ(seen.errors, 1);
      EXPECT_EQ(seen.untyped, "");
      EXPECT_EQ(seen.wrong_bytes, 0);
      EXPECT_FALSE(seen.lost);
      EXPECT_EQ(cudasim::live().text(), "nothing");
    }
  }
}

TEST(CudaFaults, AnErrorThatStaysEndsTheRunWithATypedError) {
  for_every_call(cudaErrorIllegalAddress, [](std::string const&, outcome const&) {});
}

TEST(CudaFaults, TheDriverMayGoAtAnyCall) {
  auto const total = [] {
    std::size_t sum = 0;
    for (auto const& [function, count] : calls_of_a_run()) sum += std::min(count, most_of_a_kind);
    return sum;
  }();
  for (std::size_t nth = 1; nth <= total; nth += 3) {
    SCOPED_TRACE("the driver goes at call " + std::to_string(nth));
    begin_anew();
    std::atomic<std::size_t> made{0};
    cudasim::set_before_call([&](char const*) { return ++made >= nth ? cudaErrorCudartUnloading : cudaSuccess; });
    auto const seen = stubborn_trainer().train();
    EXPECT_EQ(seen.untyped, "");
    EXPECT_EQ(seen.wrong_bytes, 0);
    cudasim::set_before_call({});
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace ferry::testing
