// The stored planner cases: the chain of each, what is known about it, and the schedules that a few of them carry.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/chain.hpp"
#include "plan/chain_json.hpp"
#include "plan/schedule.hpp"

namespace ferry::testing {

struct planner_case {
  planning::chain problem;
  nlohmann::json derived;
  nlohmann::json reference;

  /// A number that is known about the case; none where it is null (infeasible) or was not determined.
  [[nodiscard]] std::optional<double> known(char const* what) const {
    auto const found = reference.find(what);
    if (found == reference.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  }
};

inline std::filesystem::path planner_case_folder() { return std::filesystem::path(FERRY_TEST_DATA) / "planner-cases"; }

/// All of them, in the order of their names.
inline std::vector<std::string> planner_case_names() {
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator(planner_case_folder())) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline planner_case load_planner_case(std::string const& name) {
  std::filesystem::path const file = planner_case_folder() / (name + ".json");
  std::ifstream in(file);
  auto const root = nlohmann::json::parse(in);
  return {planning::read_chain(file), root.at("derived"), root.at("reference")};
}

/// Rows `[start, end, op, arg]` as the cases write them.
inline std::vector<planning::scheduled> schedule_from_rows(nlohmann::json const& rows) {
  using planning::chain_op;
  std::vector<planning::scheduled> result;
  for (auto const& row : rows) {
    planning::scheduled s;
    s.start_s = row.at(0).get<double>();
    s.end_s = row.at(1).get<double>();
    auto const op = row.at(2).get<std::string>();
    auto const& arg = row.at(3);
    if (op == "Fn")
      s.op = chain_op::forward_only;
    else if (op == "Fe")
      s.op = chain_op::forward_saving;
    else if (op == "B")
      s.op = chain_op::backward;
    else if (op == "D2H")
      s.op = chain_op::d2h;
    else if (op == "H2D")
      s.op = chain_op::h2d;
    else if (op == "dropG")
      s.op = chain_op::drop_device;
    else if (op == "dropH")
      s.op = chain_op::drop_host;
    else
      throw std::runtime_error("unknown operation " + op);
    if (arg.is_number()) {
      s.stage = arg.get<std::uint32_t>();
    } else {
      auto const text = arg.get<std::string>();
      s.tensor.what = text.at(0) == 'X' ? planning::chain_tensor::kind::boundary : planning::chain_tensor::kind::saved;
      s.tensor.index = static_cast<std::uint32_t>(std::stoul(text.substr(1)));
    }
    result.push_back(s);
  }
  return result;
}

}  // namespace ferry::testing
