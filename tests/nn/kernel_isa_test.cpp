// Every kernel in every instruction set that this CPU has, against the oracle; a program only ever runs the best of
// them. Rows and blocks are those of the kernels' headers; bounds are those of error_bounds.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "nn/error_bounds.hpp"
#include "nn/kernels/kernel_table.hpp"
#include "nn/ops_fixture.hpp"

namespace ferry::nn::kernels {
namespace baseline {
extern kernel_table const table;
}
#if defined(__x86_64__)
namespace avx2 {
extern kernel_table const table;
}
namespace avx512 {
extern kernel_table const table;
}
#endif
}  // namespace ferry::nn::kernels

namespace ferry::nn::testing {
namespace {

using kernels::kernel_table;

std::vector<kernel_table const*> tables_for_this_cpu() {
  std::vector<kernel_table const*> tables{&kernels::baseline::table};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&kernels::avx2::table);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw")) {
    tables.push_back(&kernels::avx512::table);
  }
#endif
  return tables;
}

class KernelIsa : public ::testing::TestWithParam<kernel_table const*> {
 protected:
  kernel_table const& run = *GetParam();
  random_values random;
};

INSTANTIATE_TEST_SUITE_P(All, KernelIsa, ::testing::ValuesIn(tables_for_this_cpu()),
                         [](auto const& tested) { return std::string(tested.param->instruction_set); });

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> stale(std::size_t count) { return std::vector<float>(count, not_a_number); }

/// Widths with and without a remainder of 4, 8 and 16 lanes.
constexpr int widths[]{1, 3, 8, 33, 64, 100, 255};

TEST(KernelDispatch, TakesTheBestOfThisCpu) {
  EXPECT_STREQ(kernels::kernels_of_this_cpu().instruction_set, tables_for_this_cpu().back()->instruction_set);
}

TEST_P(KernelIsa, Layernorm) {
  int const rows = 7, rows_per_block = 3, blocks = 3;
  for (int const C : widths) {
    SCOPED_TRACE(C);
    auto const x = random(rows * C, 3), weight = random(C), bias = random(C), dout = random(rows * C);
    auto out = stale(rows * C), dx = stale(rows * C), partial = stale(blocks * 2 * C);
    run.layernorm_forward(0, 2, out.data(), x.data(), weight.data(), bias.data(), C);
    run.layernorm_forward(2, rows, out.data(), x.data(), weight.data(), bias.data(), C);
    expect_close(out, oracle::layernorm_forward(widened(x), widened(weight), widened(bias), rows, C),
                 layernorm_forward_bound(widened(x), widened(weight), widened(bias), rows, C), "out");
    run.layernorm_backward(0, blocks, dx.data(), partial.data(), dout.data(), x.data(), weight.data(), rows, C,
                           rows_per_block, 0);
    auto const d = oracle::layernorm_backward(widened(dout), widened(x), widened(weight), rows, C);
    auto const bound = layernorm_backward_bound(widened(dout), widened(x), widened(weight), rows, C);
    expect_close(dx, d.x, bound.x, "dx");
    auto dweight = stale(C), dbias = stale(C);
    run.add_partials(0, 1, dweight.data(), partial.data(), blocks, 2L * C, C, C, 0);
    run.add_partials(0, 1, dbias.data(), partial.data() + C, blocks, 2L * C, C, C, 0);
    expect_close(dweight, d.weight, bound.weight, "dweight");
    expect_close(dbias, d.bias, bound.bias, "dbias");
    auto twice = dx;
    run.layernorm_backward(0, blocks, twice.data(), partial.data(), dout.data(), x.data(), weight.data(), rows, C,
                           rows_per_block, 1);
    expect_close(twice, scaled(d.x, 2), scaled(bound.x, 3), "dx, added");
  }
}

