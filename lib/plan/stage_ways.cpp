#include "plan/stage_ways.hpp"

#include <algorithm>

namespace ferry::planning {

namespace {

/// Whether `a`, or some of `a` and some of `b`, is in no respect dearer than `than`.
bool replaces(stage_way const& a, stage_way const& b, stage_way const& than) {
  double low = 0;  // share of `a`
  double high = 1;
  for (auto const member : {&stage_way::kept, &stage_way::ferried, &stage_way::seconds}) {
    double const slope = a.*member - b.*member;
    double const room = than.*member - b.*member;
    if (slope > 0) {
      high = std::min(high, room / slope);
    } else if (slope < 0) {
      low = std::max(low, room / slope);
    } else if (room < 0) {
      return false;
    }
  }
  return low <= high;
}

}  // namespace

bool alike(chain const& c, std::size_t i, std::size_t k) {
  auto const same_options = [&] {
    if (c.options.empty()) return true;
    return std::ranges::equal(c.options[i], c.options[k], [](saving_option const& a, saving_option const& b) {
      return a.kept_bytes == b.kept_bytes && a.ferried_bytes == b.ferried_bytes && a.tag == b.tag;
    });
  };
  return c.saved_bytes[i] == c.saved_bytes[k] && c.boundary_bytes[i + 1] == c.boundary_bytes[k + 1] &&
         c.forward_s[i] == c.forward_s[k] && c.may_replay(i) == c.may_replay(k) && same_options();
}

std::vector<stage_way> useful_ways(chain const& c, std::size_t stage) {
  std::vector<stage_way> all;
  for (std::int8_t saving = kept_whole; saving < savings(c, stage); ++saving) {
    auto const how = saving_of(c, stage, saving);
    bool const ferries = how.ferried_bytes > 0;
    if (ferries && (!c.has_link() || (c.insured && !how.output_stays))) continue;
    all.push_back(
        {saving, 1, how.kept_bytes, how.ferried_bytes, how.rebuild_s + how.ferried_bytes * c.slowed_s_a_byte()});
  }
  if (c.may_replay(stage)) all.push_back({replayed, 1, c.boundary_bytes[stage + 1], 0, c.forward_s[stage]});
  for (std::size_t k = all.size(); k-- > 0;) {
    stage_way const one = all[k];
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(k));
    bool const needed = std::ranges::none_of(all, [&](stage_way const& a) {
      return std::ranges::any_of(all, [&](stage_way const& b) { return replaces(a, b, one); });
    });
    if (needed) all.insert(all.begin() + static_cast<std::ptrdiff_t>(k), one);
  }
  return all;
}

}  // namespace ferry::planning
