// The residual network by formula: bottleneck blocks with the stride in their 3x3 convolution.
//
//   x -> conv1 (1x1) -> bn1 -> conv2 (3x3) -> bn2 -> conv3 (1x1) -> next x = relu(bn3(conv3) + x or skip)
//
// A convolution's output is an item because batch normalisation's backward reads it; `bn1` and `bn2`, after their ReLU,
// because the next convolution's does. Of the sum's ReLU a bit per element is enough: `mask`. The statistics of a batch
// stay on the device, so rebuilding a normalised tensor is one pass over memory.
#include <algorithm>
#include <array>
#include <utility>

#include "ferry/model_profile.hpp"
#include "plan/roofline.hpp"

namespace ferry {

namespace {

using planning::require_between;
using planning::roofline;
using planning::to_nanoseconds;
using planning::work;

constexpr double element_bytes = 2;
constexpr int stages = 4;
constexpr int stem_channels = 64;
constexpr int expansion = 4;  // of a block's output over its inner channels
constexpr int classes = 1000;
constexpr double normalise_flops = 4;
// Passes over a tensor: statistics and result, or result alone when the statistics are known.
constexpr double forward_passes = 3;
constexpr double rebuild_passes = 2;
constexpr double backward_passes = 5;

std::array<int, stages> blocks_of(int depth) {
  switch (depth) {
    case 50:
      return {3, 4, 6, 3};
    case 101:
      return {3, 4, 23, 3};
    case 152:
      return {3, 8, 36, 3};
    default:
      throw invalid_argument(fmt::format("depth = {}: give 50, 101 or 152", depth));
  }
}

int halved(int size) { return (size + 1) / 2; }

struct convolution {
  double in = 0;  // elements
  double out = 0;
  double weights = 0;
  double flops = 0;

  [[nodiscard]] work forward() const { return {flops, element_bytes * (in + out + weights)}; }
};

class resnet_builder {
 public:
  resnet_builder(resnet_dimensions const& of, hardware const& on) : of_(of), time_(on) {
    step_.name = fmt::format("resnet-{}: batch {}, images of {}, on {}", of.depth, of.batch, of.image, on.name);
  }

  profile build() && {
    auto const blocks = blocks_of(of_.depth);
    int size = add_stem();
    int channels = stem_channels;
    for (int stage = 0; stage < stages; ++stage) {
      int const inner = stem_channels << stage;
      for (int i = 0; i < blocks[stage]; ++i) {
        int const out_size = stage > 0 && i == 0 ? halved(size) : size;
        add_block(size, channels, out_size, inner);
        size = out_size;
        channels = expansion * inner;
      }
    }
    add_classifier(size, channels);
    for (auto segment = static_cast<std::uint32_t>(step_.segments.size()); segment-- > 0;) {
      auto const& items = step_.segments[segment].items;
      for (std::size_t i = items.size(); i-- > 0;) step_.need_order.push_back({segment, items[i].name});
    }
    return planning::checked(std::move(step_));
  }

 private:
  [[nodiscard]] double elements(int size, int channels) const {
    return static_cast<double>(of_.batch) * size * size * channels;
  }
  static std::size_t bytes(double count) { return static_cast<std::size_t>(element_bytes * count); }

  [[nodiscard]] convolution convolve(int size, int in, int out_size, int out, int kernel) const {
    double const weights = static_cast<double>(in) * out * kernel * kernel;
    return {elements(size, in), elements(out_size, out), weights, 2 * elements(out_size, 1) * weights};
  }
  /// One for the input's gradient, one for the weights'.
  [[nodiscard]] double backward_us(convolution const& of) const { return 2 * time_.us(of.forward()); }
  [[nodiscard]] static work passes(double count, double times) {
    return {normalise_flops * count, element_bytes * times * count};
  }
  [[nodiscard]] double passes_us(double count, double times) const { return time_.us(passes(count, times)); }

  [[nodiscard]] std::uint32_t here() const { return static_cast<std::uint32_t>(step_.segments.size() - 1); }
  [[nodiscard]] item_name own(char const* name) const { return {here(), name}; }

  void add_item(std::string name, std::size_t size, work const& recipe, std::vector<item_name> inputs) {
    step_.segments.back().items.push_back({.name = std::move(name),
                                           .bytes = size,
                                           .recipe_us = time_.us(recipe),
                                           .inputs = std::move(inputs),
                                           .recipe_flops = recipe.flops});
  }
  void add_conv(char const* name, convolution const& of, char const* from) {
    add_item(name, bytes(of.out), of.forward(), {own(from)});
  }
  void add_normalised(char const* name, double count, char const* from) {
    add_item(name, bytes(count), passes(count, rebuild_passes), {own(from)});
  }

