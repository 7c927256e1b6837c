#include "doctor/torch_ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace ferry::command {

namespace {

/// What a rule comes to for one part of the batch.
struct part_cost {
  std::size_t peak_bytes = 0;
  std::size_t host_bytes = 0;  ///< that many bytes go out and come back
  double part_us = 0;
  double recompute_us = 0;
};

/// A part's items, by what these rules tell apart.
struct item_sums {
  std::size_t all = 0;
  std::size_t inputs = 0;      ///< of segments
  std::size_t last_input = 0;  ///< the head's, which no block's rule is about
  std::size_t cheap = 0;       ///< the rest: what neither a product nor attention makes
  std::size_t largest = 0;     ///< segment but for its input, with what its backward needs
  std::size_t most_cheap = 0;  ///< of a segment, with what its backward needs
  double rebuild_us = 0;       ///< all but inputs
  double cheap_us = 0;
};

/// All but segments' inputs and what products and attention make.
bool is_cheap(profile_item const& item) {
  constexpr std::string_view dear[] = {"x", "qkv", "heads", "mid", "fc", "gate", "up", "post1", "post2", "routed"};
  return std::ranges::find(dear, item.name) == std::end(dear);
}

item_sums sums_of(profile const& step) {
  item_sums made;
  for (auto const& segment : step.segments) {
    std::size_t inside = segment.backward_scratch_bytes;
    std::size_t cheap = segment.backward_scratch_bytes;
    for (auto const& item : segment.items) {
      made.all += item.bytes;
      if (item.name == "x") {
        made.inputs += item.bytes;
        made.last_input = item.bytes;
        continue;
      }
      inside += item.bytes;
      made.rebuild_us += item.recipe_us.value_or(0);
      if (!is_cheap(item)) continue;
      made.cheap += item.bytes;
      made.cheap_us += item.recipe_us.value_or(0);
      cheap += item.bytes;
    }
    made.largest = std::max(made.largest, inside);
    made.most_cheap = std::max(made.most_cheap, cheap);
  }
  return made;
}

/// Copies of so many bytes, and what a part computes.
struct times {
  double forward_us = 0;
  double backward_us = 0;
  double out_us = 0;
  double in_us = 0;
};

double copy_us(std::size_t bytes, link_speed const& over) {
  return over.gbps > 0 ? static_cast<double>(bytes) / (over.gbps * 1e3) : std::numeric_limits<double>::infinity();
}

times times_of_copies(part_of_step const& part, std::size_t bytes) {
  double const forward_us = part.forward_us / part.accumulate;
  return {.forward_us = forward_us,
          .backward_us = unlimited_us(part.step) - forward_us,
          .out_us = copy_us(bytes, part.on.device_to_host),
          .in_us = copy_us(bytes, part.on.host_to_device)};
}

part_cost checkpointed(part_of_step const& part) {
  auto const of = sums_of(part.step);
  return {of.inputs + of.largest, 0, unlimited_us(part.step) + of.rebuild_us, of.rebuild_us};
}

part_cost selective(part_of_step const& part) {
  auto const of = sums_of(part.step);
  return {of.all - of.cheap + of.most_cheap, 0, unlimited_us(part.step) + of.cheap_us, of.cheap_us};
}

/// What of an item every second product makes: with keys apart from queries and values that is they, the projection and
/// the gate's partner; else the projection.
double share_of_second(model const& of, profile_item const& item) {
  if (item.name == "mid" || item.name == "up") return 1;
  bool const keys = item.name == "qkv" && of.kind == model_kind::llama && !of.joined;
  return keys ? static_cast<double>(of.kv_heads) / (of.heads + 2 * of.kv_heads) : 0;
}

part_cost every_second(part_of_step const& part) {
  auto made = selective(part);
  double most = 0;
  for (auto const& segment : part.step.segments) {
    double inside = 0;
    for (auto const& item : segment.items) {
      double const share = share_of_second(part.of, item);
      inside += share * static_cast<double>(item.bytes);
      made.recompute_us += share * item.recipe_us.value_or(0);
      made.part_us += share * item.recipe_us.value_or(0);
    }
    most = std::max(most, inside);
    made.peak_bytes -= static_cast<std::size_t>(inside);
  }
  made.peak_bytes += static_cast<std::size_t>(most);
  return made;
}

/// A copy stands between each operation and the next, both ways.
part_cost saved_on_cpu(part_of_step const& part) {
  auto const of = sums_of(part.step);
  auto const t = times_of_copies(part, of.all);
  return {of.largest, of.all, t.forward_us + t.backward_us + t.out_us + t.in_us, 0};
}

/// Out beside forward; back when it is needed.
part_cost offloaded(part_of_step const& part) {
  auto const of = sums_of(part.step);
  auto const t = times_of_copies(part, of.all);
  return {of.largest, of.all, std::max(t.forward_us, t.out_us) + t.backward_us + t.in_us, 0};
}

/// Two blocks' inputs are on the device, the rest on their way or on the host.
part_cost inputs_offloaded(part_of_step const& part) {
  auto const of = sums_of(part.step);
  std::size_t const sent = of.inputs - of.last_input;
  auto const t = times_of_copies(part, sent);
  double const backward_us = std::max(t.backward_us + of.rebuild_us, t.in_us);
  return {of.largest + 2 * of.last_input, sent, std::max(t.forward_us, t.out_us) + backward_us, of.rebuild_us};
}

part_cost inputs_on_cpu(part_of_step const& part) {
  auto const of = sums_of(part.step);
  std::size_t const sent = of.inputs - of.last_input;
  auto const t = times_of_copies(part, sent);
  return {of.largest + of.last_input, sent, t.forward_us + t.backward_us + of.rebuild_us + t.out_us + t.in_us,
          of.rebuild_us};
}

using rule = part_cost (*)(part_of_step const&);

std::optional<forecast> cost_of(desk const& at, std::string const& name, rule const& by) {
  for (int const micro_batch : parts_of(at.of.batch)) {
    part_of_step const part(at, micro_batch);
    auto const cost = by(part);
    bool const possible = cost.part_us < std::numeric_limits<double>::infinity();
    if (!possible || cost.peak_bytes > at.budget || cost.host_bytes > at.host_budget) continue;
    forecast made = forecast_of(at, part, name, cost.part_us, cost.host_bytes > 0);
    made.peak_bytes = cost.peak_bytes;
    made.host_bytes = cost.host_bytes;
    made.recompute_us = part.accumulate * cost.recompute_us;
    made.out_bytes = made.in_bytes = cost.host_bytes * static_cast<std::size_t>(part.accumulate);
    return made;
  }
  return std::nullopt;
}

/// The best that rebuilding alone can do, which is what torch.compile's knapsack looks for.
torch_way compiled(desk at) {
  at.host_budget = 0;
  torch_way way{"torch.compile with a budget", "", std::nullopt};
  for (int const micro_batch : parts_of(at.of.batch)) {
    if (least_bytes(at, micro_batch) > at.budget) continue;
    way.cost = rebuilding_only(at, micro_batch);
    if (!way.cost) continue;
    way.cost->policy = way.name;
    part_of_step const part(at, micro_batch);
    double const all = static_cast<double>(sums_of(part.step).all);
    double const share = std::clamp(static_cast<double>(at.budget) / all, 0.01, 1.0);
    way.setting = fmt::format("torch._functorch.config.activation_memory_budget={:.2f}", share);
    break;
  }
  if (way.setting.empty()) way.setting = "torch._functorch.config.activation_memory_budget";
  return way;
}

}  // namespace

