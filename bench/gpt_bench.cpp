// What training costs with Ferry, as ratios in one run: the same model with raw buffers and without Ferry; with
// everything kept, recomputed, and ferried over a link that carries it; and with raw buffers and plain copies of as
// many bytes; all in turns. `gpt_bench --help` tells the flags.
//
// The step is forward, backward and AdamW; the tokens are always the same. bench/against_torch compares the kept
// variant with PyTorch.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "ferry/nn/gpt.hpp"
#include "ferry/nn/ops.hpp"
#include "support/raw_gpt.hpp"

namespace {

using namespace ferry;

struct options {
  nn::gpt_shape shape{.layers = 4, .width = 256, .heads = 4, .context = 128, .vocabulary = 4096, .tied = false};
  int batch = 8;
  unsigned threads = 2;
  double link_gbps = 0;
  int rounds = 11;
  std::string attention = "tiled";
  std::string only;
  std::string json_file;
};

/// Parameters, gradients and moments of one model, and a step over them with whatever runs the pass.
class contestant {
 public:
  using pass = std::function<void()>;

  contestant(std::string called, device& on, stream_ref stream, nn::ops& with, std::size_t floats)
      : name(std::move(called)),
        device_(on),
        stream_(stream),
        ops_(with),
        floats_(floats),
        m_(on, memory_space::device, floats * sizeof(float)),
        v_(on, memory_space::device, floats * sizeof(float)),
        clip_(on, memory_space::device, 2 * sizeof(float)),
        norm_(on, memory_space::device, nn::ops::norm_workspace_doubles(floats) * sizeof(double)) {
    ops_.set_to_zero(stream, m_.as<float>(), floats);
    ops_.set_to_zero(stream, v_.as<float>(), floats);
    // PyTorch is measured without clipping, so the norm, which is 1 here, is taken once.
    ops_.gradient_norm(stream, clip_.as<float>(), m_.as<float>(), norm_.as<double>(), floats, 0);
    device_.synchronize(stream);
  }

  double step(pass const& run, float* parameters, float const* gradients) {
    auto const began = std::chrono::steady_clock::now();
    run();
    ++steps_;
    nn::adamw_step how{.learning_rate = 1e-4F, .beta2 = 0.999F, .weight_decay = 0.01F};
    how.correction1 = static_cast<float>(1 - std::pow(0.9, steps_));
    how.correction2 = static_cast<float>(1 - std::pow(0.999, steps_));
    ops_.adamw(stream_, parameters, gradients, m_.as<float>(), v_.as<float>(), clip_.as<float>(), floats_, how);
    device_.synchronize(stream_);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  }

  std::string name;
  std::vector<double> milliseconds;
  std::optional<session_stats> stats;
  double recompute_flops = 0;  ///< of a step

 private:
  device& device_;
  stream_ref stream_;
  nn::ops& ops_;
  std::size_t floats_;
  memory m_, v_, clip_, norm_;
  int steps_ = 0;
};

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_ratio(std::vector<double> const& of, std::vector<double> const& to) {
  std::vector<double> ratios(of.size());
  std::transform(of.begin(), of.end(), to.begin(), ratios.begin(), std::divides<>{});
  return median(std::move(ratios));
}

/// One of everything that takes a step.
struct variant {
  std::unique_ptr<contestant> timed;
  std::function<double()> step;
};

class bench {
 public:
  explicit bench(options const& chosen) : chosen_(chosen) {
    if (chosen.attention == "explicit") chosen_.shape.attention = nn::attention_form::whole;
    nn::require_valid(chosen_.shape);
    std::size_t const activations = 2 * raw_bytes();
    std::size_t const state = 4 * nn::parameter_layout(chosen_.shape).floats() * sizeof(float);
    device_ = make_host_device({.device_bytes = 6 * (state + activations) + (std::size_t{64} << 20),
                                .pinned_bytes = 2 * activations + (std::size_t{256} << 20),
                                .device_to_host = {chosen.link_gbps, 0},
                                .host_to_device = {chosen.link_gbps, 0},
                                .compute_threads = chosen.threads});
    compute_.emplace(*device_, stream_kind::compute, "compute");
    ops_ = nn::make_host_ops(*device_);
    tokens_ = memory(*device_, memory_space::device, 2 * rows() * sizeof(std::int32_t));
    for (std::size_t i = 0; i < rows(); ++i) {
      host_tokens_.push_back(static_cast<std::int32_t>(i * 7919 % chosen_.shape.vocabulary));
      host_targets_.push_back(static_cast<std::int32_t>(i * 104729 % chosen_.shape.vocabulary));
    }
    nn::staging(*device_, *compute_).upload(tokens_.data(), host_tokens_.data(), rows() * sizeof(std::int32_t));
    nn::staging(*device_, *compute_)
        .upload(tokens_.as<std::int32_t>() + rows(), host_targets_.data(), rows() * sizeof(std::int32_t));
  }

