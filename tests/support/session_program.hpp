// Random programs for the session: what a trainer might do in a few steps, in which world. A program is plain
// data that shrinks well: operations name items, leases and blocks by a number that is taken modulo those there are.
#pragma once

#include <rapidcheck.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

#include "explore/exploration.hpp"
#include "ferry/config.hpp"

namespace ferry::testing {

enum class action : std::uint8_t {
  produce,      ///< allocate or adopt, write, save
  restore,      ///< and compare
  use,          ///< compare again what a held lease shows
  end_lease,    ///< one of those held
  release,      ///< one of the items
  scratch,      ///< a block that is never saved
  end_block,    ///< one of those held
  consume,      ///< restore, compare and release, as backward does with one item
  backward,     ///< consume a micro-batch, latest first
  synchronize,  ///< the session, or a stream
  place,        ///< another placement function, or none
  misuse,       ///< a call that must be refused and change nothing
  idle,         ///< tells the session that the stream has nothing to do for a while
  budget,       ///< another one, from the next step on
};

struct operation {
  action kind = action::produce;
  std::uint32_t which = 0;
  std::uint32_t size = 0;
  std::uint32_t inputs = 0;  ///< of the recipe
  std::uint32_t rows = 1;    ///< of the recipe, if they divide the size
  std::uint32_t stream = 0;
  bool hold = false;         ///< keeps the lease or block for later operations
  bool adopted = false;      ///< memory of the trainer's
  bool recipe = false;       ///< the item can be rebuilt
  bool from_inputs = false;  ///< forward reads the inputs instead of knowing the outcome
  bool crossing = false;     ///< written on one stream, saved on the other
  bool careless = false;     ///< releases what others' recipes need; produces with a recipe that throws at first
};

inline void showValue(operation const& op, std::ostream& out) {
  static constexpr char const* names[] = {"produce",   "restore", "use",      "end_lease",   "release", "scratch",
                                          "end_block", "consume", "backward", "synchronize", "place",   "misuse",
                                          "idle",      "budget"};
  out << names[static_cast<std::size_t>(op.kind)] << "(#" << op.which << " s" << op.stream << " size " << op.size
      << " inputs " << op.inputs << " rows " << op.rows << (op.hold ? " hold" : "") << (op.adopted ? " adopted" : "")
      << (op.recipe ? " recipe" : "") << (op.from_inputs ? " from_inputs" : "") << (op.crossing ? " crossing" : "")
      << (op.careless ? " careless" : "") << ")";
}

/// Something like a name: two operations hardly ever have the same.
inline std::uint64_t number_of(operation const& op) noexcept {
  return (std::uint64_t{op.which} << 32U) ^ (std::uint64_t{op.size} << 8U) ^ static_cast<std::uint64_t>(op.kind);
}

/// What can go wrong by itself: operations that throw on their stream.
struct fault_rates {
  unsigned copies_per_mille = 0;
  unsigned kernels_per_mille = 0;
};

struct program {
  std::size_t largest_item = 4096;
  std::size_t budget = 0;
  std::size_t host_budget = 0;
  std::size_t in_flight = 0;
  std::size_t chunk_bytes = 4096;
  std::size_t min_bytes = 0;
  policy_choice policy;
  std::uint32_t placement = 0;  ///< seed of a placement function; 0: by policy
  bool reshuffle = false;       ///< places differently in every step
  bool verify = false;
  unsigned run_ahead = 1;
  double stall_tolerance_us = 0;
  link_speed device_to_host;
  link_speed host_to_device;
  unsigned delays_per_mille = 0;
  unsigned longest_delay_us = 0;
  fault_rates faults;
  bool simulated = false;  ///< on the sim device, where delays are what kernels cost
  exploration explored;
  std::uint64_t seed = 0;
  bool hold_over_steps = false;  ///< leases and blocks outlive the step
  std::size_t walk_out = 0;      ///< destroys the session after so many operations, leases held or not; 0: never
  std::vector<std::vector<operation>> bodies;
  std::vector<std::size_t> steps;  ///< which body each step runs, modulo their number

