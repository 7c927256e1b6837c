#include "plan/contention_json.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace ferry::planning {

namespace {

constexpr std::array<std::pair<std::string_view, double contention::*>, 5> members{
    {{"out_beside_back", &contention::out_beside_back},
     {"back_beside_out", &contention::back_beside_out},
     {"compute_beside_out", &contention::compute_beside_out},
     {"compute_beside_back", &contention::compute_beside_back},
     {"compute_beside_both", &contention::compute_beside_both}}};

}  // namespace

std::vector<std::string_view> contention_keys() {
  std::vector<std::string_view> keys;
  for (auto const& [key, member] : members) keys.push_back(key);
  return keys;
}

contention contention_of(fields const& from) {
  contention beside;
  for (auto const& [key, member] : members) beside.*member = from.number(key, 1);
  return beside;
}

void check_contention(contention const& beside, std::string const& place) {
  for (auto const& [key, member] : members) {
    double const share = beside.*member;
    if (share >= contention::least && share <= 1) continue;
    throw bad_field(fmt::format("{}.{}", place, key), fmt::format("is {}", share),
                    fmt::format("give what is left of the speed, from {} to 1", contention::least));
  }
}

std::string json_of(contention const& beside) {
  std::string out;
  for (auto const& [key, member] : members) {
    out += fmt::format("{}\"{}\": {}", out.empty() ? "{" : ", ", key, beside.*member);
  }
  return out + "}";
}

}  // namespace ferry::planning