TEST_P(KernelIsa, Gelu) {
  int const rows = 5, rows_per_block = 4, blocks = 2;
  for (int const columns : widths) {
    SCOPED_TRACE(columns);
    auto x = random(rows * columns, 6);
    x[0] = -20;
    x.back() = 20;
    auto const dout = random(x.size());
    auto out = stale(x.size()), gradient = dout, partial = stale(blocks * columns), dbias = stale(columns);
    run.gelu_forward(0, rows, out.data(), x.data(), columns);
    expect_close(out, oracle::gelu_forward(widened(x)), gelu_forward_bound(widened(x)), "out");
    run.gelu_backward(0, blocks, gradient.data(), partial.data(), x.data(), rows, columns, rows_per_block);
    run.add_partials(0, 1, dbias.data(), partial.data(), blocks, columns, columns, columns, 0);
    values const dx = oracle::gelu_backward(widened(dout), widened(x));
    values const bound = gelu_backward_bound(widened(dout), widened(x));
    expect_close(gradient, dx, bound, "gradient");
    expect_close(
        dbias, oracle::column_sums(dx, rows, columns),
        sum_of(oracle::column_sums(bound, rows, columns), column_sums_bound(dx, values(columns), rows, columns)),
        "dbias");
  }
}

TEST_P(KernelIsa, BiasAndResidual) {
  int const rows = 5;
  for (int const columns : widths) {
    SCOPED_TRACE(columns);
    int const stride = columns + 3;
    auto const before = random(rows * stride), bias = random(columns), residual = random(rows * stride);
    auto biased = before, both = before;
    run.add_bias(0, rows, biased.data(), stride, bias.data(), columns);
    run.add_bias_and_residual(0, rows, both.data(), stride, bias.data(), residual.data(), columns);
    for (int i = 0; i < rows * stride; ++i) {
      bool const inside = i % stride < columns;
      float const sum = inside ? before[i] + bias[i % stride] : before[i];
      EXPECT_EQ(biased[i], sum) << i;
      EXPECT_EQ(both[i], inside ? residual[i] + sum : sum) << i;
    }
  }
}

TEST_P(KernelIsa, ColumnSums) {
  int const rows = 7, rows_per_block = 3, blocks = 3, columns_per_block = 16;
  for (int const columns : widths) {
    SCOPED_TRACE(columns);
    auto const x = random(rows * columns), before = random(columns);
    auto partial = stale(blocks * columns), sums = before;
    run.partial_column_sums(0, blocks, partial.data(), x.data(), rows, columns, rows_per_block);
    run.add_partials(0, (columns + columns_per_block - 1) / columns_per_block, sums.data(), partial.data(), blocks,
                     columns, columns, columns_per_block, 1);
    expect_close(sums, sum_of(oracle::column_sums(widened(x), rows, columns), widened(before)),
                 column_sums_bound(widened(x), widened(before), rows, columns), "sums");
    auto zeroed = x;
    run.set_to_zero(0, 2, zeroed.data(), columns, (columns + 1) / 2);
    for (int i = 0; i < rows * columns; ++i) EXPECT_EQ(zeroed[i], i < columns ? 0.0F : x[i]);
    auto rows_zeroed = x;
    run.set_rows_to_zero(0, rows, rows_zeroed.data(), columns, columns / 2);
    for (int i = 0; i < rows * columns; ++i) EXPECT_EQ(rows_zeroed[i], i % columns < columns / 2 ? 0.0F : x[i]);
  }
}

