#include "plan/step_chain.hpp"

#include <algorithm>
#include <limits>

namespace ferry::planning {

namespace {

constexpr double per_us = 1e-6;
/// Items of a stage that options tell apart, two bits each; the others stay.
constexpr std::size_t told_apart = 31;
constexpr std::size_t most_rebuilt_sets = 8;

/// What an item takes of a budget: memory is handed out in units.
double held_bytes(profile_item const& item) {
  constexpr std::size_t unit = 256;
  return static_cast<double>((item.bytes + unit - 1) / unit * unit);
}

bool within(profile_item const& item, std::uint32_t segment, std::optional<std::uint32_t> input,
            profile_segment const& of) {
  return std::ranges::all_of(item.inputs, [&](item_name const& name) {
    return name.segment == segment || (input && name == item_name{segment, of.items[*input].name});
  });
}

/// The first item that has no recipe or whose recipe reaches beyond the segment.
std::optional<std::uint32_t> find_input(profile_segment const& segment, std::uint32_t index) {
  for (std::uint32_t k = 0; k < segment.items.size(); ++k) {
    auto const& item = segment.items[k];
    bool const beyond = std::ranges::any_of(item.inputs, [&](item_name const& name) { return name.segment != index; });
    bool const from_nothing = item.recipe_us && item.inputs.empty();
    if (!item.recipe_us || beyond || from_nothing) return k;
  }
  return std::nullopt;
}

class builder {
 public:
  builder(profile const& step, hardware const& on, plan_options const& how, bool options_inside)
      : step_(step), on_(on), how_(how), options_inside_(options_inside) {}

  step_chain build() {
    auto& c = made_.problem;
    auto const segments = static_cast<std::uint32_t>(step_.segments.size());
    c.name = step_.name;
    for (std::uint32_t i = 0; i < segments; ++i) add_items(i);
    c.must_save.resize(segments);
    c.options.resize(segments);
    c.pieces.resize(segments);
    for (std::uint32_t i = 0; i < segments; ++i) add_stage(i);
    c.boundary_bytes.push_back(0);
    set_hardware(c);
    return std::move(made_);
  }

 private:
  [[nodiscard]] profile_item const* input_of(std::uint32_t segment) const {
    if (segment >= step_.segments.size()) return nullptr;
    auto const& input = made_.stages[segment].input;
    return input ? &step_.segments[segment].items[*input] : nullptr;
  }

  void add_items(std::uint32_t i) {
    auto const& segment = step_.segments[i];
    stage_items items;
    items.input = find_input(segment, i);
    for (std::uint32_t k = 0; k < segment.items.size(); ++k) {
      if (items.input != k) items.inner.push_back(k);
    }
    made_.stages.push_back(std::move(items));
    auto const* const input = input_of(i);
    made_.problem.boundary_bytes.push_back(input != nullptr ? held_bytes(*input) : 0);
  }

  void add_stage(std::uint32_t i) {
    auto& c = made_.problem;
    auto const& segment = step_.segments[i];
    auto& items = made_.stages[i];
    auto const* const output = input_of(i + 1);
    double const output_bytes = output != nullptr ? held_bytes(*output) : 0;
    double recipes_s = 0;
    double bytes = output_bytes;
    bool replayable = true;
    auto const count = [&](profile_item const& item, bool rebuildable) {
      replayable = replayable && rebuildable;
      if (rebuildable) recipes_s += *item.recipe_us * per_us;
      double const rebuild_s = rebuildable ? *item.recipe_us * per_us : chain::unlimited;
      c.pieces[i].push_back({held_bytes(item), rebuild_s});
    };
    rebuildable_.clear();
    for (std::uint32_t const k : items.inner) {
      auto const& item = segment.items[k];
      bytes += held_bytes(item);
      rebuildable_.push_back(item.recipe_us.has_value() && within(item, i, items.input, segment));
      count(item, rebuildable_.back());
    }
    if (output != nullptr) {
      count(*output, output->recipe_us.has_value() &&
                         std::ranges::all_of(output->inputs, [&](item_name const& name) { return name.segment == i; }));
    }
    find_last_readers(i);
    c.must_save[i] = !replayable;
    c.saved_bytes.push_back(bytes);
    // What forward does beyond its recipes happens once: it is counted with backward, where nothing runs twice.
    double const forward_s = segment.forward_us * per_us;
    double const again_s = replayable ? recipes_s : forward_s;
    c.forward_s.push_back(again_s);
    c.backward_s.push_back(std::max(0.0, segment.backward_us * per_us + forward_s - again_s));
    // Of what a chain holds in a backward, a step's scratch memory has both gradients in it, and the output is gone by
    // then: the next segment's backward has released it.
    double const counted_twice = c.boundary_bytes[i] + 2 * output_bytes;
    c.forward_scratch_bytes.push_back(static_cast<double>(segment.forward_scratch_bytes));
    c.backward_scratch_bytes.push_back(
        std::max(0.0, static_cast<double>(segment.backward_scratch_bytes) - counted_twice));
    std::vector<bool> const all(items.inner.size(), true);
    c.passing_scratch_bytes.push_back(c.forward_scratch_bytes[i] + forward_peak(i, all) - output_bytes);
    if (options_inside_ || how_.insured) add_options(i, output_bytes);
  }

