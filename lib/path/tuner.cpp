#include "path/tuner.hpp"

#include <algorithm>

namespace ferry::path {

namespace {

constexpr std::uint32_t tries_of_each = 3;
constexpr std::uint32_t steps_between_tries = 6;
constexpr double clearly_slower = 1.05;
constexpr double worth_moving = 0.98;
constexpr unsigned longest_run_ahead = 3;
constexpr std::size_t smallest_chunk = std::size_t{64} << 10;
constexpr std::size_t largest_chunk = std::size_t{64} << 20;

}  // namespace

void tuner::settle(tuning home) {
  home_ = home;
  home_us_ = {};
  home_steps_ = 0;
  trying_ = none;
  arms_.clear();
  auto const add = [&](tuning const& how) {
    if (how != home_) arms_.push_back({how, {}, 0, false});
  };
  if (which_.run_ahead) {
    add({std::min(home.run_ahead + 1, std::max(longest_run_ahead, home.run_ahead)), home.chunk_bytes,
         home.in_flight_bytes});
    if (home.run_ahead > 1) add({home.run_ahead - 1, home.chunk_bytes, home.in_flight_bytes});
  }
  if (which_.chunk_bytes) {
    if (2 * home.chunk_bytes <= largest_chunk) add({home.run_ahead, 2 * home.chunk_bytes, home.in_flight_bytes});
    if (home.chunk_bytes / 2 >= smallest_chunk) add({home.run_ahead, home.chunk_bytes / 2, home.in_flight_bytes});
  }
  if (which_.in_flight_bytes) add({home.run_ahead, home.chunk_bytes, home.in_flight_bytes / 2});
}

void tuner::start_over() { settle(home_); }

void tuner::set_in_flight_bytes(std::size_t bytes) {
  home_.in_flight_bytes = bytes;
  settle(home_);
}

void tuner::step_took(double us) {
  if (trying_ != none) {
    arm& tried = arms_[trying_];
    trying_ = none;
    tried.us.add(us);
    ++tried.tries;
    judge(tried);
    return;
  }
  home_us_.add(us);
  if (++home_steps_ >= steps_between_tries) trying_ = next_to_try();
}

void tuner::judge(arm& tried) {
  home_steps_ = 0;
  if (tried.us.middle() > clearly_slower * home_us_.middle()) tried.given_up = true;
  if (tried.tries < tries_of_each) return;
  if (tried.us.middle() < worth_moving * home_us_.middle()) {
    settle(tuning(tried.how));
  } else {
    tried.given_up = true;
  }
}

/// One of those that have been tried least.
std::size_t tuner::next_to_try() {
  std::uint32_t least = tries_of_each;
  for (auto const& one : arms_) {
    if (!one.given_up) least = std::min(least, one.tries);
  }
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    if (!arms_[i].given_up && arms_[i].tries == least) open.push_back(i);
  }
  return open.empty() || least == tries_of_each ? none : open[random_() % open.size()];
}

}  // namespace ferry::path