TEST_P(KernelIsa, Embedding) {
  int const B = 2, T = 5, V = 4, rows = B * T, columns_per_block = 16;
  for (int const C : widths) {
    SCOPED_TRACE(C);
    auto const tokens = random.below(V, rows);
    auto const wte = random(V * C), wpe = random(T * C), dout = random(rows * C);
    auto x = stale(rows * C), dwte = std::vector<float>(V * C), dwpe = stale(T * C);
    run.embedding_forward(0, rows, x.data(), tokens.data(), wte.data(), wpe.data(), 0, T, C);
    run.token_embedding_backward(0, (C + columns_per_block - 1) / columns_per_block, dwte.data(), dout.data(),
                                 tokens.data(), rows, C, columns_per_block);
    run.position_embedding_backward(0, T, dwpe.data(), dout.data(), B, T, C, 0);
    values const expected = oracle::embedding_forward(tokens, widened(wte), widened(wpe), T, C);
    auto const d = oracle::embedding_backward(widened(dout), tokens, T, C, V);
    expect_close(x, expected, scaled(sizes_of(expected), unit), "x");
    expect_close(dwte, d.wte, values(V * C, rows * rows * unit), "dwte");
    expect_close(dwpe, d.wpe, values(T * C, B * B * unit), "dwpe");
  }
}

TEST_P(KernelIsa, CausalSoftmax) {
  float const scale = 0.25F;
  for (int const T : {1, 2, 7, 16, 33, 100}) {
    SCOPED_TRACE(T);
    auto const scores = random(2 * T * T, 40), dout = random(2 * T * T);
    auto probabilities = scores, gradient = dout;
    run.causal_softmax_forward(0, 2 * T, probabilities.data(), T, scale);
    values const right_scores = scaled(widened(scores), scale);
    expect_close(probabilities, oracle::causal_softmax(right_scores, T), causal_softmax_bound(right_scores, T), "p");
    run.causal_softmax_backward(0, 2 * T, gradient.data(), probabilities.data(), T, scale);
    values const p = widened(probabilities);
    values bound = p;  // |dout| is at most 1: both terms are at most p
    for (double& value : bound) value *= scale * 2 * (growth(T) + 4) * unit;
    expect_close(gradient, scaled(oracle::causal_softmax_backward(widened(dout), p, T), scale), bound, "gradient");
  }
}

/// Softmax by tiles: queries at the end of all keys, so that the last tile is cut off by the diagonal.
TEST_P(KernelIsa, TileSoftmax) {
  int const queries = 9, tile = 33, keys = 2 * tile, d = 5, stride = 7;
  float const scale = 0.5F;
  int const first_query = keys - queries;
  auto const all_scores = random(queries * keys, 30), of_value = random(queries * keys), dots = random(queries);
  auto out = stale(queries * stride), highest = stale(queries), sums = stale(queries), log_sum = stale(queries);
  auto const tile_of = [&](std::vector<float> const& all, int first_key) {
    std::vector<float> part;
    for (int i = 0; i < queries * tile; ++i) part.push_back(all[i / tile * keys + first_key + i % tile]);
    return part;
  };
  for (int const first_key : {0, tile}) {
    auto scores = tile_of(all_scores, first_key);
    run.tile_softmax_forward(0, queries, scores.data(), highest.data(), sums.data(), out.data(), stride, queries, tile,
                             d, first_query - first_key, scale, first_key == 0 ? 1 : 0);
    // In place of the product with the values: each column of the output gets the sum.
    for (int i = 0; i < queries * d; ++i) {
      float const sum = std::accumulate(&scores[i / d * tile], &scores[i / d * tile] + tile, 0.0F);
      float& to = out[i / d * stride + i % d];
      to = first_key == 0 ? sum : to + sum;
    }
  }
  run.tile_softmax_finish(0, queries, out.data(), stride, log_sum.data(), queries, highest.data(), sums.data(), queries,
                          d);
  for (int first_key : {0, tile}) {
    auto probabilities = tile_of(all_scores, first_key), gradient = tile_of(of_value, first_key);
    run.tile_softmax_backward(0, queries, probabilities.data(), gradient.data(), log_sum.data(), queries, dots.data(),
                              queries, tile, first_query - first_key, scale);
    for (int row = 0; row < queries; ++row) {
      double sum = 0;
      int const visible = first_query + row + 1;
      for (int key = 0; key < visible; ++key)
        sum += std::exp(scale * static_cast<double>(all_scores[row * keys + key]));
      EXPECT_NEAR(log_sum[row], std::log(sum), 2 * exponential_error + 30 * unit);
      for (int i = 0; i < d; ++i) EXPECT_NEAR(out[row * stride + i], 1, (2 * growth(keys) + 12) * unit);
      for (int i = d; i < stride && row + 1 < queries; ++i) EXPECT_TRUE(std::isnan(out[row * stride + i]));
      for (int i = 0; i < tile; ++i) {
        int const key = first_key + i, at = row * keys + key;
        double const p = key < visible ? std::exp(scale * static_cast<double>(all_scores[at])) / sum : 0;
        double const slope = of_value[at] - static_cast<double>(dots[row]);
        EXPECT_NEAR(probabilities[row * tile + i], p, 3 * exponential_error * p) << row << " sees " << key;
        EXPECT_NEAR(gradient[row * tile + i], p * slope * scale, 2 * (3 * exponential_error + 4 * unit) * p);
      }
    }
  }
}

