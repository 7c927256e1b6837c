#include "chain.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "interrupt.hpp"

namespace matmul_chain {

namespace {

constexpr std::uint32_t input_seed = 1;
constexpr std::uint32_t weights_seed = 2;

ferry::item_key key_of(std::uint32_t segment) { return {0, segment, "x"}; }

}  // namespace

chain::chain(ferry::device& on, ferry::stream_ref stream, chain_shape shape)
    : stream_(stream),
      shape_(shape),
      weights_(on, ferry::memory_space::device, shape.weights_bytes()),
      gradients_(on, ferry::memory_space::device, shape.weights_bytes()),
      forward_begins_(on, ferry::event_timing::on),
      forward_ends_(on, ferry::event_timing::on) {
  // The spread that keeps activations of the same size from layer to layer of a relu chain.
  float const scale = std::sqrt(6.0F / static_cast<float>(shape.layer.width));
  synthesize(stream_, weights_.as<float>(), weights_.bytes() / sizeof(float), scale, weights_seed);
}

void chain::step(ferry::session& session) {
  session.begin_step();
  auto y = forward(session);
  loss_and_gradient(stream_, shape_.layer, y.as<float>(), &loss_);
  backward(session, std::move(y));
  stream_.owner()->synchronize(stream_);
  session.end_step();
}

/// Returns X[layers], which is no item: backward needs only the loss's gradient by it.
ferry::block chain::forward(ferry::session& session) {
  auto y = session.allocate(shape_.item_bytes(), stream_, "x");
  synthesize(stream_, y.as<float>(), y.bytes() / sizeof(float), 1.0F, input_seed);
  forward_begins_.record(stream_);
  for (std::uint32_t segment = 0; segment < shape_.layers; ++segment) {
    throw_if_interrupted();
    auto const x = session.save(key_of(segment), std::move(y), stream_, recipe_of(segment));
    y = session.allocate(shape_.item_bytes(), stream_, "x");
    matmul_chain::forward(stream_, shape_.layer, x.as<float>(), weight(segment), y.as<float>());
  }
  forward_ends_.record(stream_);
  return y;
}

/// dy: the loss's gradient by X[layers].
void chain::backward(ferry::session& session, ferry::block dy) {
  for (std::uint32_t segment = shape_.layers; segment-- > 0;) {
    throw_if_interrupted();
    auto x = session.restore(key_of(segment), stream_);
    weight_gradient(stream_, shape_.layer, x.as<float>(), dy.as<float>(), gradient(segment));
    if (segment > 0) {
      auto dx = session.allocate(shape_.item_bytes(), stream_, "dx");
      input_gradient(stream_, shape_.layer, dy.as<float>(), weight(segment), x.as<float>(), dx.as<float>());
      dy = std::move(dx);
    }
    x.end();
    session.release(key_of(segment));
  }
}

ferry::recipe chain::recipe_of(std::uint32_t segment) const {
  if (segment == 0) return {};  // the input: nothing on the device could make it again
  auto rebuild = [this, segment](ferry::recipe_context const& context) {
    matmul_chain::forward(context.stream, shape_.layer, context.input_as<float>(0), weight(segment - 1),
                          context.output_as<float>());
  };
  return {rebuild, {key_of(segment - 1)}};
}

void chain::spoil_gradients() {
  std::array const accesses{ferry::writes(gradients_.data(), gradients_.bytes())};
  constexpr int bits_of_nan = 0xFF;
  stream_.owner()->launch(stream_, "spoil gradients", accesses,
                          [this] { std::memset(gradients_.data(), bits_of_nan, gradients_.bytes()); });
}

double chain::forward_us() const {
  return stream_.owner()->elapsed_us(forward_begins_, forward_ends_) / static_cast<double>(shape_.layers);
}

float* chain::weight(std::uint32_t segment) const {
  return weights_.as<float>() + segment * (shape_.layer.weight_bytes() / sizeof(float));
}

float* chain::gradient(std::uint32_t segment) const {
  return gradients_.as<float>() + segment * (shape_.layer.weight_bytes() / sizeof(float));
}

}  // namespace matmul_chain
