#include "doctor/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "common/timeline.hpp"
#include "doctor/product_rate.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

constexpr double link_derating = plan_options{}.link_derating;

std::string percent(double share) { return fmt::format("{:.{}f}%", 100 * share, std::abs(share) < 0.0995 ? 1 : 0); }

profile_item const* find_item(profile_segment const& segment, std::string_view name) {
  auto const found = std::ranges::find(segment.items, name, &profile_item::name);
  return found == segment.items.end() ? nullptr : &*found;
}

std::string about_states(prescription const& made) {
  auto const& memory = made.memory;
  std::string const needed = format_bytes(memory.states.sum());
  std::string const has =
      format_bytes(made.asked.on.device_bytes - std::min(made.asked.on.device_bytes, memory.reserve));
  return fmt::format(
      "activations are not the problem: weights, gradients and optimizer alone need {} of the {} that are usable; "
      "no policy for activations changes that. Divide them (ZeRO), use a smaller optimizer state{}, or train fewer "
      "weights (--lora, --qlora)",
      needed, has, made.asked.of.numbers == precision::fp32 ? " or 16-bit weights" : "");
}

std::optional<std::string> about_flash(prescription const& made, profile const& step) {
  auto const& block = step.segments.front();
  auto const* const heads = find_item(block, "heads");
  if (!made.asked.of.flash || heads == nullptr || made.memory.fits()) return std::nullopt;
  double recipes = 0;
  for (auto const& item : block.items) recipes += item.name == "x" ? 0 : *item.recipe_us;
  return fmt::format(
      "attention is already flash, whose backward rebuilds the probabilities: recomputing it as well frees {} of a "
      "layer's bytes and costs {} of the time that rebuilding the layer takes",
      percent(static_cast<double>(heads->bytes) / static_cast<double>(made.memory.activations.per_layer)),
      percent(*heads->recipe_us / recipes));
}

std::optional<std::string> about_explicit(prescription const& made, profile const& step) {
  if (made.asked.of.flash) return std::nullopt;
  auto const* const att = find_item(step.segments.front(), "att");
  if (att == nullptr) return std::nullopt;
  return fmt::format(
      "the attention's probabilities are {} a layer, {} of its bytes: flash attention (--attention flash) holds none "
      "of them and costs no recomputing beside its own",
      format_bytes(att->bytes),
      percent(static_cast<double>(att->bytes) / static_cast<double>(made.memory.activations.per_layer)));
}

/// Whether all of a layer's bytes can leave while the next one computes.
std::optional<std::string> about_offload(prescription const& made, profile const& step) {
  if (made.memory.fits()) return std::nullopt;
  double const gbps = made.asked.on.device_to_host.gbps * link_derating;
  if (gbps <= 0) return std::nullopt;
  auto const& block = step.segments.front();
  auto const bytes = static_cast<double>(made.memory.activations.per_layer);
  double const out_us = bytes / (gbps * 1e3);
  double const ratio = out_us / block.forward_us;
  if (ratio <= 1) return std::nullopt;
  return fmt::format(
      "offloading everything cannot be hidden: a layer's {} take {} to leave at {:.1f} GB/s and its forward takes {}, "
      "a ratio of {:.1f}; about {} of the bytes can travel behind compute",
      format_bytes(made.memory.activations.per_layer), words_of_time(out_us), gbps, words_of_time(block.forward_us),
      ratio, percent(1 / ratio));
}

std::optional<std::string> about_host(prescription const& made) {
  std::size_t const has = pinnable(made.asked.host_memory);
  auto const saved = made.memory.activations.saved;
  if (made.advised && made.advised->host_bytes > has - has / 20) {
    return fmt::format(
        "host memory bounds this: the prescription pins {} of the {} that may be pinned; with more (--host-memory) "
        "less "
        "would be recomputed",
        format_bytes(made.advised->host_bytes), format_bytes(has));
  }
  bool const offload_unfit = std::ranges::find(made.unfit, "offload") != made.unfit.end();
  if (!offload_unfit || saved <= has) return std::nullopt;
  return fmt::format("host memory is too small to offload everything: {} are saved in a step, {} may be pinned",
                     format_bytes(saved), format_bytes(has));
}

/// What parts of a batch cost and change, where some are advised or would do.
std::optional<std::string> about_accumulation(prescription const& made) {
  if (!made.advised) return std::nullopt;
  forecast const* parts = made.advised->accumulate > 1 ? &*made.advised : nullptr;
  for (auto const& other : made.alternatives) {
    if (parts == nullptr && other.accumulate > 1) parts = &other;
  }
  if (parts == nullptr) return std::nullopt;
  auto const& of = made.asked.of;
  return fmt::format(
      "{} micro-batches ask the trainer to run forward and backward {} times and the optimizer once; gradients are "
      "those "
      "of the whole batch but for the order of sums. Products of {} rows are taken to last {} longer for their work "
      "than "
      "those of {} (time as of {:.0f} more rows): measure that, it decides between this and larger parts",
      parts->accumulate, parts->accumulate, static_cast<long>(parts->micro_batch) * of.context,
      percent(parts->slower_products - 1), static_cast<long>(of.batch) * of.context,
      fixed_rows(made.asked.on, of.numbers));
}

std::optional<std::string> about_exchange(prescription const& made) {
  if (!made.advised || made.advised->exchanged_bytes == 0) return std::nullopt;
  auto const& one = *made.advised;
  constexpr double much = 0.02;
  if (one.exposed_exchange_us < much * one.step_us) return std::nullopt;
  return fmt::format(
      "the GPUs' exchange decides the step: {} each way over {} at {:.3g} GB/s take {}, of which compute hides {}; "
      "{}fewer micro-batches, a lower ZeRO stage or adapters send less",
      format_bytes(one.exchanged_bytes), to_string(made.between.kind), made.between.gbps,
      words_of_time(one.exchange_us), words_of_time(one.exchange_us - one.exposed_exchange_us),
      made.between.shares_the_link() && one.out_bytes > 0 ? "offloading shares its lanes; " : "");
}