TEST_P(KernelIsa, RowDots) {
  int const rows = 3;
  for (int const d : widths) {
    int const stride = d + 5;
    auto const a = random(rows * stride), b = random(rows * stride);
    auto dots = stale(rows);
    run.row_dots(0, rows, dots.data(), a.data(), b.data(), stride, rows, d);
    for (int row = 0; row < rows; ++row) {
      double sum = 0, size = 0;
      for (int i = row * stride; i < row * stride + d; ++i) {
        sum += static_cast<double>(a[i]) * b[i];
        size += std::abs(static_cast<double>(a[i]) * b[i]);
      }
      EXPECT_NEAR(dots[row], sum, size * (growth(d) + 1) * unit) << d;
    }
  }
}

TEST_P(KernelIsa, CrossEntropy) {
  int const rows = 3;
  for (int const V : {1, 5, 33, 1000, 50257}) {
    SCOPED_TRACE(V);
    auto const logits = random(rows * V, 80);
    auto const targets = random.below(V, rows);
    auto losses = stale(rows), gradient = logits;
    run.cross_entropy(0, rows, losses.data(), gradient.data(), targets.data(), V, 0);
    EXPECT_EQ(gradient, logits);
    auto const expected = oracle::cross_entropy(widened(logits), targets, rows, V);
    auto const bound = cross_entropy_bound(widened(logits), targets, rows, V);
    expect_close(losses, expected.losses, bound.losses, "losses");
    run.cross_entropy(0, rows, losses.data(), gradient.data(), targets.data(), V, 2);
    expect_close(losses, expected.losses, bound.losses, "losses");
    expect_close(gradient, scaled(expected.dlogits, 2), scaled(bound.dlogits, 2), "gradient");
    double total = 1;
    run.add_losses(0, 1, &total, losses.data(), rows, 0.5);
    EXPECT_DOUBLE_EQ(total, 1 + 0.5 * (static_cast<double>(losses[0]) + losses[1] + losses[2]));
  }
}

TEST_P(KernelIsa, NormAndAdamw) {
  int const per_block = 64;
  for (int const count : widths) {
    SCOPED_TRACE(count);
    int const blocks = (count + per_block - 1) / per_block;
    auto const gradient = random(count);
    auto weight = random(count), m = random(count), v = std::vector<float>(count, 0.5F), clip = stale(2);
    std::vector<double> partial(blocks, not_a_number);
    run.partial_squares(0, blocks, partial.data(), gradient.data(), count, per_block);
    run.finish_norm(0, 1, clip.data(), partial.data(), blocks, 0.125F);
    double const norm = oracle::norm(widened(gradient)), relative = (growth(per_block) + 4) * unit;
    double const factor = oracle::clip_factor(norm, 0.125);
    expect_close(clip, {norm, factor}, {norm * relative, factor * relative}, "clip");
    adamw_step const how{.learning_rate = 0.01F, .weight_decay = 0.1F, .correction1 = 0.1F, .correction2 = 0.05F};
    oracle::adamw_state state{widened(weight), widened(m), widened(v)};
    auto const bound = adamw_bound(state, widened(gradient), clip[1], 1, how);
    oracle::adamw(state, widened(gradient), clip[1], 1, how);
    run.adamw(0, blocks, weight.data(), gradient.data(), m.data(), v.data(), clip.data(), count, per_block, how);
    expect_close(weight, state.weight, bound.weight, "weight");
    expect_close(m, state.m, bound.m, "m");
    expect_close(v, state.v, bound.v, "v");
  }
}

