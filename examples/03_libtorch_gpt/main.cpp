// A small GPT in LibTorch, trained with and without Ferry: peak bytes, times, and whether the gradients have the same
// bits.
//
// All ways take turns in one run, so that whatever else the machine does hits them alike; times are medians over the
// rounds. The last lines say what the adapter itself costs: beside a step that keeps everything, and per saved tensor.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baseline.hpp"
#include "gpt.hpp"
#include "memory.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

struct options {
  gpt_shape shape;
  int rounds = 15;
  int threads = 0;
  double link_gbps = 1;
  std::string budget = "40%";
  std::size_t memory_mib = 192;
  bool judge = false;
};

struct way {
  std::string name;
  std::string policy{};  // empty: without Ferry
  bool checkpoints = false;
  bool bounded = true;
  bool synchronous = false;
  std::optional<ferry::torch::session> session{};
  std::vector<double> ms{};
  std::size_t torch_peak_bytes = 0;
  std::size_t ferry_peak_bytes = 0;
  std::uint64_t out_bytes = 0;  // of the last step
  std::uint64_t back_bytes = 0;
  bool same = true;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

double ms_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

bool same_bits(at::Tensor const& a, at::Tensor const& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

std::shared_ptr<ferry::device> make_link(options const& with) {
  ferry::host_device_options made;
  made.device_bytes = made.pinned_bytes = with.memory_mib << 20;
  made.device_to_host = made.host_to_device = {with.link_gbps, 10};
  made.compute_threads = 1;
  return ferry::make_host_device(made);
}

ferry::torch::session make_session(std::shared_ptr<ferry::device> on, std::string const& policy, std::size_t budget) {
  ferry::config settings;
  settings.device = "host";
  settings.set("FERRY_POLICY", policy);
  settings.budget = ferry::byte_amount::exactly(budget);
  settings.host_budget = ferry::byte_amount::share(1);
  return {std::move(on), settings};
}

class contest {
 public:
  explicit contest(options const& with)
      : with_(with), memory_(counting_allocator::install()), baseline_link_(make_link(with)) {
    torch::manual_seed(1);
    model_ = gpt(with.shape);
    text_ = torch::randint(0, with.shape.vocabulary, {with.shape.batch, with.shape.context + 1}, torch::kLong);
    ways_.push_back({.name = "LibTorch"});
    ways_.push_back({.name = "Ferry, all kept", .policy = "keep", .bounded = false});
    ways_.push_back({.name = "save_on_cpu", .synchronous = true});
    ways_.push_back({.name = "Ferry, offload", .policy = "offload"});
    ways_.push_back({.name = "Ferry, auto", .policy = "auto"});
    ways_.push_back({.name = "Ferry, checkpoint+offload", .policy = "offload", .checkpoints = true});
  }

  void run() {
    find_budget();
    for (int round = 0; round < with_.rounds + 2; ++round) {  // two to warm up, and for `auto` to plan
      for (auto& each : ways_) take_turn(each, round >= 2);
    }
  }

  void print() const {
    auto const mib = [](auto bytes) { return static_cast<double>(bytes) / (1 << 20); };
    std::printf(
        "GPT of %lld layers, width %lld, context %lld, batch %lld; %d threads; link %.3g GB/s each way; "
        "median of %d steps\n\n",
        static_cast<long long>(with_.shape.layers), static_cast<long long>(with_.shape.width),
        static_cast<long long>(with_.shape.context), static_cast<long long>(with_.shape.batch), at::get_num_threads(),
        with_.link_gbps, with_.rounds);
    std::printf("%-26s %10s %8s %14s %14s %10s %10s  %s\n", "", "ms a step", "ratio", "LibTorch peak", "Ferry's share",
                "MiB out", "MiB back", "gradients identical");
    for (auto const& each : ways_) {
      std::printf("%-26s %10.1f %7.2fx %10.1f MiB %10.1f MiB %10.1f %10.1f  %s\n", each.name.c_str(), median(each.ms),
                  median(each.ms) / median(ways_[0].ms), mib(each.torch_peak_bytes), mib(each.ferry_peak_bytes),
                  mib(each.out_bytes), mib(each.back_bytes), each.same ? "yes" : "NO");
    }
    std::printf(
        "\nLibTorch peak: parameters, gradients and activations in LibTorch's memory; Ferry's share: activations in "
        "Ferry's care on\nthe device, where %.1f MiB are allowed (%s of what keeping all takes), in LibTorch's "
        "memory or its own.\n",
        mib(budget_bytes_), with_.budget.c_str());
  }

  [[nodiscard]] bool identical() const {
    return std::ranges::all_of(ways_, [](way const& each) { return each.same; });
  }
  /// How much longer a step takes with everything kept; turns of the same round are compared.
  [[nodiscard]] double kept_overhead() const { return paired(ways_[1], ways_[0]) - 1; }
  [[nodiscard]] double against_save_on_cpu() const { return paired(ways_[3], ways_[2]); }

 private:
  static double paired(way const& one, way const& other) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < one.ms.size(); ++i) ratios.push_back(one.ms[i] / other.ms[i]);
    return median(ratios);
  }

  /// A share is of what keeping all takes, which one step tells.
  void find_budget() {
    auto& keep = ways_[1];
    keep.session.emplace(make_session(make_link(with_), "keep", with_.memory_mib << 20));
    take_turn(keep, false);
    ferry::config settings;
    settings.set("FERRY_BUDGET", with_.budget);
    budget_bytes_ = settings.budget.of(keep.ferry_peak_bytes);
    for (auto& each : ways_) {
      if (each.policy.empty() || each.session) continue;
      each.session.emplace(make_session(make_link(with_), each.policy, budget_bytes_));
    }
    for (auto& each : ways_) {
      if (each.session) each.session->leave_alone(*model_);
    }
  }

