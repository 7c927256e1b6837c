#include "plan/local_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ferry::planning {

namespace {

/// splitmix64: small, and the same on every machine.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>((next() >> 32) * bound >> 32); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

class mover {
 public:
  mover(chain const& c, std::uint64_t seed) : c_(c), dice_(seed), stages_(static_cast<std::uint32_t>(c.stages())) {
    link_ = c.has_link();
  }

  dice& roll() { return dice_; }

  /// Changes the plan a little, around `focus` more often than elsewhere.
  void move(chain_plan& plan, std::uint32_t focus) {
    std::uint32_t i = dice_.below(stages_);
    if (dice_.below(2) == 0) {
      std::uint32_t const span = std::min(stages_, 12U);
      std::uint32_t const low = focus > span / 2 ? focus - span / 2 : 0;
      i = std::min(low + dice_.below(span), stages_ - 1);
    }
    switch (dice_.below(10)) {
      case 0:
      case 1:
      case 2:
        plan[i].saving = other_saving(i, plan[i].saving);
        break;
      case 3:
      case 4:
        plan[i].input = other_mark(plan[i].input);
        break;
      case 5:
        if (i + 1 < stages_) std::swap(plan[i], plan[i + 1]);
        break;
      case 6: {  // what a stage does happens a few stages away
        std::uint32_t const j = std::min(stages_ - 1, i + 1 + dice_.below(std::min(stages_, 8U)));
        std::swap(plan[i], plan[j]);
        break;
      }
      case 7: {  // a run of equals
        std::uint32_t const length = 1 + dice_.below(std::min(stages_, 6U));
        std::int8_t const saving = other_saving(i, kept_whole);
        auto const mark = plan[i].input;
        for (std::uint32_t k = i; k < std::min(stages_, i + length); ++k) {
          plan[k].saving = std::min<std::int8_t>(saving, static_cast<std::int8_t>(savings(c_, k) - 1));
          if (saving == replayed) plan[k].input = k == i ? mark : input_mark::none;
        }
        break;
      }
      case 8: {  // a stretch moves by one
        std::uint32_t const length = 2 + dice_.below(std::min(stages_, 10U));
        std::uint32_t const end = std::min(stages_, i + length);
        if (dice_.below(2) == 0) {
          std::rotate(plan.begin() + i, plan.begin() + std::min(i + 1, end), plan.begin() + end);
        } else {
          std::rotate(plan.begin() + i, plan.begin() + std::max(end - 1, i), plan.begin() + end);
        }
        break;
      }
      default:
        plan[i].reserve = static_cast<std::uint8_t>(dice_.below(4));
        break;
    }
    settle(c_, plan);
  }

 private:
  std::int8_t other_saving(std::uint32_t i, std::int8_t now) {
    std::int32_t const ways = savings(c_, i) + 1;  // and replayed
    auto picked =
        static_cast<std::int8_t>(static_cast<std::int32_t>(dice_.below(static_cast<std::uint32_t>(ways))) - 1);
    if (picked == now) picked = picked == replayed ? kept_whole : replayed;
    if (!link_ && picked == ferried_whole) picked = now == kept_whole ? replayed : kept_whole;
    return picked;
  }
  input_mark other_mark(input_mark now) {
    auto const step = link_ ? 1 + dice_.below(2) : 1;
    auto const ways = link_ ? 3U : 2U;
    return static_cast<input_mark>((static_cast<std::uint32_t>(now) + step) % ways);
  }

  chain const& c_;
  dice dice_;
  std::uint32_t stages_;
  bool link_;
};

/// A stage beside which compute waits or runs again: where there is something to gain.
std::uint32_t costly_stage(chain_simulator const& simulator, dice& roll) {
  auto const& ops = simulator.ops();
  for (int attempt = 0; attempt < 8; ++attempt) {
    auto const& op = ops[roll.below(static_cast<std::uint32_t>(ops.size()))];
    if (op.waited_s > 0 || op.op == chain_op::forward_only) return op.stage;
  }
  return ops[roll.below(static_cast<std::uint32_t>(ops.size()))].stage;
}

}  // namespace

search_result improve(chain const& c, chain_simulator& simulator, search_result start, search_limits const& limits) {
  search_result best = start;
  search_result now = std::move(start);
  mover mover(c, limits.seed);
  chain_plan candidate = now.plan;
  simulator.run(now.plan);
  std::uint32_t focus = costly_stage(simulator, mover.roll());
  // Worsenings of the order of a few per cent of one stage are taken at first.
  double const hot = best.seconds * std::min(2e-3, 0.05 / static_cast<double>(c.stages()));
  for (std::uint64_t move = 0; move < limits.moves; ++move) {
    if (best.seconds <= limits.good_enough_s) break;
    if (move % 64 == 0 && std::chrono::steady_clock::now() > limits.deadline) break;
    candidate = now.plan;
    std::uint32_t const changes = 1 + (mover.roll().below(3) == 0 ? 1 : 0) + (mover.roll().below(8) == 0 ? 1 : 0);
    for (std::uint32_t k = 0; k < changes; ++k) mover.move(candidate, focus);
    double const seconds = simulator.run(candidate);
    double const left = 1 - static_cast<double>(move) / static_cast<double>(limits.moves);
    double const warmth = hot * left * left;
    bool const accept =
        seconds <= now.seconds || mover.roll().unit() < std::exp((now.seconds - seconds) / std::max(warmth, 1e-300));
    if (accept) {
      std::swap(now.plan, candidate);
      now.seconds = seconds;
      if (move % 4 == 0) focus = costly_stage(simulator, mover.roll());
      if (seconds < best.seconds) best = now;
    } else if (move % 16 == 0) {
      focus = mover.roll().below(static_cast<std::uint32_t>(c.stages()));
    }
  }
  return best;
}

void keep_what_can_stay(chain const& c, chain_simulator& simulator, chain_plan& plan, double seconds) {
  double const limit = seconds * (1 + 1e-12);
  auto const attempt = [&](std::size_t i, stage_plan changed) {
    stage_plan const before = std::exchange(plan[i], changed);
    if (before == changed) return;
    if (simulator.run(plan) > limit) plan[i] = before;
  };
  for (std::size_t i = 0; i < plan.size(); ++i) {
    bool const ferries = plan[i].saving != replayed && saving_of(c, i, plan[i].saving).ferried_bytes > 0;
    if (ferries) {
      auto changed = plan[i];
      changed.saving = kept_whole;
      attempt(i, changed);
    }
    if (plan[i].input == input_mark::ferried) {
      auto changed = plan[i];
      changed.input = input_mark::kept;
      attempt(i, changed);
    }
  }
}

}  // namespace ferry::planning