  /// Something may go wrong by itself.
  [[nodiscard]] bool is_faulty() const noexcept {
    bool const operations = faults.copies_per_mille + faults.kernels_per_mille + explored.corrupted > 0;
    bool const calls = explored.failing_calls > 0 || explored.lost_at > 0;
    return operations || calls || explored.broken_at > 0 || explored.dead_link;
  }
  [[nodiscard]] std::vector<operation> const& body(std::size_t step) const {
    return bodies[steps[step] % bodies.size()];
  }
};

inline void showValue(program const& p, std::ostream& out) {
  out << "largest " << p.largest_item << " budget " << p.budget << " pinned " << p.host_budget << " in flight "
      << p.in_flight << " chunk " << p.chunk_bytes << " min " << p.min_bytes << " policy "
      << static_cast<int>(p.policy.kind) << "=" << p.policy.every << " placement " << p.placement
      << (p.reshuffle ? " reshuffled" : "") << " verify " << p.verify << " run-ahead " << p.run_ahead << " tolerance "
      << p.stall_tolerance_us << " d2h " << p.device_to_host.gbps << "/" << p.device_to_host.latency_us << " h2d "
      << p.host_to_device.gbps << "/" << p.host_to_device.latency_us << " delays " << p.delays_per_mille << "x"
      << p.longest_delay_us << " faults " << p.faults.copies_per_mille << "/" << p.faults.kernels_per_mille << " seed "
      << p.seed << (p.simulated ? " simulated" : "") << (p.hold_over_steps ? " hold_over_steps" : "") << " walk_out "
      << p.walk_out;
  showValue(p.explored, out);
  out << "\n";
  for (std::size_t b = 0; b < p.bodies.size(); ++b) {
    out << "  body " << b << ":\n";
    for (auto const& op : p.bodies[b]) {
      out << "    ";
      showValue(op, out);
      out << "\n";
    }
  }
  out << "  steps:";
  for (auto const step : p.steps) out << " " << step % p.bodies.size();
  out << "\n";
}

/// True once in `n` draws.
inline rc::Gen<bool> one_in(unsigned n) {
  return rc::gen::map(rc::gen::inRange(0U, n), [n](unsigned drawn) { return drawn == n - 1; });
}

/// Whatever the size of the test: rapidcheck's ranges grow with it, and choices should not.
template <typename T>
rc::Gen<T> any_of(T low, T high) {
  return rc::gen::resize(100, rc::gen::inRange<T>(low, high));
}

/// Of this kind, with everything else left to chance.
inline rc::Gen<operation> operation_of(rc::Gen<action> const& kind) {
  return rc::gen::build<operation>(
      rc::gen::set(&operation::kind, kind), rc::gen::set(&operation::which, any_of<std::uint32_t>(0, 1000)),
      rc::gen::set(&operation::size, any_of<std::uint32_t>(0, 1U << 20U)),
      rc::gen::set(&operation::inputs, any_of<std::uint32_t>(0, 4)),
      rc::gen::set(&operation::rows, rc::gen::element<std::uint32_t>(1, 1, 2, 8, 64)),
      rc::gen::set(&operation::stream, any_of<std::uint32_t>(0, 2)), rc::gen::set(&operation::hold, one_in(3)),
      rc::gen::set(&operation::adopted, one_in(6)), rc::gen::set(&operation::recipe, one_in(2)),
      rc::gen::set(&operation::from_inputs, one_in(3)), rc::gen::set(&operation::crossing, one_in(8)),
      rc::gen::set(&operation::careless, one_in(12)));
}

inline rc::Gen<operation> any_operation() {
  return operation_of(rc::gen::weightedElement<action>({{20, action::produce},
                                                        {12, action::restore},
                                                        {4, action::use},
                                                        {8, action::end_lease},
                                                        {5, action::release},
                                                        {4, action::scratch},
                                                        {3, action::end_block},
                                                        {3, action::consume},
                                                        {2, action::backward},
                                                        {1, action::synchronize},
                                                        {1, action::place},
                                                        {1, action::misuse},
                                                        {1, action::idle},
                                                        {1, action::budget}}));
}

/// A step as trainers make them: forward saves, backward consumes with some scratch memory, in an order of its own
/// that is the same in every step.
inline std::vector<operation> training_step() {
  auto const layers = *any_of<std::size_t>(3, 40);
  auto step = *rc::gen::container<std::vector<operation>>(layers, operation_of(rc::gen::just(action::produce)));
  for (auto& op : step) op.hold = op.careless = false;
  bool const reverse = *one_in(2);
  auto const backward = *rc::gen::container<std::vector<operation>>(
      2 * layers, operation_of(rc::gen::weightedElement<action>({{6, action::consume}, {2, action::scratch}})));
  for (auto op : backward) {
    op.hold = false;
    if (reverse) op.which = ~std::uint32_t{0};
    step.push_back(op);
  }
  return step;
}

inline rc::Gen<policy_choice> any_policy() {
  auto const every = rc::gen::map(any_of(1U, 4U), [](unsigned n) { return policy_choice{policy_kind::every, n}; });
  auto const plain = [](policy_kind kind) { return rc::gen::just(policy_choice{kind, 0}); };
  return rc::gen::weightedOneOf<policy_choice>({{1, plain(policy_kind::keep)},
                                                {2, plain(policy_kind::recompute)},
                                                {6, plain(policy_kind::offload)},
                                                {1, every},
                                                {1, plain(policy_kind::sqrt)},
                                                {2, plain(policy_kind::selective)},
                                                {4, plain(policy_kind::automatic)}});
}

inline rc::Gen<link_speed> any_link() {
  return rc::gen::map(rc::gen::pair(rc::gen::element(0.0, 0.0, 0.02, 0.1, 1.0, 8.0), any_of(0, 60)),
                      [](auto const& drawn) {
                        return link_speed{drawn.first, drawn.first > 0 ? static_cast<double>(drawn.second) : 0.0};
                      });
}

/// The steps of a program, most often the same thing again, so that what was learnt is put to use.
inline void draw_steps(program& p, std::size_t longest) {
  p.bodies =
      *rc::gen::resize(100, rc::gen::container<std::vector<std::vector<operation>>>(
                                *any_of<std::size_t>(1, 3),
                                rc::gen::mapcat(rc::gen::inRange<std::size_t>(2, longest), [](std::size_t length) {
                                  return rc::gen::container<std::vector<operation>>(length, any_operation());
                                })));
  p.steps = *rc::gen::container<std::vector<std::size_t>>(*any_of<std::size_t>(1, 5),
                                                          rc::gen::weightedElement<std::size_t>({{3, 0}, {1, 1}}));
}

inline program any_world() {
  program p;
  p.largest_item = *rc::gen::weightedElement<std::size_t>({{2, 1024}, {4, 4096}, {4, 16384}, {1, 65536}});
  // In items: from one that barely fits to all at once.
  auto const items = *rc::gen::element<std::size_t>(1, 2, 3, 4, 6, 8, 12, 16, 64);
  p.budget = items * p.largest_item + *rc::gen::element<std::size_t>(0, 1, 255, 256, 1000);
  auto const hosted_items = *rc::gen::weightedElement<std::size_t>({{1, 0}, {1, 2}, {1, 8}, {4, 256}});
  p.host_budget = hosted_items * p.largest_item;
  p.in_flight = *rc::gen::weightedElement<std::size_t>({{1, p.largest_item / 2}, {2, p.largest_item}, {4, p.budget}});
  p.chunk_bytes = *rc::gen::element<std::size_t>(512, 1024, 4096, 4096, 16384, 1U << 20U);
  p.min_bytes = *rc::gen::weightedElement<std::size_t>({{6, 0}, {1, 1024}});
  p.policy = *any_policy();
  p.placement = *one_in(4) ? *any_of<std::uint32_t>(1, 1U << 30U) : 0;
  p.verify = *one_in(4);
  p.run_ahead = *rc::gen::element(1U, 1U, 2U, 8U);
  p.stall_tolerance_us = *rc::gen::element(0.0, 0.0, 50.0, 1000.0);
  p.device_to_host = *any_link();
  p.host_to_device = *any_link();
  p.delays_per_mille = *rc::gen::element(0U, 50U, 150U, 500U);
  p.longest_delay_us = *rc::gen::element(30U, 100U, 300U);
  p.seed = *any_of<std::uint64_t>(0, std::uint64_t{1} << 40U);
  p.hold_over_steps = *one_in(3);
  p.walk_out = *one_in(8) ? *any_of<std::size_t>(1, 120) : 0;
  return p;
}

inline program any_program() {
  program p = any_world();
  draw_steps(p, 60);
  return p;
}

/// A few steps of training, so that the order of need is guessed once and known later.
inline program any_training() {
  program p = any_world();
  p.bodies = {training_step()};
  p.steps = {0, 0, 0};
  return p;
}

/// Training over a link so slow that recipes win, once they have been timed: what is dropped in one step is ferried
/// in the next, and prefetches are given up halfway.
inline program any_training_behind_a_slow_link() {
  program p = any_training();
  p.steps = {0, 0, 0, 0};
  p.largest_item = 8192;
  p.budget = *rc::gen::element<std::size_t>(8, 16, 32) * p.largest_item;
  p.host_budget = 256 * p.largest_item;
  p.in_flight = p.budget;
  p.chunk_bytes = *rc::gen::element<std::size_t>(512, 1024, 2048);
  p.placement = *any_of<std::uint32_t>(1, 1U << 30U);
  p.reshuffle = true;
  p.verify = false;
  p.stall_tolerance_us = 0;
  p.host_to_device = {.gbps = *rc::gen::element(0.01, 0.03), .latency_us = 0};
  p.delays_per_mille = *rc::gen::element(0U, 20U);
  return p;
}

}  // namespace ferry::testing