std::vector<torch_way> torch_ways(desk const& at) {
  struct known {
    char const* name;
    char const* setting;
    rule by;
  };
  constexpr known all[] = {
      {"gradient checkpointing",
       "torch.utils.checkpoint around each block; Transformers and TRL gradient_checkpointing=True; torchtitan "
       "activation_checkpoint.mode=full; FSDP apply_activation_checkpointing",
       checkpointed},
      {"selective checkpointing",
       "torch.utils.checkpoint with create_selective_checkpoint_contexts that saves products and attention", selective},
      {"selective checkpointing, every second product", "torchtitan activation_checkpoint.mode=selective",
       every_second},
      {"block inputs offloaded, blocks rebuilt",
       "Unsloth use_gradient_checkpointing=\"unsloth\"; torchtune enable_activation_checkpointing with "
       "enable_activation_offloading",
       inputs_offloaded},
      {"block inputs on the CPU, blocks rebuilt", "DeepSpeed activation_checkpointing.cpu_checkpointing=true",
       inputs_on_cpu},
      {"everything offloaded", "TRL activation_offloading=True; torchtune enable_activation_offloading=True",
       offloaded},
      {"everything on the CPU", "torch.autograd.graph.save_on_cpu(pin_memory=True); FSDP offload_wrapper",
       saved_on_cpu},
  };
  std::vector<torch_way> ways;
  for (auto const& one : all) ways.push_back({one.name, one.setting, cost_of(at, one.name, one.by)});
  ways.push_back(compiled(at));
  if (int const kept = largest_part_kept(at); kept > 0 && kept < at.of.batch) {
    ways.push_back({"smaller micro-batches",
                    fmt::format("gradient_accumulation_steps={} and as much less a micro-batch", at.of.batch / kept),
                    keeping_all(at, kept)});
  }
  std::ranges::stable_sort(ways, {}, [](torch_way const& way) {
    return way.cost ? way.cost->step_us : std::numeric_limits<double>::infinity();
  });
  return ways;
}

}  // namespace ferry::command
