// The oracle's gradients against central differences of the oracle's own forward, in double precision: what the
// operations are compared with is itself right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "nn/oracle.hpp"

namespace ferry::nn {
namespace {

using oracle::indices;
using oracle::values;

class source_of_values {
 public:
  values operator()(int count, double scale = 1) {
    std::uniform_real_distribution<double> spread(-scale, scale);
    values result(count);
    std::generate(result.begin(), result.end(), [&] { return spread(random_); });
    return result;
  }

 private:
  std::mt19937_64 random_{42};
};

double dot(values const& a, values const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// `analytic` is the gradient at `x` of `dout . forward(x)`, element by element.
template <typename Forward>
void expect_gradient(values const& analytic, Forward forward, values x, values const& dout) {
  ASSERT_EQ(analytic.size(), x.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const before = x[i];
    double const step = 1e-5 * std::max(1.0, std::abs(before));
    x[i] = before + step;
    double const above = dot(forward(x), dout);
    x[i] = before - step;
    double const below = dot(forward(x), dout);
    x[i] = before;
    double const numeric = (above - below) / (2 * step);
    ASSERT_TRUE(std::isfinite(numeric));
    worst = std::max(worst, std::abs(numeric - analytic[i]));
    largest = std::max(largest, std::abs(analytic[i]));
  }
  EXPECT_LE(worst, 1e-6 * largest + 1e-9);
}

TEST(FiniteDifference, Gemm) {
  struct shape {
    int m, n, k;
  };
  source_of_values random;
  for (auto const& [m, n, k] : {shape{1, 1, 1}, shape{3, 5, 7}, shape{7, 2, 11}, shape{4, 4, 1}}) {
    for (bool const a_transposed : {false, true}) {
      for (bool const b_transposed : {false, true}) {
        values const a = random(m * k), b = random(k * n), dout = random(m * n);
        auto const d = oracle::gemm_backward(m, n, k, dout, a, a_transposed, b, b_transposed);
        expect_gradient(
            d.a, [&](values const& x) { return oracle::gemm(m, n, k, x, a_transposed, b, b_transposed); }, a, dout);
        expect_gradient(
            d.b, [&](values const& x) { return oracle::gemm(m, n, k, a, a_transposed, x, b_transposed); }, b, dout);
      }
    }
  }
}

TEST(FiniteDifference, GemmTerms) {
  source_of_values random;
  int const m = 3, n = 5, k = 2;
  values const a = random(m * k), b = random(k * n), dout = random(m * n);
  oracle::gemm_terms const terms{random(m * n), random(n), random(m * n)};
  auto const with = [&](oracle::gemm_terms const& other) { return oracle::gemm(m, n, k, a, false, b, false, other); };
  expect_gradient(
      dout,
      [&](values const& x) {
        return with({x, terms.bias, terms.residual});
      },
      terms.out, dout);
  expect_gradient(
      oracle::column_sums(dout, m, n),
      [&](values const& x) {
        return with({terms.out, x, terms.residual});
      },
      terms.bias, dout);
  expect_gradient(
      dout,
      [&](values const& x) {
        return with({terms.out, terms.bias, x});
      },
      terms.residual, dout);
}

TEST(FiniteDifference, Layernorm) {
  struct shape {
    int rows, C;
  };
  source_of_values random;
  for (auto const& [rows, C] : {shape{1, 1}, shape{3, 2}, shape{2, 5}, shape{7, 33}}) {
    values const x = random(rows * C, 3), weight = random(C), bias = random(C), dout = random(rows * C);
    auto const forward = oracle::layernorm_forward;
    auto const d = oracle::layernorm_backward(dout, x, weight, rows, C);
    expect_gradient(
        d.x, [&](values const& at) { return forward(at, weight, bias, rows, C); }, x, dout);
    expect_gradient(
        d.weight, [&](values const& at) { return forward(x, at, bias, rows, C); }, weight, dout);
    expect_gradient(
        d.bias, [&](values const& at) { return forward(x, weight, at, rows, C); }, bias, dout);
  }
}

TEST(FiniteDifference, Gelu) {
  source_of_values random;
  for (int const count : {1, 5, 101}) {
    values const x = random(count, 5), dout = random(count);
    expect_gradient(oracle::gelu_backward(dout, x), oracle::gelu_forward, x, dout);
  }
}

TEST(FiniteDifference, Embedding) {
  struct shape {
    int B, T, C, V;
  };
  source_of_values random;
  for (auto const& [B, T, C, V] : {shape{1, 1, 1, 1}, shape{3, 7, 5, 11}, shape{2, 4, 3, 2}}) {
    values const wte = random(V * C), wpe = random(T * C), dout = random(B * T * C);
    indices tokens;
    for (int row = 0; row < B * T; ++row) tokens.push_back(row * row % V);
    auto const d = oracle::embedding_backward(dout, tokens, T, C, V);
    expect_gradient(
        d.wte, [&](values const& at) { return oracle::embedding_forward(tokens, at, wpe, T, C); }, wte, dout);
    expect_gradient(
        d.wpe, [&](values const& at) { return oracle::embedding_forward(tokens, wte, at, T, C); }, wpe, dout);
  }
}

TEST(FiniteDifference, CausalSoftmax) {
  source_of_values random;
  for (int const T : {1, 2, 7}) {
    values const scores = random(3 * T * T, 3), dout = random(3 * T * T);
    auto const forward = [&](values const& at) { return oracle::causal_softmax(at, T); };
    expect_gradient(oracle::causal_softmax_backward(dout, forward(scores), T), forward, scores, dout);
  }
}

TEST(FiniteDifference, Attention) {
  source_of_values random;
  for (attention_shape const& shape :
       {attention_shape{1, 1, 1, 1}, attention_shape{2, 7, 15, 3}, attention_shape{1, 5, 4, 4},
        attention_shape{3, 2, 11, 1}, attention_shape{1, 9, 6, 2}}) {
    values const qkv = random(3 * shape.rows() * shape.C, 2), dout = random(shape.rows() * shape.C);
    expect_gradient(
        oracle::attention_backward(dout, qkv, shape),
        [&](values const& at) { return oracle::attention_forward(at, shape); }, qkv, dout);
  }
}

TEST(FiniteDifference, CrossEntropy) {
  struct shape {
    int rows, V;
  };
  source_of_values random;
  for (auto const& [rows, V] : {shape{1, 1}, shape{3, 2}, shape{7, 11}}) {
    values const logits = random(rows * V, 3);
    indices targets;
    for (int row = 0; row < rows; ++row) targets.push_back(row * 5 % V);
    expect_gradient(
        oracle::cross_entropy(logits, targets, rows, V).dlogits,
        [&](values const& at) { return oracle::cross_entropy(at, targets, rows, V).losses; }, logits, values(rows, 1));
  }
}

TEST(FiniteDifference, AdamwDescends) {
  // It has no backward; but where all it knows is one gradient, its step is the rate against that gradient's sign.
  oracle::adamw_state state{{3, -2}, {0, 0}, {0, 0}};
  oracle::adamw(state, {0.5, -0.1}, 1, 1, {.learning_rate = 0.01F, .epsilon = 0, .weight_decay = 0});
  EXPECT_NEAR(state.weight[0], 2.99, 1e-9);
  EXPECT_NEAR(state.weight[1], -1.99, 1e-9);
  oracle::adamw_state decayed{{3}, {0}, {0}};
  oracle::adamw(decayed, {0}, 1, 1, {.learning_rate = 0.5F, .weight_decay = 0.5F});
  EXPECT_NEAR(decayed.weight[0], 2.25, 1e-9);
}

}  // namespace
}  // namespace ferry::nn