  void take_turn(way& turn, bool counts) {
    torch::manual_seed(2);  // dropout is the same in every step
    model_->zero_grad();
    memory_.start();
    auto const begin = clock_type::now();
    if (turn.session) {
      ferry_step(turn);
    } else if (turn.synchronous) {
      save_on_cpu const hooks(*baseline_link_, min_bytes_);
      model_->forward(text_, false).backward();
      turn.out_bytes = hooks.copied().out;
      turn.back_bytes = hooks.copied().back;
    } else {
      model_->forward(text_, false).backward();
    }
    double const ms = ms_since(begin);
    if (counts) turn.ms.push_back(ms);
    turn.torch_peak_bytes = memory_.peak_bytes();
    compare(turn);
  }

  void ferry_step(way& turn) {
    auto& session = *turn.session;
    ferry::torch::session::step_scope step(session);
    at::Tensor loss;
    {
      ferry::torch::offload_guard const guard{session};
      loss = model_->forward(text_, turn.checkpoints);
    }
    loss.backward();
    step.end();
    auto const stats = session.stats();
    turn.ferry_peak_bytes = stats.device.peak_bytes;
    turn.out_bytes = stats.device_to_host.bytes - std::exchange(turn_out_[turn.name], stats.device_to_host.bytes);
    turn.back_bytes = stats.host_to_device.bytes - std::exchange(turn_back_[turn.name], stats.host_to_device.bytes);
  }

  void compare(way& turn) {
    std::vector<at::Tensor> gradients;
    for (auto const& parameter : model_->parameters()) gradients.push_back(parameter.grad().clone());
    if (first_.empty()) first_ = gradients;
    turn.same = turn.same && std::ranges::equal(first_, gradients, same_bits);
  }

  options with_;
  counting_allocator& memory_;
  std::shared_ptr<ferry::device> baseline_link_;
  gpt model_{nullptr};
  at::Tensor text_;
  std::vector<way> ways_;
  std::vector<at::Tensor> first_;
  std::map<std::string, std::uint64_t> turn_out_, turn_back_;
  std::size_t min_bytes_ = ferry::config{}.min_bytes;
  std::size_t budget_bytes_ = 0;
};

/// What one saved tensor costs, from save to release: a chain of operations too small to take time themselves.
double us_per_saved_tensor() {
  constexpr int operations = 512;
  auto const x = torch::rand({2048}).set_requires_grad(true);  // 8 KiB: above the threshold
  auto const pass = [&] {
    auto h = x * 1;
    for (int i = 0; i < operations; ++i) h = h.sin();
    h.sum().backward();
  };
  options small;
  small.memory_mib = 64;
  auto session = make_session(make_link(small), "keep", std::size_t{64} << 20);
  std::vector<double> plain, guarded;
  std::uint64_t stored = 0;
  for (int round = 0; round < 60; ++round) {
    auto begin = clock_type::now();
    pass();
    plain.push_back(ms_since(begin));
    ferry::torch::session::step_scope step(session);
    stored = session.adapter().stored;
    {
      ferry::torch::offload_guard const guard{session};
      begin = clock_type::now();
      pass();
      guarded.push_back(ms_since(begin));
    }
    stored = session.adapter().stored - stored;
    step.end();
  }
  return 1000 * (median(guarded) - median(plain)) / static_cast<double>(stored);
}

options parse(int count, char** values) {
  options with;
  CLI::App app("Trains a small GPT in LibTorch with and without Ferry, and compares peak bytes, times and gradients.");
  app.add_option("--layers", with.shape.layers, "blocks")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--width", with.shape.width, "features; divisible by --heads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--heads", with.shape.heads, "attention heads")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--context", with.shape.context, "tokens of a sequence")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch", with.shape.batch, "sequences")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--dropout", with.shape.dropout, "probability")->check(CLI::Range(0.0, 0.9))->capture_default_str();
  app.add_option("--rounds", with.rounds, "steps of each way that are measured")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--threads", with.threads, "of LibTorch's; 0: as many as it likes")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--link", with.link_gbps, "GB/s each way, for Ferry and save_on_cpu alike")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--budget", with.budget, "device bytes for activations: bytes, or a share of what keeping all takes")
      ->capture_default_str();
  app.add_option("--memory", with.memory_mib, "MiB that each session may have on the device, and pinned")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--judge", with.judge,
               "exit code 1 unless: kept overhead <= 2%, <= 3 us a saved tensor, offload not "
               "slower than save_on_cpu");
  try {
    app.parse(count, values);
    if (with.shape.width % with.shape.heads != 0) throw CLI::ValidationError("--width", "must be divisible by --heads");
  } catch (CLI::ParseError const& problem) {
    std::exit(app.exit(problem));
  }
  return with;
}

}  // namespace

int main(int count, char** values) try {
  auto const with = parse(count, values);
  if (with.threads > 0) at::set_num_threads(with.threads);
  contest all(with);
  all.run();
  all.print();
  double const kept = 100 * all.kept_overhead();
  double const each = us_per_saved_tensor();
  double const against = all.against_save_on_cpu();
  std::printf(
      "\neverything kept: %+.2f%% of the step; %.2f us for each saved tensor; offload takes %.2f times "
      "save_on_cpu's time\n",
      kept, each, against);
  if (!all.identical()) return 1;
  return with.judge && !(kept <= 2 && each <= 3 && against <= 1) ? 1 : 0;
} catch (std::exception const& problem) {
  std::fprintf(stderr, "03_libtorch_gpt: %s\n", problem.what());
  return 2;
}
