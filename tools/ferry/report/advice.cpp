#include "report/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ferry/config.hpp"

namespace ferry::command {

namespace {

constexpr double small_share = 0.02;
constexpr double large_share = 0.10;
constexpr std::size_t device = static_cast<std::size_t>(tier_kind::device);
constexpr std::size_t host = static_cast<std::size_t>(tier_kind::host);

std::string percent(double share) { return fmt::format("{:.{}f}%", 100 * share, share < 0.0995 ? 1 : 0); }
std::string bytes_words(double bytes) { return format_bytes(static_cast<std::size_t>(bytes)); }
urgency urgency_of(double share) { return share >= large_share ? urgency::costly : urgency::hint; }

class adviser {
 public:
  explicit adviser(run const& of) : run_(of), sums_(sums_of(of)) {}

  std::vector<advice> all() {
    if (run_.steps.empty()) return {};
    waiting();
    recomputing();
    budgets();
    transfers();
    forecast();
    idle_settings();
    std::ranges::stable_sort(found_, std::ranges::greater{}, &advice::weight);
    if (std::ranges::none_of(found_, [](advice const& one) { return one.weight > 0; })) nothing_lost();
    return std::move(found_);
  }

 private:
  [[nodiscard]] double count(std::string_view reason) const {
    auto const found = run_.reasons.find(std::string(reason));
    return found == run_.reasons.end() ? 0 : found->second;
  }
  [[nodiscard]] double used_of_budget() const { return run_.peak_bytes[device] / run_.limit_bytes[device]; }
  [[nodiscard]] bool by_hand() const {
    return !run_.policy.empty() && run_.policy != "auto" && !run_.policy.starts_with("plan");
  }
  void add(urgency how, double weight, std::string variable, std::string seen, std::string remedy) {
    found_.push_back({how, std::move(seen), std::move(remedy), std::move(variable), weight});
  }

  /// The dearest few by `cost`, as a clause.
  template <typename Cost>
  [[nodiscard]] std::string dearest(Cost cost) const {
    std::vector<item_row const*> rows;
    for (auto const& item : run_.items) {
      if (cost(item) > 0) rows.push_back(&item);
    }
    std::size_t const named = std::min<std::size_t>(3, rows.size());
    std::ranges::partial_sort(rows, rows.begin() + static_cast<std::ptrdiff_t>(named), std::ranges::greater{},
                              [&](auto const* row) { return cost(*row); });
    std::string text;
    for (std::size_t i = 0; i < named; ++i) text += (i == 0 ? ", most for " : ", ") + rows[i]->label;
    return text;
  }

  void waiting() {
    if (sums_.arrival_share >= small_share) {
      auto remedy = std::string("Raise FERRY_BUDGET, so that less has to be ferried");
      if (run_.policy == "offload") remedy += ", or set FERRY_POLICY=auto, which weighs link and recipe";
      if (count("recomputed_sooner_than_transfer") > 0) remedy += ", or lower FERRY_STALL_TOLERANCE_US";
      add(urgency_of(sums_.arrival_share), sums_.arrival_share,
          run_.policy == "offload" ? "FERRY_POLICY" : "FERRY_BUDGET",
          fmt::format("Compute stood still for transfers for {} of the time{}.", percent(sums_.arrival_share),
                      dearest([](item_row const& item) { return item.exposed_us; })),
          remedy + ".");
    }
    if (sums_.bytes_share >= small_share) {
      auto remedy = std::string("Raise FERRY_BUDGET");
      double const deferred = count("deferred_in_flight_full");
      if (deferred > 0) remedy += fmt::format(", or FERRY_MAX_IN_FLIGHT, which was used up {:.0f} times", deferred);
      add(urgency_of(sums_.bytes_share), sums_.bytes_share, "FERRY_BUDGET",
          fmt::format("Compute stood still for device bytes that were still on their way out for {} of the time.",
                      percent(sums_.bytes_share)),
          remedy + ".");
    }
  }

  void recomputing() {
    if (!(sums_.recompute_share >= small_share)) return;
    auto remedy = std::string("Raise FERRY_BUDGET");
    double const full = count("dropped_pinned_full");
    if (full > 0) remedy += fmt::format(", or FERRY_HOST_BUDGET, which had no room {:.0f} times", full);
    if (count("dropped_in_flight_full") > 0) remedy += ", or FERRY_MAX_IN_FLIGHT";
    if (by_hand()) remedy += ", or set FERRY_POLICY=auto";
    double const busy = run_.link_busy_us / sums_.total_us;
    if (busy >= 0 && busy < 0.5 && by_hand()) {
      remedy += fmt::format(": the link was busy for {} of the time, so it could carry some of it", percent(busy));
    }
    add(urgency_of(sums_.recompute_share), sums_.recompute_share, by_hand() ? "FERRY_POLICY" : "FERRY_BUDGET",
        fmt::format("Recipes took {} of the time{}.", percent(sums_.recompute_share),
                    dearest([](item_row const& item) { return item.recompute_us; })),
        remedy + ".");
  }

