// The rules of a plan, and whether it was made for a given step.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "plan/formats.hpp"
#include "plan/item_index.hpp"
#include "plan/json_reader.hpp"
#include "plan/limits.hpp"
#include "support/text.hpp"

namespace ferry::planning {

namespace {

using kind = plan_operation::kind;

bool computes(kind what) { return what == kind::forward || what == kind::backward || what == kind::rebuild; }
bool transfers(kind what) { return what == kind::offload || what == kind::fetch; }

class plan_checker {
 public:
  explicit plan_checker(plan const& planned) : plan_(planned) {}

  void run() {
    count();
    check_summary();
    for (std::size_t i = 0; i < plan_.items.size(); ++i) check_item(i);
    if (auto const twice = index_.settle()) {
      throw bad_field(fmt::format("items[{}]", twice->position),
                      fmt::format("{} of segment {} stands there twice", support::quoted(twice->name), twice->segment),
                      "leave one of the two");
    }
    for (std::size_t i = 0; i < plan_.operations.size(); ++i) check_operation(i);
  }

 private:
  /// A member of the plan, or of the row that `outer` leads to. Put together only for messages.
  struct place {
    std::string_view outer;
    std::string_view key;
    std::size_t index = 0;

    place(char const* name) : key(name) {}
    place(std::string_view array, std::size_t row, std::string_view name) : outer(array), key(name), index(row) {}
    [[nodiscard]] std::string str() const {
      return outer.empty() ? std::string(key) : fmt::format("{}[{}].{}", outer, index, key);
    }
  };

  static void check_us(double value, place const& where) {
    if (limits::within(value, limits::all_us)) return;
    throw bad_field(where.str(), fmt::format("is {}", value), "give microseconds from 0 to 1e15");
  }
  static void check_bytes(std::size_t value, std::size_t most, place const& where) {
    if (value > most)
      throw bad_field(where.str(), fmt::format("is {}", value), fmt::format("give bytes from 0 to {}", most));
  }
  static void check_segment(std::uint32_t segment, place const& where) {
    if (segment < limits::segments) return;
    throw bad_field(where.str(), fmt::format("is {}", segment),
                    fmt::format("give one from 0 to {}", limits::segments - 1));
  }
  static void check_item_name(std::string const& name, place const& where) {
    if (name.empty() || name.size() > limits::name_chars) check_name(name, where.str());
  }
  static void check_tier(planned_bytes const& tier, std::string const& name) {
    check_bytes(tier.limit, limits::all_bytes, (name + ".limit_bytes").c_str());
    check_bytes(tier.peak, limits::all_bytes, (name + ".peak_bytes").c_str());
    if (!limits::within(tier.average, static_cast<double>(limits::all_bytes))) {
      throw bad_field(name + ".average_bytes", fmt::format("is {}", tier.average), "give bytes from 0 to 2^53");
    }
  }

  void check_summary() const {
    check_text(plan_.profile_name, "profile");
    check_text(plan_.hardware_name, "hardware");
    check_bytes(plan_.budget_bytes, limits::all_bytes, "budget_bytes");
    check_us(plan_.step_us, "step_us");
    check_us(plan_.unlimited_us, "unlimited_us");
    check_us(plan_.lower_bound_us, "lower_bound_us");
    check_us(plan_.waiting_us, "waiting_us");
    check_us(plan_.slowed_us, "slowed_us");
    check_us(plan_.recompute_us, "recompute_us");
    check_tier(plan_.device, "device");
    check_tier(plan_.host, "host");
    check_bytes(plan_.offloaded_bytes, limits::all_bytes, "offloaded_bytes");
    check_bytes(plan_.fetched_bytes, limits::all_bytes, "fetched_bytes");
    for (std::size_t i = 0; i < plan_.recomputed.size(); ++i) check_recomputed(i);
  }

  void check_recomputed(std::size_t i) const {
    recompute_share const& one = plan_.recomputed[i];
    check_item_name(one.operation, {"recomputed", i, "operation"});
    check_us(one.us, {"recomputed", i, "us"});
    if (!limits::within(one.flops, limits::flops)) {
      throw bad_field(place("recomputed", i, "flops").str(), fmt::format("is {}", one.flops),
                      "give FLOPs from 0 to 1e24");
    }
  }

  void count() {
    auto const at_most = [](std::size_t most, std::size_t rows, char const* key) {
      if (rows > most) throw bad_field(key, fmt::format("has more than {} rows", most), "plan a smaller step");
    };
    at_most(limits::recomputed, plan_.recomputed.size(), "recomputed");
    at_most(limits::items, plan_.items.size(), "items");
    at_most(limits::operations, plan_.operations.size(), "operations");
    std::size_t waits = 0;
    for (auto const& one : plan_.operations) {
      computed_ += computes(one.what) ? 1 : 0;
      waits += one.after.size();
    }
    if (waits > limits::all_waits) {
      throw bad_field("operations", fmt::format("have more than {} waits", limits::all_waits), "plan a smaller step");
    }
    index_.reserve(plan_.items.size());
  }

