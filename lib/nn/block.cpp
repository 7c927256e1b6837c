// A block of the transformer: forward, and backward as its mirror image.
//
//   x -> ln1 -> qkv [-> att] -> heads -> mid = x + heads W -> ln2 -> fc -> act -> next x = mid + act W
#include "ferry/nn/gpt.hpp"
#include "nn/row_wise.hpp"

namespace ferry::nn {

/// The first block's input: its recipe needs nothing but the tokens.
activation gpt::embed(route const& way) {
  extent const size{item_floats(item::x, way.B), static_cast<std::size_t>(way.B) * shape_.context};
  return way.on.compute(0, item::x, size, {}, [this, tokens = way.tokens](recipe_context const& c) {
    auto const w = layout_.outer(parameters_.as<float>());
    embedding_rows(*ops_, c, tokens, w.wte, w.wpe, shape_.context, shape_.width, shape_.vocabulary);
  });
}

/// x: (B, T, C); returns the next block's.
activation gpt::forward_block(route const& way, std::uint32_t layer, activation x) {
  auto& tape = way.on;
  int const B = way.B;
  int const N = B * shape_.context;  // rows
  int const C = shape_.width;
  auto const whole = [this, B](item what) { return extent{item_floats(what, B)}; };
  auto const by_rows = [this, B, N](item what) { return extent{item_floats(what, B), static_cast<std::size_t>(N)}; };

  auto ln1 = tape.compute(layer, item::ln1, by_rows(item::ln1), {&x}, [=, this](recipe_context const& c) {
    auto const w = weights(layer);
    layernorm_rows(*ops_, c, w.ln1_weight, w.ln1_bias, C);
  });
  auto qkv = tape.compute(layer, item::qkv, whole(item::qkv), {&ln1}, [=, this](recipe_context const& c) {
    auto const w = weights(layer);
    ops_->gemm(c.stream, "qkv",
               {.m = N,
                .n = 3 * C,
                .k = C,
                .a = {c.input_as<float>(0)},
                .b = {w.qkv_weight},
                .out = c.output_as<float>(),
                .bias = w.qkv_bias});
  });
  ln1.end();
  activation heads;
  if (shape_.attention == attention_form::whole) {
    auto att = tape.compute(layer, item::att, whole(item::att), {&qkv}, [=, this](recipe_context const& c) {
      ops_->attention_probabilities(c.stream, c.output_as<float>(), c.input_as<float>(0), attention(B));
    });
    heads = tape.compute(layer, item::heads, whole(item::heads), {&att, &qkv}, [=, this](recipe_context const& c) {
      ops_->attention_mix(c.stream, c.output_as<float>(), c.input_as<float>(0), c.input_as<float>(1), attention(B));
    });
  } else {
    heads = tape.compute(layer, item::heads, whole(item::heads), {&qkv}, [=, this](recipe_context const& c) {
      ops_->tiled_attention_forward(c.stream, c.output_as<float>(), c.input_as<float>(0), workspace_.as<float>(),
                                    attention(B));
    });
  }
  qkv.end();
  auto mid = tape.compute(layer, item::mid, whole(item::mid), {&x, &heads}, [=, this](recipe_context const& c) {
    auto const w = weights(layer);
    ops_->gemm(c.stream, "attention projection",
               {.m = N,
                .n = C,
                .k = C,
                .a = {c.input_as<float>(1)},
                .b = {w.proj_weight},
                .out = c.output_as<float>(),
                .bias = w.proj_bias,
                .residual = c.input_as<float>(0)});
  });
  x.end();
  heads.end();
  auto ln2 = tape.compute(layer, item::ln2, by_rows(item::ln2), {&mid}, [=, this](recipe_context const& c) {
    auto const w = weights(layer);
    layernorm_rows(*ops_, c, w.ln2_weight, w.ln2_bias, C);
  });
  auto fc = tape.compute(layer, item::fc, whole(item::fc), {&ln2}, [=, this](recipe_context const& c) {
    auto const w = weights(layer);
    ops_->gemm(c.stream, "fc",
               {.m = N,
                .n = 4 * C,
                .k = C,
                .a = {c.input_as<float>(0)},
                .b = {w.fc_weight},
                .out = c.output_as<float>(),
                .bias = w.fc_bias});
  });
  ln2.end();
  auto act = tape.compute(layer, item::act, by_rows(item::act), {&fc},
                          [=, this](recipe_context const& c) { gelu_rows(*ops_, c, 4 * C); });
  fc.end();
  // The last block's output is used up at the turn, at once.
  bool const last = layer + 1 == static_cast<std::uint32_t>(shape_.layers);
  auto const next = last ? tape.off_the_record() : tape;
  return next.compute(layer + 1, item::x, whole(item::x), {&mid, &act}, [=, this](recipe_context const& c) {
    auto const w = weights(layer);
    ops_->gemm(c.stream, "mlp projection",
               {.m = N,
                .n = C,
                .k = 4 * C,
                .a = {c.input_as<float>(1)},
                .b = {w.out_weight},
                .out = c.output_as<float>(),
                .bias = w.out_bias,
                .residual = c.input_as<float>(0)});
  });
}

/// dx: (B, T, C), of the block's output, becomes that of its input.
void gpt::backward_block(route const& way, std::uint32_t layer, block& dx) {
  backward_mlp(way, layer, dx);
  backward_attention(way, layer, dx);
}

/// From next x = mid + act W back to mid.
void gpt::backward_mlp(route const& way, std::uint32_t layer, block& dx) {
  auto& tape = way.on;
  auto const stream = tape.stream();
  auto const w = weights(layer);
  auto const d = gradients(layer);
  auto* const workspace = workspace_.as<float>();
  bool const more = way.accumulate();
  int const N = way.B * shape_.context;
  int const C = shape_.width;

  recalled act(tape, layer, item::act);
  auto dhidden = tape.scratch(item_floats(item::act, way.B), "d act");
  ops_->gemm(stream, "mlp projection dw",
             {.m = 4 * C,
              .n = C,
              .k = N,
              .a = {act.data(), true},
              .b = {dx.as<float>()},
              .out = d.out_weight,
              .accumulate = more});
  ops_->bias_backward(stream, d.out_bias, dx.as<float>(), workspace, N, C, more);
  ops_->gemm(
      stream, "mlp projection dx",
      {.m = N, .n = 4 * C, .k = C, .a = {dx.as<float>()}, .b = {w.out_weight, true}, .out = dhidden.as<float>()});
  act.release();

  recalled fc(tape, layer, item::fc);
  ops_->gelu_backward(stream, dhidden.as<float>(), d.fc_bias, fc.data(), workspace, N, 4 * C, more);
  fc.release();

  recalled ln2(tape, layer, item::ln2);
  auto dln2 = tape.scratch(item_floats(item::ln2, way.B), "d ln2");
  ops_->gemm(stream, "fc dw",
             {.m = C,
              .n = 4 * C,
              .k = N,
              .a = {ln2.data(), true},
              .b = {dhidden.as<float>()},
              .out = d.fc_weight,
              .accumulate = more});
  ops_->gemm(
      stream, "fc dx",
      {.m = N, .n = C, .k = 4 * C, .a = {dhidden.as<float>()}, .b = {w.fc_weight, true}, .out = dln2.as<float>()});
  ln2.release();
  dhidden = {};

  recalled mid(tape, layer, item::mid);
  ops_->layernorm_backward(stream, dx.as<float>(), d.ln2_weight, d.ln2_bias, dln2.as<float>(), mid.data(), w.ln2_weight,
                           workspace, N, C, true, more);
  mid.release();
}

/// From mid = x + heads W back to x.
void gpt::backward_attention(route const& way, std::uint32_t layer, block& dx) {
  auto& tape = way.on;
  auto const stream = tape.stream();
  auto const w = weights(layer);
  auto const d = gradients(layer);
  auto* const workspace = workspace_.as<float>();
  bool const more = way.accumulate();
  int const N = way.B * shape_.context;
  int const C = shape_.width;

  recalled heads(tape, layer, item::heads);
  auto dheads = tape.scratch(item_floats(item::x, way.B), "d heads");
  ops_->gemm(stream, "attention projection dw",
             {.m = C,
              .n = C,
              .k = N,
              .a = {heads.data(), true},
              .b = {dx.as<float>()},
              .out = d.proj_weight,
              .accumulate = more});
  ops_->bias_backward(stream, d.proj_bias, dx.as<float>(), workspace, N, C, more);
  ops_->gemm(stream, "attention projection dx",
             {.m = N, .n = C, .k = C, .a = {dx.as<float>()}, .b = {w.proj_weight, true}, .out = dheads.as<float>()});

  block dqkv;
  if (shape_.attention == attention_form::whole) {
    heads.release();
    recalled att(tape, layer, item::att);
    recalled qkv(tape, layer, item::qkv);
    dqkv = tape.scratch(item_floats(item::qkv, way.B), "d qkv");
    auto const datt = tape.scratch(item_floats(item::att, way.B), "d att");
    ops_->attention_backward(stream, dqkv.as<float>(), datt.as<float>(), dheads.as<float>(), att.data(), qkv.data(),
                             attention(way.B));
    att.release();
    qkv.release();
  } else {
    recalled qkv(tape, layer, item::qkv);
    dqkv = tape.scratch(item_floats(item::qkv, way.B), "d qkv");
    ops_->tiled_attention_backward(stream, dqkv.as<float>(), dheads.as<float>(), heads.data(), qkv.data(), workspace,
                                   attention(way.B));
    heads.release();
    qkv.release();
  }
  dheads = {};

  recalled ln1(tape, layer, item::ln1);
  auto dln1 = tape.scratch(item_floats(item::ln1, way.B), "d ln1");
  ops_->gemm(stream, "qkv dw",
             {.m = C,
              .n = 3 * C,
              .k = N,
              .a = {ln1.data(), true},
              .b = {dqkv.as<float>()},
              .out = d.qkv_weight,
              .accumulate = more});
  ops_->bias_backward(stream, d.qkv_bias, dqkv.as<float>(), workspace, N, 3 * C, more);
  ops_->gemm(stream, "qkv dx",
             {.m = N, .n = C, .k = 3 * C, .a = {dqkv.as<float>()}, .b = {w.qkv_weight, true}, .out = dln1.as<float>()});
  ln1.release();
  dqkv = {};

  recalled x(tape, layer, item::x);
  ops_->layernorm_backward(stream, dx.as<float>(), d.ln1_weight, d.ln1_bias, dln1.as<float>(), x.data(), w.ln1_weight,
                           workspace, N, C, true, more);
  x.release();
}

}  // namespace ferry::nn