  void budgets() {
    double const lost = std::max({0.0, sums_.recompute_share, sums_.arrival_share, sums_.bytes_share});
    double const used = used_of_budget();
    if (used < 0.8 && lost >= small_share) {
      add(urgency::hint, lost * 0.9, "FERRY_POLICY",
          fmt::format("Of the budget of {} only {} were ever in use, though time was lost to save memory.",
                      bytes_words(run_.limit_bytes[device]), bytes_words(run_.peak_bytes[device])),
          by_hand() ? "Set FERRY_POLICY=auto, which fills the budget." : "A lower FERRY_BUDGET would do as well.");
    } else if (used < 0.6) {
      add(urgency::hint, 0, "FERRY_BUDGET",
          fmt::format("Of the budget of {} at most {} were in use.", bytes_words(run_.limit_bytes[device]),
                      bytes_words(run_.peak_bytes[device])),
          "There is room for a larger batch or context, or for a lower FERRY_BUDGET.");
    }
    double const refused = count("kept_pinned_full") + count("dropped_pinned_full");
    if (refused > 0) {
      add(urgency::hint, small_share, "FERRY_HOST_BUDGET",
          fmt::format(
              "Pinned memory was full {:.0f} times{}: items were kept or dropped that should have been ferried.",
              refused,
              is_known(run_.limit_bytes[host]) ? fmt::format(", at {}", bytes_words(run_.limit_bytes[host])) : ""),
          "Raise FERRY_HOST_BUDGET.");
    }
    double const in_flight = count("kept_in_flight_full") + count("dropped_in_flight_full");
    if (in_flight > 0) {
      add(urgency::hint, small_share / 2, "FERRY_MAX_IN_FLIGHT",
          fmt::format("{:.0f} times an item was larger than what may be in flight at once.", in_flight),
          "Raise FERRY_MAX_IN_FLIGHT.");
    }
  }

  void transfers() {
    double failed = 0;
    double changed =
        count("fetch_given_up") + count("recomputed_sooner_than_transfer") + count("dropped_instead_of_waiting");
    for (auto const& row : run_.steps) failed += is_known(row.failed) ? row.failed : 0;
    if (failed > 0) {
      add(urgency::costly, large_share, "FERRY_VERIFY", fmt::format("{:.0f} transfers failed.", failed),
          "The items were rebuilt or the step ended with an error; look at the log, and at the machine.");
    }
    double const ferried = count("offloaded_by_policy");
    if (changed > 0.05 * ferried && ferried > 0) {
      add(urgency::hint, small_share / 2, "FERRY_POLICY",
          fmt::format("{:.0f} decisions were changed while the step ran, of {:.0f} items that were to be ferried: the "
                      "link was slower than expected.",
                      changed, ferried),
          by_hand() ? "Set FERRY_POLICY=auto with FERRY_ADAPT=on, which plans for the link as it is."
                    : "With FERRY_ADAPT=on the plan follows; measure the link with `ferry bench link`.");
    }
  }

  void forecast() {
    std::vector<double> ratios;
    for (auto const& row : run_.steps) {
      if (row.planned_us > 0 && row.step_us > 0) ratios.push_back(row.step_us / row.planned_us);
    }
    if (ratios.empty()) return;
    auto const middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::ranges::nth_element(ratios, middle);
    constexpr double off = 1.25;
    if (*middle < off) return;
    add(urgency::hint, small_share / 2, "FERRY_ADAPT",
        fmt::format("A step takes {:.2f} times what its plan foresees for one micro-batch.", *middle),
        "If a step is one micro-batch, other work shares the device or the link: measure again when it is quiet, and "
        "leave FERRY_ADAPT on.");
  }

  void idle_settings() {
    for (auto const& one : run_.settings) {
      if (one.no_effect.empty()) continue;
      add(urgency::hint, 0, one.variable, fmt::format("{} had no effect: {}.", one.variable, one.no_effect),
          "It can be left out.");
    }
  }

  void nothing_lost() {
    if (!is_known(sums_.recompute_share) && !is_known(sums_.arrival_share)) return;
    auto const share = [](double value) { return percent(is_known(value) ? value : 0); };
    advice fine{urgency::good, {}, {}, {}, 0};
    fine.seen =
        fmt::format("Recipes took {} of the time, and compute stood still for {}: there is little left to gain.",
                    share(sums_.recompute_share),
                    share((is_known(sums_.arrival_share) ? sums_.arrival_share : 0) +
                          (is_known(sums_.bytes_share) ? sums_.bytes_share : 0)));
    fine.remedy = "A lower FERRY_BUDGET may cost nothing: `ferry plan --sweep 20` shows what each would.";
    found_.insert(found_.begin(), std::move(fine));
  }

  run const& run_;
  run_sums sums_;
  std::vector<advice> found_;
};

}  // namespace

run_sums sums_of(run const& of) {
  run_sums sums;
  std::size_t const skipped = of.steps.size() > 4 ? 2 : 0;  // they warm up, or are measured for a plan
  std::vector<double> times;
  double recompute = 0;
  double arrival = 0;
  double bytes = 0;
  double of_recompute = 0;
  double of_arrival = 0;
  for (std::size_t i = 0; i < of.steps.size(); ++i) {
    auto const& row = of.steps[i];
    double const took = is_known(row.step_us) ? row.step_us : row.wall_us;
    if (!is_known(took)) continue;
    sums.total_us += took;
    if (i >= skipped) times.push_back(took);
    if (i < skipped) continue;
    if (is_known(row.recompute_us)) {
      recompute += row.recompute_us;
      of_recompute += took;
    }
    if (is_known(row.arrival_us)) {
      arrival += row.arrival_us;
      bytes += is_known(row.bytes_us) ? row.bytes_us : 0;
      of_arrival += took;
    }
  }
  if (!times.empty()) {
    auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::ranges::nth_element(times, middle);
    sums.median_us = *middle;
  }
  if (of_recompute > 0) sums.recompute_share = recompute / of_recompute;
  if (of_arrival > 0) {
    sums.arrival_share = arrival / of_arrival;
    sums.bytes_share = bytes / of_arrival;
  }
  return sums;
}

std::vector<advice> advise(run const& of) { return adviser(of).all(); }

}  // namespace ferry::command
