// `ferry plan --case`: a chain as its file states it, for those who judge the planner.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/output_file.hpp"
#include "common/printable.hpp"
#include "common/progress.hpp"
#include "common/timeline.hpp"
#include "ferry/config.hpp"
#include "plan/case_solver.hpp"
#include "plan/chain_json.hpp"
#include "plan_flags.hpp"

namespace ferry::command {

namespace {

using namespace planning;

char const* name_of(chain_op op) {
  switch (op) {
    case chain_op::forward_only:
      return "Fn";
    case chain_op::forward_saving:
    case chain_op::rebuild:
      return "Fe";
    case chain_op::backward:
      return "B";
    case chain_op::d2h:
      return "D2H";
    case chain_op::h2d:
      return "H2D";
    case chain_op::drop_device:
      return "dropG";
    case chain_op::drop_host:
      return "dropH";
  }
  return "?";
}

bool names_a_stage(chain_op op) {
  return op == chain_op::forward_only || op == chain_op::forward_saving || op == chain_op::rebuild ||
         op == chain_op::backward;
}

/// One row, [start, end, op, arg], on one line.
std::string row_of(scheduled const& one) {
  nlohmann::ordered_json row{one.start_s, one.end_s, name_of(one.op)};
  if (names_a_stage(one.op)) {
    row.push_back(one.stage);
  } else {
    row.push_back(fmt::format("{}{}", one.tensor.what == chain_tensor::kind::boundary ? 'X' : 'S', one.tensor.index));
  }
  return row.dump();
}

/// Per stage K keep, O offload, r recompute; after it what becomes of its input: + kept, ^ offloaded.
std::string letters_of(chain_plan const& plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    text += plan[i].saving == replayed ? 'r' : plan[i].saving == ferried_whole ? 'O' : 'K';
    bool const separate =
        i == 0 || plan[i - 1].saving == replayed;  // otherwise it is part of what the stage before saved
    if (separate && plan[i].input == input_mark::kept) text += '+';
    if (separate && plan[i].input == input_mark::ferried) text += '^';
  }
  return text;
}

struct solved_case {
  chain problem;
  case_solution found;
  double first_ms = 0;  ///< with the table
  double solve_ms = 0;
};

solved_case solve(plan_flags const& flags) {
  solved_case solved;
  solved.problem = read_chain(flags.case_file);
  solve_options options;
  options.time_limit_ms = flags.effort > 0 ? solve_options::no_time_limit : flags.time_limit_ms.value_or(0);
  options.moves = flags.effort;
  options.polish = !flags.first;
  options.seed = flags.seed;
  auto const began = std::chrono::steady_clock::now();
  chain_solver solver(solved.problem);
  std::chrono::duration<double, std::milli> const table = std::chrono::steady_clock::now() - began;
  {
    progress shown;
    shown.show(fmt::format("planning {} stages", solved.problem.stages()));
    solved.found = solve_case(solver, options);
  }
  std::chrono::duration<double, std::milli> const all = std::chrono::steady_clock::now() - began;
  solved.first_ms = table.count() + solved.found.first_ms;
  solved.solve_ms = all.count();
  return solved;
}

std::string json_of(solved_case const& solved, bool with_schedule) {
  auto const& found = solved.found;
  double const ideal = solved.problem.ideal_s();
  nlohmann::ordered_json value{{"name", solved.problem.name}, {"feasible", found.feasible}};
  auto const put = [&](char const* key, double number) {
    if (found.feasible) {
      value[key] = number;
    } else {
      value[key] = nullptr;
    }
  };
  put("makespan", found.seconds);
  put("first_makespan", found.first_seconds);
  put("lower_bound", found.lower_bound_s);
  value["proven_optimal"] = found.proven;
  value["ideal"] = ideal;
  put("overhead", ideal > 0 ? found.seconds / ideal - 1 : 0);
  value["solve_ms"] = solved.solve_ms;
  value["first_ms"] = solved.first_ms;
  value["floor_bytes"] = static_cast<std::uint64_t>(std::ceil(found.floor.bytes));
  if (!found.plan.empty()) value["plan"] = letters_of(found.plan);
  auto text = text_of(value);
  if (!with_schedule || !found.feasible) return text;
  text.resize(text.size() - 3);  // "\n}\n"
  text += ",\n  \"schedule\": [";
  for (std::size_t i = 0; i < found.schedule.size(); ++i) {
    text += fmt::format("{}\n    {}", i == 0 ? "" : ",", row_of(found.schedule[i]));
  }
  return text + "\n  ]\n}\n";
}

void print(solved_case const& solved) {
  auto const& found = solved.found;
  double const ideal = solved.problem.ideal_s();
  fmt::print("{}: {} stages, {} on the device\n", printable(solved.problem.name), solved.problem.stages(),
             format_bytes(static_cast<std::size_t>(solved.problem.device_bytes)));
  fmt::print("makespan    {:.9g} s, {:.9g} s with unlimited memory: overhead {:.2f}%\n", found.seconds, ideal,
             ideal > 0 ? 100 * (found.seconds / ideal - 1) : 0);
  if (found.proven) {
    fmt::print("bound       {:.9g} s; nothing is faster than this plan\n", found.lower_bound_s);
  } else {
    fmt::print("bound       {:.9g} s; the plan is at most {:.2f}% slower\n", found.lower_bound_s,
               found.lower_bound_s > 0 ? 100 * std::max(found.seconds / found.lower_bound_s - 1, 0.0) : 0);
  }
  fmt::print("first plan  {:.9g} s after {}, the search took {} in all\n", found.first_seconds,
             words_of_time(solved.first_ms * 1000), words_of_time(solved.solve_ms * 1000));
  if (found.plan.empty()) {
    fmt::print("plan        found by trying everything; --json FILE --schedule has it\n");
    return;
  }
  fmt::print("plan        {}\n", letters_of(found.plan));
  fmt::print("            K keep, O offload, r recompute; a stage's input: + kept, ^ offloaded\n");
}

std::string refusal(solved_case const& solved) {
  auto const& c = solved.problem;
  double const needed = std::ceil(solved.found.floor.bytes);
  auto const name = printable(c.name);
  if (c.device_bytes < needed) {
    return fmt::format(
        "no schedule of '{}' fits its gpu_mem_bytes of {:.0f}: at least {:.0f} are needed, because of stage {}'s {}",
        name, c.device_bytes, needed, solved.found.floor.stage,
        solved.found.floor.in_backward ? "backward" : "forward");
  }
  return fmt::format("no plan of '{}' was found that fits its gpu_mem_bytes of {:.0f} and its host_bytes; raise either",
                     name, c.device_bytes);
}

}  // namespace

exit_code plan_case(plan_flags const& flags) {
  require_usable_output(flags.json_file);
  auto const solved = solve(flags);
  if (!flags.json_file.empty()) write_output(flags.json_file, json_of(solved, flags.schedule));
  if (!solved.found.feasible) {
    fmt::print(stderr, "ferry: {}\n", refusal(solved));
    return infeasible;
  }
  if (!flags.silent()) print(solved);
  return success;
}

}  // namespace ferry::command
