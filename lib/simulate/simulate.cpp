// A trainer made from a profile: it allocates, launches, saves, restores and releases as the profiled one did, and its
// kernels take as long.
#include "ferry/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/session.hpp"
#include "plan/item_index.hpp"

namespace ferry {

namespace {

constexpr double nanoseconds_per_us = 1000;

/// Stops the trainer at each moment until the device has done what is enqueued, and tells of it.
class step_watcher {
 public:
  using moment = simulation_moment::kind;

  step_watcher(session& on, sim_device& device, stream_ref stream, simulation_options const& how)
      : on_(on), device_(device), stream_(stream), tell_(how.watch) {}

  /// The next step is watched, if anybody wants to know.
  void start() {
    watching_ = tell_ != nullptr;
    began_ = device_.now();
  }

  void reach(moment what, std::uint32_t segment, label const& item = {}) {
    if (!watching_) return;
    event const done(device_);
    done.record(stream_);
    look(segment);
    while (device_.query(done) == event_status::pending) {
      device_.pass_time();
      look(segment);
    }
    tell(what, segment, item, on_.stats());
  }

 private:
  void look(std::uint32_t segment) {
    on_.idle_hint(0);  // so that the session sees to transfers that have ended
    auto const now = on_.stats();
    if (marks_of(now) != last_) tell(moment::changed, segment, {}, now);
  }
  /// What changes whenever an item is elsewhere.
  static std::array<std::uint64_t, 4> marks_of(session_stats const& of) {
    return {of.device.now_bytes, of.pinned.now_bytes, of.device_to_host.transfers, of.host_to_device.transfers};
  }
  void tell(moment what, std::uint32_t segment, label const& item, session_stats const& now) {
    last_ = marks_of(now);
    double const at_us = static_cast<double>((device_.now() - began_).count()) / nanoseconds_per_us;
    tell_({what, segment, item, at_us, on_, now});
  }

  session& on_;
  sim_device& device_;
  stream_ref stream_;
  std::function<void(simulation_moment const&)> const& tell_;
  bool watching_ = false;
  std::chrono::nanoseconds began_{0};
  std::array<std::uint64_t, 4> last_{};
};

class profiled_trainer {
 public:
  profiled_trainer(profile const& step, session& on, stream_ref stream, double& next_cost_us, double longest_us,
                   step_watcher& watcher)
      : step_(step), on_(on), stream_(stream), next_cost_us_(next_cost_us), longest_us_(longest_us), watcher_(watcher) {
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
    began_ = stream_.owner()->now();
    on_.begin_step();
    watcher_.reach(moment::begun, 0);
    forward();
    backward();
    on_.end_step();
  }

 private:
  using moment = simulation_moment::kind;

  struct one_item {
    item_key key;
    profile_item const* item;
    std::vector<std::size_t> inputs;
    std::size_t last_reader;
    lease held{};
  };

  void require_time() const {
    double const took_us = static_cast<double>((stream_.owner()->now() - began_).count()) / nanoseconds_per_us;
    if (took_us <= longest_us_) return;
    throw step_too_long(fmt::format("a step of '{}' takes longer than {} us", step_.name, longest_us_));
  }

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
      require_time();
      auto const& segment = step_.segments[i];
      block scratch;
      for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) {
        make(all_[k]);
        watcher_.reach(moment::computed, i, all_[k].key.name);
        // Scratch memory comes after the input, which belongs to the segment before.
        if (k == first_[i] && segment.forward_scratch_bytes > 0) {
          scratch = on_.allocate(segment.forward_scratch_bytes, stream_, "forward scratch");
        }
        for (std::size_t const input : all_[k].inputs) {
          if (all_[input].last_reader == k) all_[input].held.end();
        }
        watcher_.reach(moment::saved, i, all_[k].key.name);
      }
      // What the next segment does not read is no longer used.
      for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) {
        if (all_[k].last_reader < first_[i + 1]) all_[k].held.end();
      }
      launch(remainder_us_[i], "forward");
      scratch = {};
      watcher_.reach(moment::forward, i);
    }
    for (auto& one : all_) one.held.end();
  }

  void backward() {
    for (auto i = static_cast<std::uint32_t>(step_.segments.size()); i-- > 0;) {
      require_time();
      auto const& segment = step_.segments[i];
      for (std::size_t const k : needs_) {
        if (all_[k].key.segment != i) continue;
        all_[k].held = on_.restore(all_[k].key, stream_);
        watcher_.reach(moment::restored, i, all_[k].key.name);
      }
      block scratch;
      if (segment.backward_scratch_bytes > 0) {
        scratch = on_.allocate(segment.backward_scratch_bytes, stream_, "backward scratch");
      }
      launch(segment.backward_us, "backward");
      watcher_.reach(moment::backward, i);
      scratch = {};
      for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) {
        all_[k].held.end();
        on_.release(all_[k].key);
      }
      watcher_.reach(moment::released, i);
    }
  }

  profile const& step_;
  session& on_;
  stream_ref stream_;
  double& next_cost_us_;
  double longest_us_;
  std::chrono::nanoseconds began_{0};
  step_watcher& watcher_;
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

step_too_long::~step_too_long() = default;

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
  options.beside = on.beside.any() ? on.beside : step.beside;
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
  config settings = how.settings;
  settings.device = "auto";  // what is simulated is not the device that programs are to use
  session on_sim(*device, settings);
  if (how.planned) on_sim.follow(*how.planned);
  step_watcher watcher(on_sim, *device, compute, how);
  profiled_trainer trainer(step, on_sim, compute, next_cost_us, how.longest_step_us, watcher);
  for (std::uint32_t k = 0; k < how.steps; ++k) {
    last = k + 1 == how.steps;
    on_sim.synchronize();
    if (how.before_step) how.before_step(k, *device);
    began = device->now();
    if (last) watcher.start();
    trainer.run();
    compute.synchronize();
    result.steps_us.push_back(static_cast<double>((device->now() - began).count()) / nanoseconds_per_us);
    note_plan(result, k, on_sim.followed());
  }
  result.step_us = result.steps_us.back();
  on_sim.synchronize();  // what has ended is in the figures
  result.stats = on_sim.stats();
  if (auto const* const followed = on_sim.followed()) result.planned = *followed;
  return result;
}

}  // namespace ferry