  void find_last_readers(std::uint32_t i) {
    auto const& segment = step_.segments[i];
    auto& items = made_.stages[i];
    auto const inner = static_cast<std::uint32_t>(items.inner.size());
    items.last_reader.resize(inner);
    auto const read_by = [&](profile_item const& reader, std::uint32_t position) {
      for (auto const& name : reader.inputs) {
        if (name.segment != i) continue;
        for (std::uint32_t k = 0; k < inner; ++k) {
          if (segment.items[items.inner[k]].name == name.name) items.last_reader[k] = position;
        }
      }
    };
    for (std::uint32_t k = 0; k < inner; ++k) {
      items.last_reader[k] = k;
      read_by(segment.items[items.inner[k]], k);
    }
    if (auto const* const output = input_of(i + 1)) read_by(*output, inner);
  }

  /// The most bytes of inner items and output at once while forward makes them, if some go after their last reader.
  [[nodiscard]] double forward_peak(std::uint32_t i, std::vector<bool> const& goes) const {
    auto const& segment = step_.segments[i];
    auto const& items = made_.stages[i];
    auto const inner = static_cast<std::uint32_t>(items.inner.size());
    auto const* const output = input_of(i + 1);
    std::vector<double> leaves(inner + 2, 0);
    double now = 0;
    double peak = 0;
    for (std::uint32_t k = 0; k <= inner; ++k) {
      double const made = k < inner           ? held_bytes(segment.items[items.inner[k]])
                          : output != nullptr ? held_bytes(*output)
                                              : 0;
      now += made;
      peak = std::max(peak, now);
      if (k < inner && goes[k]) leaves[items.last_reader[k]] += made;
      now -= leaves[k];
    }
    return peak;
  }

  void add_options(std::uint32_t i, double output_bytes) {
    auto const& segment = step_.segments[i];
    auto const& inner = made_.stages[i].inner;
    auto const bytes_of = [&](std::size_t k) { return held_bytes(segment.items[inner[k]]); };
    auto const cost_of = [&](std::size_t k) { return *segment.items[inner[k]].recipe_us; };
    std::vector<std::size_t> cheapest;
    for (std::size_t k = 0; k < std::min(inner.size(), told_apart); ++k) {
      if (rebuildable_[k] && bytes_of(k) > 0) cheapest.push_back(k);
    }
    std::ranges::stable_sort(cheapest, {}, [&](std::size_t k) { return cost_of(k) / bytes_of(k); });
    std::vector<placement> where(inner.size(), placement::keep);
    std::size_t const sets = options_inside_ ? cheapest.size() : 0;
    std::size_t const step = std::max<std::size_t>(1, (sets + most_rebuilt_sets - 1) / most_rebuilt_sets);
    // The first option is what an insured plan ferries: everything but the output.
    for (std::size_t rebuilt = 0; rebuilt <= sets; rebuilt += step) {
      for (std::size_t k = 0; k < inner.size(); ++k) where[k] = k < told_apart ? placement::offload : placement::keep;
      for (std::size_t k = 0; k < rebuilt; ++k) where[cheapest[k]] = placement::recompute;
      add_option(i, where, true, output_bytes);
      if (!options_inside_) return;
      if (rebuilt > 0 && !how_.insured) add_option(i, where, false, output_bytes);
      halve(i, where);
      add_option(i, where, true, output_bytes);
      for (auto& one : where) one = one == placement::offload ? placement::keep : one;
      if (rebuilt > 0) add_option(i, where, true, output_bytes);
    }
  }

