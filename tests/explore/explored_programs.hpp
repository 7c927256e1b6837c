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
  e.lost_at = *one_in(20) ? *any_of<std::uint64_t>(1, 2000) : 0;
  return e;
}

inline program any_explored_program() {
  auto const kind = *rc::gen::weightedElement<int>({{4, 0}, {3, 1}, {2, 2}});
  program p = kind == 0 ? any_program() : kind == 1 ? any_training() : any_training_behind_a_slow_link();
  p.explored = any_exploration();
  p.faults.copies_per_mille = *rc::gen::element(0U, 0U, 10U, 50U, 200U);
  p.faults.kernels_per_mille = *rc::gen::element(0U, 0U, 10U, 40U);
  bool const faulty = p.faults.copies_per_mille + p.faults.kernels_per_mille + p.explored.failing_calls > 0;
  if (faulty || p.explored.lost_at > 0) p.hold_over_steps = false;
  return p;
}

}  // namespace ferry::testing