  void run() {
    for (char const* const name : {"raw", "keep", "recompute", "copies", "offload"}) {
      if (chosen_.only.empty() || chosen_.only == name) enter(name);
    }
    constexpr int warm_up = 3;
    for (int round = -warm_up; round < chosen_.rounds; ++round) {
      for (auto& one : variants_) {
        double const took = one.step();
        if (round >= 0) one.timed->milliseconds.push_back(took);
      }
    }
  }

  void report() const {
    double const flops = nn::flops_of_pass(chosen_.shape, chosen_.batch);
    fmt::print("{:<10} {:>10} {:>10} {:>9} {:>10} {:>12} {:>10}\n", "variant", "median ms", "GFLOP/s", "of first",
               "FLOPs", "device peak", "exposed ms");
    auto rows = nlohmann::ordered_json::array();
    for (auto const& one : variants_) {
      auto const& timed = *one.timed;
      double const ms = median(timed.milliseconds);
      double const ratio = median_ratio(timed.milliseconds, variants_.front().timed->milliseconds);
      double const work = 1 + timed.recompute_flops / flops;
      std::size_t const peak = timed.stats ? timed.stats->device.peak_bytes : 0;
      double const exposed = timed.stats ? timed.stats->exposed_us / 1000 / static_cast<double>(timed.stats->steps) : 0;
      fmt::print("{:<10} {:>10.1f} {:>10.0f} {:>8.3f}x {:>9.3f}x {:>12} {:>10.2f}\n", timed.name, ms,
                 flops * work / ms * 1e-6, ratio, work, format_bytes(peak), exposed);
      rows.push_back({{"variant", timed.name},
                      {"median_ms", ms},
                      {"ratio", ratio},
                      {"flops_ratio", work},
                      {"peak_device_bytes", peak},
                      {"ms", timed.milliseconds}});
    }
    if (!chosen_.json_file.empty()) std::ofstream(chosen_.json_file) << rows.dump(2) << '\n';
  }

 private:
  [[nodiscard]] std::size_t rows() const { return static_cast<std::size_t>(chosen_.batch) * chosen_.shape.context; }
  [[nodiscard]] std::size_t raw_bytes() const {
    std::size_t floats = 0;
    for (auto const& one : nn::describe_items(chosen_.shape, chosen_.batch)) floats += one.floats;
    return (floats * (chosen_.shape.layers + 2) + 8 * rows() * chosen_.shape.width) * sizeof(float);
  }

  void enter(std::string const& name) {
    auto model = std::make_shared<nn::gpt>(*device_, *compute_, *ops_, chosen_.shape, chosen_.batch);
    std::vector<float> initial(model->layout().floats());
    model->layout().initialize(initial, 1);
    nn::staging(*device_, *compute_).upload(model->parameters().data(), initial.data(), initial.size() * sizeof(float));
    auto& one = variants_.emplace_back();
    one.timed = std::make_unique<contestant>(name, *device_, *compute_, *ops_, initial.size());
    if (name == "raw") return enter_raw(one, model, [] {});
    if (name == "copies") return enter_raw(one, model, copies());
    enter_ferry(one, model);
  }