/// The probability of a score, before a scale of 1 and a sum whose logarithm is 0, is its exponential.
std::vector<float> exponentials(kernel_table const& run, std::vector<float> x) {
  int const count = static_cast<int>(x.size());
  std::vector<float> gradient(x.size());
  float const zero = 0;
  run.tile_softmax_backward(0, 1, x.data(), gradient.data(), &zero, 1, &zero, 1, count, count, 1);
  return x;
}

TEST_P(KernelIsa, ExponentialIsRightToTwoUnitsInTheLastPlace) {
  std::vector<float> x;
  for (int i = 0; i <= 175'000 * 4; ++i) x.push_back(-87 + static_cast<float>(i) * 0.00025F);
  for (float const small : {1e-3F, 1e-6F, 1e-20F, 0.0F}) x.insert(x.end(), {small, -small});
  for (float& value : x) value = std::clamp(value, -87.0F, 88.0F);
  auto const results = exponentials(run, x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const expected = std::exp(static_cast<double>(x[i]));
    auto const rounded = static_cast<float>(expected);
    double const ulp = std::nextafter(rounded, infinity) - static_cast<double>(rounded);
    worst = std::max(worst, std::abs(results[i] - expected) / ulp);
  }
  EXPECT_LE(worst, 2);
  // Below that it is next to nothing, which no sum of probabilities notices; and beyond, it stays finite.
  for (float const nothing : exponentials(run, {std::nextafter(-87.0F, -88.0F), -88, -1e4F, -1e30F, -infinity})) {
    EXPECT_GE(nothing, 0);
    EXPECT_LE(nothing, std::exp(-87.0) * (1 + 4 * unit));
  }
  for (float const large : exponentials(run, {std::nextafter(88.0F, 89.0F), 1e30F, infinity})) {
    EXPECT_GE(large, std::exp(88.0) * (1 - 4 * unit));
    EXPECT_LT(large, infinity);
  }
  EXPECT_TRUE(std::isnan(exponentials(run, {not_a_number})[0]));
}

TEST_P(KernelIsa, ScratchMayLieAnywhereOnSixteenBytes) {
  // Tiles of scores lie in the threads' own memory, which no pool aligns.
  int const queries = 3, keys = 99, d = 16;
  auto const scores = random(queries * keys, 10), values_before = random(queries * d);
  std::vector<std::vector<float>> seen;
  for (std::size_t offset = 0; offset < 32; offset += 4) {
    std::vector<float> storage(scores.size() + 48), out = values_before, highest = stale(queries), sums = highest;
    auto const past_line = reinterpret_cast<std::uintptr_t>(storage.data()) / sizeof(float) % 16;
    float* const place = storage.data() + (16 - past_line) + offset;
    std::copy(scores.begin(), scores.end(), place);
    run.tile_softmax_forward(0, queries, place, highest.data(), sums.data(), out.data(), d, queries, keys, d, keys,
                             0.5F, 1);
    sums.insert(sums.end(), place, place + scores.size());
    seen.push_back(sums);
  }
  for (auto const& other : seen) EXPECT_EQ(other, seen.front());
}

}  // namespace
}  // namespace ferry::nn::testing