  void check_item(std::size_t i) {
    plan_item const& one = plan_.items[i];
    check_item_name(one.item.name, {"items", i, "name"});
    check_segment(one.item.segment, {"items", i, "segment"});
    check_bytes(one.bytes, limits::bytes, {"items", i, "bytes"});
    if (one.rebuild_us) check_us(*one.rebuild_us, {"items", i, "rebuild_us"});
    if (one.reason.size() > limits::text_chars) check_text(one.reason, place("items", i, "reason").str());
    index_.add(one.item.segment, one.item.name, i);
  }

  void check_operation(std::size_t i) const {
    plan_operation const& one = plan_.operations[i];
    auto const at = [i](std::string_view key) { return place("operations", i, key); };
    check_segment(one.segment, at("segment"));
    bool const whole_segment = one.what == kind::forward || one.what == kind::backward;
    if (whole_segment && !one.item.empty()) {
      throw bad_field(at("item").str(), fmt::format("is {}", support::quoted(one.item)),
                      "forward and backward name no item");
    }
    if (!whole_segment && !index_.find(one.segment, one.item)) {
      throw bad_field(at("item").str(),
                      fmt::format("{} of segment {} is not among the items", support::quoted(one.item), one.segment),
                      "name one that is");
    }
    if (one.position > computed_) {
      throw bad_field(at("position").str(), fmt::format("is {}", one.position),
                      fmt::format("there are {} forwards, backwards and rebuilds", computed_));
    }
    check_us(one.start_us, at("start_us"));
    check_us(one.end_us, at("end_us"));
    check_us(one.latest_start_us, at("latest_start_us"));
    if (one.end_us < one.start_us) throw bad_field(at("end_us").str(), "is before start_us", "correct one of them");
    check_waits(i);
  }

  void check_waits(std::size_t i) const {
    auto const& after = plan_.operations[i].after;
    if (after.size() > limits::waits) {
      throw bad_field(place("operations", i, "after").str(), fmt::format("has {} entries", after.size()),
                      fmt::format("give at most {}", limits::waits));
    }
    for (std::size_t k = 0; k < after.size(); ++k) {
      if (after[k] < i && transfers(plan_.operations[after[k]].what)) continue;
      throw bad_field(fmt::format("operations[{}].after[{}]", i, k), fmt::format("is {}", after[k]),
                      "name an offload or fetch that stands before this operation");
    }
  }

  plan const& plan_;
  item_index index_;
  std::size_t computed_ = 0;
};

std::string named(item_name const& item) {
  return fmt::format("{} of segment {}", support::quoted(item.name), item.segment);
}

[[noreturn]] void refuse_match(plan const& planned, profile const& step, std::string const& difference) {
  throw plan_mismatch(fmt::format("the plan, made for {}, does not fit the step {}: {}; plan again for this step",
                                  support::quoted(planned.profile_name), support::quoted(step.name), difference));
}

std::size_t segments_of(plan const& planned) {
  std::size_t count = 0;
  for (auto const& one : planned.items) count = std::max<std::size_t>(count, one.item.segment + std::size_t{1});
  for (auto const& one : planned.operations) count = std::max<std::size_t>(count, one.segment + std::size_t{1});
  return count;
}

}  // namespace

void check_plan(plan const& planned) { plan_checker(planned).run(); }

}  // namespace ferry::planning

namespace ferry {

void require_match(plan const& planned, profile const& step) {
  using planning::named;
  using planning::refuse_match;
  std::size_t const segments = planning::segments_of(planned);
  if (segments != step.segments.size()) {
    refuse_match(planned, step, fmt::format("it has {} segments, the step {}", segments, step.segments.size()));
  }
  planning::item_index index;
  for (std::size_t i = 0; i < planned.items.size(); ++i) {
    index.add(planned.items[i].item.segment, planned.items[i].item.name, i);
  }
  static_cast<void>(index.settle());
  std::vector<bool> met(planned.items.size(), false);
  for (std::uint32_t s = 0; s < step.segments.size(); ++s) {
    for (auto const& item : step.segments[s].items) {
      auto const found = index.find(s, item.name);
      if (!found) refuse_match(planned, step, fmt::format("it has no {}", named({s, item.name})));
      std::size_t const bytes = planned.items[*found].bytes;
      if (bytes != item.bytes) {
        refuse_match(planned, step,
                     fmt::format("{} has {} bytes in it, {} in the step", named({s, item.name}), bytes, item.bytes));
      }
      met[*found] = true;
    }
  }
  if (auto const extra = std::ranges::find(met, false); extra != met.end()) {
    refuse_match(planned, step, fmt::format("the step has no {}", named(planned.items[extra - met.begin()].item)));
  }
}

}  // namespace ferry