  /// Returns the size of the first block's input.
  int add_stem() {
    int const size = halved(of_.image);
    int const pooled = halved(size);
    auto const conv = convolve(of_.image, 3, size, stem_channels, 7);
    double const out = elements(pooled, stem_channels);
    step_.segments.emplace_back();
    step_.segments.back().items.push_back(
        {.name = "x", .bytes = bytes(conv.in), .recipe_us = {}, .inputs = {}, .recipe_flops = 0});
    add_conv("conv1", conv, "x");
    add_normalised("bn1", conv.out, "conv1");
    work const pooling{conv.out, element_bytes * (conv.out + out)};
    add_item("argmax", static_cast<std::size_t>(out), pooling, {own("bn1")});  // a byte says which of nine
    profile_segment& stem = step_.segments.back();
    stem.forward_us =
        to_nanoseconds(time_.us(conv.forward()) + passes_us(conv.out, forward_passes) + time_.us(pooling));
    // Images need no gradient.
    stem.backward_us =
        to_nanoseconds(time_.us(conv.forward()) + passes_us(conv.out, backward_passes) + time_.us(pooling));
    stem.backward_scratch_bytes = bytes(out + 2 * conv.out);
    input_recipe_ = pooling;
    input_inputs_ = {own("bn1")};
    return pooled;
  }

  /// The block's input, which the segment before has made.
  void add_input(double count) { add_item("x", bytes(count), input_recipe_, std::exchange(input_inputs_, {})); }

  void add_block(int size, int channels, int out_size, int inner) {
    int const out_channels = expansion * inner;
    bool const projects = channels != out_channels || size != out_size;
    auto const conv1 = convolve(size, channels, size, inner, 1);
    auto const conv2 = convolve(size, inner, out_size, inner, 3);
    auto const conv3 = convolve(out_size, inner, out_size, out_channels, 1);
    auto const skip = convolve(size, channels, out_size, out_channels, 1);
    double const out = conv3.out;

    step_.segments.emplace_back();
    add_input(conv1.in);
    add_conv("conv1", conv1, "x");
    add_normalised("bn1", conv1.out, "conv1");
    add_conv("conv2", conv2, "bn1");
    add_normalised("bn2", conv2.out, "conv2");
    add_conv("conv3", conv3, "bn2");
    if (projects) add_conv("skip", skip, "x");
    std::vector<item_name> const sum{own("conv3"), own(projects ? "skip" : "x")};
    work const rebuild_sum = passes(out, 3);  // reads both, writes one
    add_item("mask", static_cast<std::size_t>(out / 8), {out, element_bytes * 2 * out + out / 8}, sum);

    profile_segment& block = step_.segments.back();
    double forward = passes_us(conv1.out, forward_passes) + passes_us(conv2.out, forward_passes) +
                     passes_us(out, forward_passes + 1);
    double backward = passes_us(conv1.out, backward_passes) + passes_us(conv2.out, backward_passes) +
                      passes_us(out, backward_passes + 1);
    for (auto const& conv : {conv1, conv2, conv3}) {
      forward += time_.us(conv.forward());
      backward += backward_us(conv);
    }
    if (projects) {
      forward += time_.us(skip.forward()) + passes_us(out, 1);
      backward += backward_us(skip) + passes_us(out, backward_passes);
    }
    block.forward_us = to_nanoseconds(forward);
    block.backward_us = to_nanoseconds(backward);
    // The sum's gradient waits for the inner ones, then both make the input's.
    block.backward_scratch_bytes = bytes(std::max(2 * out + conv2.out, out + conv1.out + conv1.in));
    input_recipe_ = rebuild_sum;
    input_inputs_ = sum;
  }

  void add_classifier(int size, int channels) {
    double const in = elements(size, channels);
    double const pooled = static_cast<double>(of_.batch) * channels;
    double const logits = static_cast<double>(of_.batch) * classes;
    work const average{in, element_bytes * (in + pooled)};
    work const product{2 * pooled * classes,
                       element_bytes * (pooled + logits + static_cast<double>(channels) * classes)};
    step_.segments.emplace_back();
    add_input(in);
    add_item("pooled", bytes(pooled), average, {own("x")});
    profile_segment& last = step_.segments.back();
    last.forward_us = to_nanoseconds(time_.us(average) + time_.us(product));
    last.backward_us = to_nanoseconds(time_.us(average) + 2 * time_.us(product));
    last.forward_scratch_bytes = bytes(logits);
    last.backward_scratch_bytes = bytes(in + pooled + logits);
  }

  resnet_dimensions const& of_;
  roofline time_;
  profile step_;
  work input_recipe_;  // of the next segment's x
  std::vector<item_name> input_inputs_;
};

}  // namespace

profile resnet_profile(resnet_dimensions const& of, hardware const& on) {
  static_cast<void>(blocks_of(of.depth));
  require_between("batch", of.batch, 1, 1 << 20);
  require_between("image", of.image, 32, 1 << 14);
  return resnet_builder(of, on).build();
}

}  // namespace ferry
