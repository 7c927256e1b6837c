#include "contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

namespace matmul_chain {

namespace {

// In its first step a session learns the order of backward, how long recipes take and how fast the link is;
// in the second it first acts on that.
constexpr unsigned learning_steps = 2;
constexpr unsigned reference_steps = 3;

}  // namespace

contest::contest(ferry::device& on, ferry::stream_ref stream, chain& model, progress report)
    : device_(on), stream_(stream), chain_(model), report_(std::move(report)) {}

void contest::enter(std::string policy, ferry::config settings, ferry::placement_function placement) {
  auto& entered = entrants_.emplace_back();
  entered.result.policy = std::move(policy);
  try {
    entered.session.emplace(device_, std::move(settings));
    if (placement) entered.session->set_placement(std::move(placement));
  } catch (ferry::out_of_memory const& problem) {
    entered.result.failure = problem.what();
    entered.session.reset();
  }
}

double contest::run_reference() {
  auto& reference = entrants_.front();
  if (!reference.session) throw ferry::error(reference.result.failure);
  std::vector<double> forward_us;
  for (unsigned i = 0; i < reference_steps; ++i) {
    report_(fmt::format("{}: step {} of {}", reference.result.policy, i + 1, reference_steps));
    step(*reference.session);
    forward_us.push_back(chain_.forward_us());
  }
  keep_results();
  return median(forward_us);
}

void contest::run(unsigned timed_steps) {
  for (unsigned i = 0; i < learning_steps; ++i) run_round(false, fmt::format("warm-up {}/{}", i + 1, learning_steps));
  for (auto& runner : entrants_) {
    if (runner.session) runner.result.before = runner.session->stats();
  }
  for (unsigned i = 0; i < timed_steps; ++i) run_round(true, fmt::format("round {}/{}", i + 1, timed_steps));
  for (auto& runner : entrants_) {
    if (runner.session) runner.result.after = runner.session->stats();
  }
}

void contest::run_round(bool timed, std::string const& title) {
  for (auto& runner : entrants_) {
    if (!runner.session) continue;
    report_(fmt::format("{}: {}", title, runner.result.policy));
    attempt(runner, timed);
  }
}

void contest::attempt(entrant& runner, bool timed) {
  try {
    double const took_us = step(*runner.session);
    if (timed) runner.result.step_us.push_back(took_us);
    if (!matches_reference()) runner.result.identical = false;
  } catch (ferry::out_of_memory const& problem) {
    runner.result.failure = problem.what();
    runner.result.after = runner.session->stats();
    runner.session.reset();
  }
}

double contest::step(ferry::session& session) {
  chain_.spoil_gradients();
  device_.synchronize(stream_);
  auto const began = std::chrono::steady_clock::now();
  try {
    chain_.step(session);
  } catch (...) {
    // Kernels already enqueued still use the session's memory, which may be given back next.
    device_.synchronize(stream_);
    throw;
  }
  auto const ended = std::chrono::steady_clock::now();
  session.synchronize();  // what is still moving would take the link from whoever is next
  return std::chrono::duration<double, std::micro>(ended - began).count();
}

void contest::keep_results() {
  auto const& from = chain_.gradients();
  reference_gradients_.resize(from.bytes() / sizeof(float));
  std::array const accesses{ferry::reads(from.data(), from.bytes())};
  device_.launch(stream_, "keep gradients", accesses,
                 [this, &from] { std::memcpy(reference_gradients_.data(), from.data(), from.bytes()); });
  device_.synchronize(stream_);
  reference_loss_ = chain_.loss();
}

bool contest::matches_reference() {
  auto const& now = chain_.gradients();
  bool same = std::bit_cast<std::uint64_t>(chain_.loss()) == std::bit_cast<std::uint64_t>(reference_loss_);
  std::array const accesses{ferry::reads(now.data(), now.bytes())};
  device_.launch(stream_, "compare gradients", accesses, [this, &now, &same] {
    same = same && std::memcmp(now.data(), reference_gradients_.data(), now.bytes()) == 0;
  });
  device_.synchronize(stream_);
  return same;
}

std::vector<outcome> contest::outcomes() const {
  std::vector<outcome> all;
  for (auto const& runner : entrants_) all.push_back(runner.result);
  return all;
}

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double relative_time(outcome const& of, outcome const& reference) {
  std::vector<double> ratios(of.step_us.size());
  std::transform(of.step_us.begin(), of.step_us.end(), reference.step_us.begin(), ratios.begin(), std::divides<>{});
  return median(std::move(ratios));
}

}  // namespace matmul_chain
