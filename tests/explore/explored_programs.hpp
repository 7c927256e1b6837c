// Random programs to explore: the property tests', in worlds where chance decides who gets on when and what fails.
#pragma once

#include "support/session_program.hpp"

namespace ferry::testing {

inline exploration any_exploration() {
  exploration e;
  e.on = true;
  e.recalls_copies = *one_in(2);
  e.by_address = !*one_in(4);
  e.host_slips = *rc::gen::element(0U, 20U, 100U, 400U);
  e.engine_pauses = *rc::gen::element(0U, 50U, 300U, 800U);
  e.engine_lags = *rc::gen::element(0U, 200U, 700U, 950U);
  e.failing_calls = *rc::gen::element(0U, 0U, 0U, 5U, 30U);
  e.stalls = *rc::gen::element(0U, 0U, 1U, 4U, 12U);
  e.dead_link = *one_in(30);
  e.broken_at = *one_in(12) ? *any_of<std::uint64_t>(1, 60) : 0;
  e.lost_at = *one_in(20) ? *any_of<std::uint64_t>(1, 2000) : 0;
  e.journal = *one_in(8);
  return e;
}

/// Over a link so slow that recipes take over, of items of which some rows have arrived.
inline program any_training_in_rows() {
  program p = any_training_behind_a_slow_link();
  p.chunk_bytes = 512;
  for (auto& op : p.bodies.front()) {
    op.size -= op.size % 4;
    op.rows = *rc::gen::element<std::uint32_t>(8, 64);
  }
  return p;
}

inline program any_explored_program() {
  auto const kind = *rc::gen::weightedElement<int>({{4, 0}, {3, 1}, {2, 2}, {1, 3}});
  program p = kind == 0   ? any_program()
              : kind == 1 ? any_training()
              : kind == 2 ? any_training_behind_a_slow_link()
                          : any_training_in_rows();
  p.explored = any_exploration();
  p.faults.copies_per_mille = *rc::gen::element(0U, 0U, 10U, 50U, 200U);
  p.faults.kernels_per_mille = *rc::gen::element(0U, 0U, 10U, 40U);
  // Where the host does not see device memory, what is corrupted on its way out stays unnoticed.
#if !defined(FERRY_CUDASIM)
  if (p.verify) p.explored.corrupted = *rc::gen::element(0U, 0U, 20U, 200U);
#endif
  if (p.is_faulty()) p.hold_over_steps = false;
  return p;
}

}  // namespace ferry::testing
