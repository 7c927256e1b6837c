// A trainer made from a profile: it allocates, launches, saves, restores and releases as the profiled one did, and its
// kernels take as long.
#include "ferry/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/session.hpp"
#include "plan/item_index.hpp"

namespace ferry {

namespace {

constexpr double nanoseconds_per_us = 1000;

class profiled_trainer {
 public:
  profiled_trainer(profile const& step, session& on, stream_ref stream, double& next_cost_us)
      : step_(step), on_(on), stream_(stream), next_cost_us_(next_cost_us) {
    std::size_t items = 0;
    for (auto const& segment : step.segments) items += segment.items.size();
    planning::item_index index;
    index.reserve(items);
    for (std::uint32_t i = 0; i < step.segments.size(); ++i) {
      first_.push_back(all_.size());
      for (auto const& item : step.segments[i].items) {
        index.add(i, item.name, all_.size());
        all_.push_back({{0, i, label(item.name)}, &item, {}, all_.size()});
      }
    }
    first_.push_back(all_.size());
    (void)index.settle();
    for (std::size_t k = 0; k < all_.size(); ++k) {
      for (auto const& name : all_[k].item->inputs) {
        auto const input = *index.find(name.segment, name.name);
        all_[k].inputs.push_back(input);
        all_[input].last_reader = std::max(all_[input].last_reader, k);
      }
    }
    for (auto const& name : step.need_order) needs_.push_back(*index.find(name.segment, name.name));
    compare_recipes_with_forward();
  }

  void run() {
    on_.begin_step();
    forward();
    backward();
    on_.end_step();
  }

 private:
  struct one_item {
    item_key key;
    profile_item const* item;
    std::vector<std::size_t> inputs;
    std::size_t last_reader;
    lease held{};
  };

  void launch(double us, label const& name) {
    if (us <= 0) return;
    next_cost_us_ = us;
    stream_.owner()->launch(stream_, name, {}, [] {});
  }

  /// An input that is made by the segment before is part of that one's forward. The first segment's is there before.
  [[nodiscard]] std::uint32_t maker(one_item const& one) const {
    bool const made_before = !one.inputs.empty() && std::ranges::all_of(one.inputs, [&](std::size_t input) {
      return all_[input].key.segment < one.key.segment;
    });
    return made_before ? one.key.segment - 1 : one.key.segment;
  }
  [[nodiscard]] static bool is_given(one_item const& one) { return one.inputs.empty() && one.key.segment == 0; }

  /// What forward takes beyond the making of items, at the end of a segment; or, where one operation makes several
  /// items and so takes less than their recipes, by how much less.
  void compare_recipes_with_forward() {
    std::vector<double> recipes_us(step_.segments.size(), 0);
    for (auto const& one : all_) {
      if (!is_given(one)) recipes_us[maker(one)] += one.item->recipe_us.value_or(0);
    }
    for (std::size_t i = 0; i < recipes_us.size(); ++i) {
      double const forward_us = step_.segments[i].forward_us;
      remainder_us_.push_back(std::max(0.0, forward_us - recipes_us[i]));
      share_.push_back(recipes_us[i] > forward_us ? forward_us / recipes_us[i] : 1);
    }
  }

  void make(one_item& one) {
    auto memory = on_.allocate(one.item->bytes, stream_, one.key.name);
    double const us = one.item->recipe_us.value_or(0);
    if (!is_given(one)) launch(us * share_[maker(one)], one.key.name);
    recipe how;
    if (one.item->recipe_us) {
      std::vector<item_key> inputs;
      for (std::size_t const input : one.inputs) inputs.push_back(all_[input].key);
      how.inputs = item_list(inputs);
      how.enqueue = [this, us, name = one.key.name](recipe_context const&) { launch(us, name); };
    }
    one.held = on_.save(one.key, std::move(memory), stream_, std::move(how));
  }

  void forward() {
    for (std::uint32_t i = 0; i < step_.segments.size(); ++i) {
      auto const& segment = step_.segments[i];
      block scratch;
      for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) {
        make(all_[k]);
        // Scratch memory comes after the input, which belongs to the segment before.
        if (k == first_[i] && segment.forward_scratch_bytes > 0) {
          scratch = on_.allocate(segment.forward_scratch_bytes, stream_, "forward scratch");
        }
        for (std::size_t const input : all_[k].inputs) {
          if (all_[input].last_reader == k) all_[input].held.end();
        }
      }
      // What the next segment does not read is no longer used.
      for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) {
        if (all_[k].last_reader < first_[i + 1]) all_[k].held.end();
      }
      launch(remainder_us_[i], "forward");
    }
    for (auto& one : all_) one.held.end();
  }

  void backward() {
    for (auto i = static_cast<std::uint32_t>(step_.segments.size()); i-- > 0;) {
      auto const& segment = step_.segments[i];
      for (std::size_t const k : needs_) {
        if (all_[k].key.segment == i) all_[k].held = on_.restore(all_[k].key, stream_);
      }
      block scratch;
      if (segment.backward_scratch_bytes > 0) {
        scratch = on_.allocate(segment.backward_scratch_bytes, stream_, "backward scratch");
      }
      launch(segment.backward_us, "backward");
      scratch = {};
      for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) {
        all_[k].held.end();
        on_.release(all_[k].key);
      }
    }
  }

  profile const& step_;
  session& on_;
  stream_ref stream_;
  double& next_cost_us_;
  std::vector<one_item> all_;
  std::vector<std::size_t> first_;  // of each segment's items
  std::vector<std::size_t> needs_;
  std::vector<double> remainder_us_;
  std::vector<double> share_;
};

void note_plan(simulation& seen, std::uint32_t step, plan const* followed) {
  if (followed == nullptr) return;
  if (seen.plans.empty() || seen.plans.back().what != *followed) seen.plans.push_back({step, *followed});
}

}  // namespace

simulation simulate(profile const& step, hardware const& on, simulation_options const& how) {
  step.check();
  simulation result;
  double next_cost_us = 0;
  bool last = false;
  std::chrono::nanoseconds began{0};
  sim_device_options options;
  options.device_bytes = on.device_bytes;
  options.pinned_bytes = on.host_bytes;
  options.device_to_host = on.device_to_host;
  options.host_to_device = on.host_to_device;
  options.slow_downs = how.slow_downs;
  options.kernel_cost = [&](label const&, std::span<memory_access const>) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(next_cost_us * nanoseconds_per_us + 0.5));
  };
  options.observe = [&](sim_operation const& over) {
    if (!last || over.start < began) return;
    result.timeline.push_back(over);
    result.timeline.back().start -= began;
    result.timeline.back().end -= began;
  };
  auto const device = make_sim_device(std::move(options));
  stream const compute(*device, stream_kind::compute, "compute");
  session on_sim(*device, how.settings);
  if (how.planned) on_sim.follow(*how.planned);
  profiled_trainer trainer(step, on_sim, compute, next_cost_us);
  for (std::uint32_t k = 0; k < how.steps; ++k) {
    last = k + 1 == how.steps;
    on_sim.synchronize();
    if (how.before_step) how.before_step(k, *device);
    began = device->now();
    trainer.run();
    compute.synchronize();
    result.steps_us.push_back(static_cast<double>((device->now() - began).count()) / nanoseconds_per_us);
    note_plan(result, k, on_sim.followed());
  }
  result.step_us = result.steps_us.back();
  result.stats = on_sim.stats();
  if (auto const* const followed = on_sim.followed()) result.planned = *followed;
  return result;
}

}  // namespace ferry