  /// Of what is ferried, the larger items stay, up to half of the bytes.
  void halve(std::uint32_t i, std::vector<placement>& where) const {
    auto const& segment = step_.segments[i];
    auto const& inner = made_.stages[i].inner;
    std::vector<std::size_t> ferried;
    double total = 0;
    for (std::size_t k = 0; k < where.size(); ++k) {
      if (where[k] != placement::offload) continue;
      ferried.push_back(k);
      total += held_bytes(segment.items[inner[k]]);
    }
    std::ranges::stable_sort(ferried, std::greater{}, [&](std::size_t k) { return segment.items[inner[k]].bytes; });
    double kept = 0;
    for (std::size_t const k : ferried) {
      auto const bytes = held_bytes(segment.items[inner[k]]);
      if (kept + bytes > 0.5 * total) continue;
      kept += bytes;
      where[k] = placement::keep;
    }
  }

  void add_option(std::uint32_t i, std::vector<placement> const& where, bool output_stays, double output_bytes) {
    auto const& segment = step_.segments[i];
    auto const& inner = made_.stages[i].inner;
    saving_option option;
    std::vector<bool> goes(where.size());
    for (std::size_t k = 0; k < where.size(); ++k) {
      auto const& item = segment.items[inner[k]];
      auto const bytes = held_bytes(item);
      if (where[k] == placement::keep) option.kept_bytes += bytes;
      if (where[k] == placement::offload) option.ferried_bytes += bytes;
      if (where[k] == placement::recompute) {
        option.rebuilt_bytes += bytes;
        option.rebuild_s += *item.recipe_us * per_us;
        goes[k] = true;
      }
      if (k < told_apart) option.tag |= std::uint64_t{static_cast<std::uint8_t>(where[k])} << (2 * k);
    }
    option.output_stays = output_stays;
    (output_stays ? option.kept_bytes : option.ferried_bytes) += output_bytes;
    option.forward_peak_bytes = forward_peak(i, goes);
    auto& options = made_.problem.options[i];
    bool const known = std::ranges::any_of(options, [&](saving_option const& other) {
      return other.tag == option.tag && other.output_stays == option.output_stays;
    });
    if (!known) options.push_back(option);
  }

  void set_hardware(chain& c) const {
    c.device_bytes = static_cast<double>(how_.budget_bytes) * (1 - how_.fragmentation_margin);
    c.host_bytes = static_cast<double>(how_.host_budget_bytes > 0 ? how_.host_budget_bytes : on_.host_bytes);
    c.d2h_bytes_per_s = on_.device_to_host.gbps * 1e9 * how_.link_derating;
    c.h2d_bytes_per_s = on_.host_to_device.gbps * 1e9 * how_.link_derating;
    c.d2h_latency_s = on_.device_to_host.latency_us * per_us;
    c.h2d_latency_s = on_.host_to_device.latency_us * per_us;
    c.beside = on_.beside.any() ? on_.beside : step_.beside;
    c.insured = how_.insured;
    c.output_apart = true;
  }

  profile const& step_;
  hardware const& on_;
  plan_options const& how_;
  bool options_inside_;
  step_chain made_;
  std::vector<bool> rebuildable_;
};

}  // namespace

std::vector<placement> step_chain::placements(std::uint32_t stage, std::int8_t saving) const {
  auto const inner = stages[stage].inner.size();
  if (saving == replayed) return std::vector(inner, placement::recompute);
  if (saving == kept_whole) return std::vector(inner, placement::keep);
  if (saving == ferried_whole) return std::vector(inner, placement::offload);
  std::uint64_t const tag = saving_of(problem, stage, saving).tag;
  std::vector<placement> where(inner, placement::keep);
  for (std::size_t k = 0; k < std::min(inner, told_apart); ++k) {
    where[k] = static_cast<placement>((tag >> (2 * k)) & 3U);
  }
  return where;
}

step_chain make_step_chain(profile const& step, hardware const& on, plan_options const& how, bool options_inside) {
  return builder(step, on, how, options_inside).build();
}

}  // namespace ferry::planning