  /// The bytes that `offload` moves, moved by plain copies beside the computation, in no order with it: what the
  /// traffic itself costs.
  std::function<void()> copies() {
    std::size_t floats = 0;
    for (auto const& one : nn::describe_items(chosen_.shape, chosen_.batch)) floats += one.floats;
    std::size_t const bytes = floats * chosen_.shape.layers * sizeof(float);
    copied_ = memory(*device_, memory_space::device, bytes);
    pinned_ = memory(*device_, memory_space::pinned, bytes);
    out_.emplace(*device_, stream_kind::copy, "out");
    back_.emplace(*device_, stream_kind::copy, "back");
    return [this, bytes] {
      constexpr std::size_t chunk = std::size_t{1} << 20;
      for (std::size_t at = 0; at < bytes; at += chunk) {
        std::size_t const part = std::min(chunk, bytes - at);
        auto* const here = copied_.as<std::byte>() + at;
        auto* const there = pinned_.as<std::byte>() + at;
        device_->copy(*out_, "out", copy_direction::device_to_host, there, here, part);
        device_->copy(*back_, "back", copy_direction::host_to_device, here, there, part);
      }
    };
  }

  void enter_raw(variant& one, std::shared_ptr<nn::gpt> const& model, std::function<void()> beside) {
    auto raw = std::make_shared<testing::raw_gpt>(*device_, *compute_, *ops_, chosen_.shape, chosen_.batch);
    one.step = [this, model, raw, beside, timed = one.timed.get()] {
      beside();
      auto* const parameters = model->parameters().as<float>();
      auto* const gradients = model->gradients().as<float>();
      auto const* const tokens = tokens_.as<std::int32_t>();
      double const took =
          timed->step([&] { raw->pass(parameters, gradients, tokens, tokens + rows()); }, parameters, gradients);
      for (auto const* const copying : {&out_, &back_}) {
        if (*copying) (*copying)->synchronize();
      }
      return took;
    };
  }

  void enter_ferry(variant& one, std::shared_ptr<nn::gpt> const& model) {
    config settings;
    settings.set("FERRY_POLICY", one.timed->name);
    settings.budget = byte_amount::exactly(raw_bytes());
    settings.host_budget = byte_amount::exactly(raw_bytes());
    auto session = std::make_shared<ferry::session>(*device_, settings);
    auto const items = nn::describe_items(chosen_.shape, chosen_.batch);
    one.step = [this, model, session, items, timed = one.timed.get()] {
      double const before = nn::work_of(model->recomputed(), items).flops;
      double const took = timed->step(
          [&] {
            session->begin_step();
            model->pass(*session, host_tokens_, host_targets_, 0, 1);
            session->end_step();
          },
          model->parameters().as<float>(), model->gradients().as<float>());
      session->synchronize();
      timed->recompute_flops = nn::work_of(model->recomputed(), items).flops - before;
      timed->stats = session->stats();
      return took;
    };
  }

  options chosen_;
  std::unique_ptr<host_device> device_;
  std::optional<stream> compute_;
  std::optional<stream> out_, back_;
  std::unique_ptr<nn::ops> ops_;
  memory tokens_;           // (2, B, T)
  memory copied_, pinned_;  // of `copies`
  std::vector<std::int32_t> host_tokens_, host_targets_;
  std::vector<variant> variants_;
};

}  // namespace

int main(int argc, char** argv) {
  options chosen;
  CLI::App program("Training steps with and without Ferry, in turns.", "gpt_bench");
  program.add_option("--layers", chosen.shape.layers)->capture_default_str();
  program.add_option("--width", chosen.shape.width)->capture_default_str();
  program.add_option("--heads", chosen.shape.heads)->capture_default_str();
  program.add_option("--context", chosen.shape.context)->capture_default_str();
  program.add_option("--vocab", chosen.shape.vocabulary)->capture_default_str();
  program.add_option("--batch", chosen.batch)->capture_default_str();
  program.add_option("--threads", chosen.threads, "Compute threads")->capture_default_str();
  program.add_option("--link", chosen.link_gbps, "GB/s of the link, each way; 0: as fast as the machine copies")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  program.add_option("--rounds", chosen.rounds, "Timed steps of each variant")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  program.add_option("--attention", chosen.attention)
      ->check(CLI::IsMember({"tiled", "explicit"}))
      ->capture_default_str();
  program.add_option("--only", chosen.only, "One variant: raw, keep, recompute, copies or offload");
  program.add_option("--json", chosen.json_file, "Write the figures here too");
  CLI11_PARSE(program, argc, argv);
  try {
    bench all(chosen);
    all.run();
    all.report();
  } catch (std::exception const& problem) {
    fmt::print(stderr, "gpt_bench: {}\n", problem.what());
    return 1;
  }
}