std::optional<std::string> about_logits(prescription const& made) {
  std::size_t const all = logits_bytes(made.asked.of, true);
  constexpr std::size_t worth_saying = std::size_t{1} << 30;
  if (made.asked.how.whole_logits) {
    std::size_t const portions = logits_bytes(made.asked.of, false);
    if (all < portions + worth_saying) return std::nullopt;
    return fmt::format("all logits at once are {}: making them in portions would need {}", format_bytes(all),
                       format_bytes(portions));
  }
  if (all < worth_saying + made.memory.activations.logits) return std::nullopt;
  return fmt::format(
      "logits are counted in portions; a trainer that makes all of them at once, as PyTorch does unless told "
      "otherwise, "
      "needs {} for them, their fp32 copies and gradients: ask again with --logits whole",
      format_bytes(all));
}

}  // namespace

std::vector<std::string> warnings_of(prescription const& made, profile const& step) {
  std::vector<std::string> all;
  auto const add = [&all](std::optional<std::string> one) {
    if (one) all.push_back(std::move(*one));
  };
  if (!made.memory.states_fit()) all.push_back(about_states(made));
  if (made.asked.of.numbers == precision::bf16 && !made.asked.bf16) {
    all.push_back(fmt::format("{} has no bf16: use --dtype fp16, with loss scaling; the times here are those of fp16",
                              made.asked.on.name));
  }
  add(about_accumulation(made));
  add(about_exchange(made));
  add(about_offload(made, step));
  add(about_flash(made, step));
  add(about_explicit(made, step));
  add(about_host(made));
  add(about_logits(made));
  return all;
}

namespace {

std::string about_precision(question const& asked) {
  if (asked.of.numbers == precision::fp32) return "weights and gradients in fp32";
  if (asked.how.optimizer == optimizer_kind::none) return "weights too";
  return asked.how.master
             ? "weights and gradients too, with an fp32 copy of the weights in the optimizer (--master none: without)"
             : "weights and gradients too, without an fp32 copy of the weights";
}

/// What a layer saves, by the other kernels too.
std::string kernels_assumed(question const& asked) {
  auto const per_layer = [&](kernel_kind kernels) {
    model few = shortened(asked.of, 1);
    training how = asked.how;
    how.kernels = kernels;
    return format_bytes(activations_of(few, step_of(few, how, asked.on)).per_layer);
  };
  if (asked.how.kernels == kernel_kind::fused) {
    return fmt::format(
        "fused kernels, which save a layer's {}; PyTorch's operations one by one would save {} (--kernels eager)",
        per_layer(kernel_kind::fused), per_layer(kernel_kind::eager));
  }
  return fmt::format("{} kernels save a layer's {}, fused ones would {}; times are those of fused ones",
                     to_string(asked.how.kernels), per_layer(asked.how.kernels), per_layer(kernel_kind::fused));
}

std::string logits_assumed(question const& asked) {
  std::string const whole = format_bytes(logits_bytes(asked.of, true));
  std::string const portions = format_bytes(logits_bytes(asked.of, false));
  if (asked.how.whole_logits) {
    return fmt::format(
        "all logits at once, with fp32 copies and gradients for the loss: {}; in portions that would be {} (--logits "
        "portions)",
        whole, portions);
  }
  return fmt::format(
      "logits in portions, each of which becomes its own gradient: {}; all at once, as PyTorch makes them, that would "
      "be {} "
      "(--logits whole)",
      portions, whole);
}

}  // namespace

std::vector<std::string> assumptions_of(prescription const& made) {
  auto const& on = made.asked.on;
  std::vector<std::string> all{
      fmt::format(
          "times by formula: {:g} TFLOP/s of products in the whole batch, {:g} GB/s of memory; in parts of it a "
          "product of R rows takes as long as one of R + {:.0f} would; kernels overlap nothing",
          on.tflops, on.memory_gbps, fixed_rows(on, made.asked.of.numbers)),
      fmt::format("the link moves {:g} GB/s out and {:g} GB/s in, of which {} are planned with", on.device_to_host.gbps,
                  on.host_to_device.gbps, percent(link_derating)),
      fmt::format("{} of device memory are nobody's: CUDA context, cuBLAS workspace, gaps (--reserve)",
                  format_bytes(made.asked.reserve - made.asked.missing)),
      fmt::format("{} of host memory for this GPU{}, four fifths of which may be pinned (--host-memory)",
                  format_bytes(made.asked.host_memory),
                  moments_on_host(made.asked.how.optimizer) ? " beside what the optimizer has there" : ""),
      fmt::format("{} elements for activations; {}; no dropout", to_string(made.asked.of.numbers),
                  about_precision(made.asked)),
      kernels_assumed(made.asked),
      logits_assumed(made.asked),
      "no time for the optimizer's step or for loading data",
  };
  if (made.advised && made.advised->exchanged_bytes > 0) {
    all.push_back(
        fmt::format("GPUs exchange {:.3g} GB/s each way over {} (--interconnect, --interconnect-gbps), a tenth slower "
                    "beside copies to "
                    "the host; all of it but the first block's travels behind compute as far as there is any",
                    made.between.gbps, to_string(made.between.kind)));
  }
  return all;
}

}  // namespace ferry::command
