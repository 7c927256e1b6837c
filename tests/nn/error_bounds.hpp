// How far a result in float may be from the oracle's: for every operation a bound per element, derived from the unit
// roundoff, the lengths of the sums that the operation forms, and the sizes of what it adds up. No bound was fitted to
// what the kernels happen to give.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "nn/oracle.hpp"

namespace ferry::nn::testing {

using oracle::indices;
using oracle::values;

/// The largest relative error of one rounding.
inline constexpr double unit = 0x1p-24;

/// How many roundings show in a sum of n terms, relative to the sum of the terms' sizes. All n at worst, in any order
/// of summation; but their errors have either sign, and more than 6 sqrt(n) is not met in practice (Higham and Mary, "A
/// new approach to probabilistic rounding error analysis", 2019).
inline double growth(double n) { return std::min(n, 6 * std::sqrt(n)); }

inline values widened(std::vector<float> const& x) { return {x.begin(), x.end()}; }

inline values sizes_of(values x) {
  for (double& value : x) value = std::abs(value);
  return x;
}

inline values scaled(values x, double by) {
  for (double& value : x) value *= by;
  return x;
}

inline values sum_of(values x, values const& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

/// Every element of `actual` is within its bound of `expected`; a NaN is within none.
inline void expect_close(std::vector<float> const& actual, values const& expected, values const& bound,
                         char const* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  ASSERT_EQ(actual.size(), bound.size()) << what;
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) <= bound[i]) continue;
    if (wrong++ == 0) first = i;
  }
  EXPECT_EQ(wrong, 0U) << what << ": the first of " << actual.size() << " is [" << first << "], " << actual[first]
                       << " instead of " << expected[first] << " +- " << bound[first];
}

/// A product of k terms, and up to three more.
inline values gemm_bound(int m, int n, int k, values const& a, bool a_transposed, values const& b, bool b_transposed,
                         oracle::gemm_terms const& terms) {
  oracle::gemm_terms const sizes{sizes_of(terms.out), sizes_of(terms.bias), sizes_of(terms.residual)};
  return scaled(oracle::gemm(m, n, k, sizes_of(a), a_transposed, sizes_of(b), b_transposed, sizes),
                (growth(k) + 4) * unit);
}

/// A sum of `rows` terms, in two stages, and what was there before.
inline values column_sums_bound(values const& x, values const& before, int rows, int columns) {
  return scaled(sum_of(oracle::column_sums(sizes_of(x), rows, columns), sizes_of(before)), (growth(rows) + 2) * unit);
}

/// The sizes that errors of a normalised row are relative to: its values, and what was cancelled to get them.
inline values layernorm_sizes(values const& x, int rows, int C) {
  values sizes;
  for (int row = 0; row < rows; ++row) {
    auto const [normal, inverse_deviation] = oracle::normalised(&x[row * C], C);
    double mean = 0;
    for (int i = 0; i < C; ++i) mean += std::abs(x[row * C + i]) / C;
    for (int i = 0; i < C; ++i) sizes.push_back(std::abs(normal[i]) + mean * inverse_deviation);
  }
  return sizes;
}

inline values layernorm_forward_bound(values const& x, values const& weight, values const& bias, int rows, int C) {
  values bound = layernorm_sizes(x, rows, C);
  for (int i = 0; i < rows * C; ++i) {
    bound[i] = (bound[i] * std::abs(weight[i % C]) + std::abs(bias[i % C])) * (growth(C) + 10) * unit;
  }
  return bound;
}

/// Without what was there before. In dx a normalised value and its projection each bring their own error.
inline oracle::layernorm_gradients layernorm_backward_bound(values const& dout, values const& x, values const& weight,
                                                            int rows, int C) {
  values const sizes = layernorm_sizes(x, rows, C);
  oracle::layernorm_gradients bound{{}, values(C), values(C)};
  for (int row = 0; row < rows; ++row) {
    double const inverse_deviation = oracle::normalised(&x[row * C], C).inverse_deviation;
    double mean = 0, projection = 0;
    for (int i = 0; i < C; ++i) {
      double const size = sizes[row * C + i];
      double const g = std::abs(dout[row * C + i] * weight[i]);
      mean += g / C;
      projection += g * size / C;
      bound.weight[i] += std::abs(dout[row * C + i]) * size * (growth(rows) + growth(C) + 12) * unit;
      bound.bias[i] += std::abs(dout[row * C + i]) * (growth(rows) + 2) * unit;
    }
    for (int i = 0; i < C; ++i) {
      double const g = std::abs(dout[row * C + i] * weight[i]);
      bound.x.push_back(4 * (growth(C) + 12) * unit * inverse_deviation * (g + mean + sizes[row * C + i] * projection));
    }
  }
  return bound;
}

/// Of tanh by way of e^x: its own error, and that of its argument, whose effect is greatest near 1.
inline constexpr double tanh_error = 10 * unit;

inline values gelu_forward_bound(values x) {
  for (double& value : x) value = std::abs(value) * (tanh_error / 2 + 4 * unit);
  return x;
}

/// Beyond 6, 1 - tanh^2 is nothing in float and below 1e-8 in truth.
inline values gelu_backward_bound(values dout, values const& x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const near = std::min(std::abs(x[i]), 6.0);
    double const through = tanh_error / 2 + near * oracle::gelu_slope(near) * tanh_error + 8 * unit;
    dout[i] = std::abs(dout[i]) * (through + 1e-8);
  }
  return dout;
}

/// An exponential is wrong by what its argument is wrong by, and arguments beyond 87 give 0.
inline constexpr double exponential_error = (87 + 4) * unit;

inline oracle::cross_entropy_result cross_entropy_bound(values const& logits, indices const& targets, int rows, int V) {
  auto const [losses, dlogits] = oracle::cross_entropy(logits, targets, rows, V);
  double const of_sum = growth(V) * unit + exponential_error;
  oracle::cross_entropy_result bound;
  for (int row = 0; row < rows; ++row) {
    double const highest = *std::max_element(&logits[row * V], &logits[row * V] + V);
    double const target = logits[row * V + targets[row]];
    bound.losses.push_back(of_sum + 4 * unit * (1 + std::abs(highest) + std::abs(target) + std::abs(losses[row])));
    for (int i = 0; i < V; ++i) {
      double const taken = i == targets[row] ? 1 : 0;
      bound.dlogits.push_back((dlogits[row * V + i] + taken) * (of_sum + 4 * unit) + 2 * taken * unit + 1e-37);
    }
  }
  return bound;
}

/// Rows of scores (..., T, T), scaled, that are right.
inline values causal_softmax_bound(values const& scores, int T) {
  values bound = oracle::causal_softmax(scores, T);
  for (double& value : bound) value = value * (2 * exponential_error + (growth(T) + 4) * unit) + 1e-37;
  return bound;
}

struct attention_bound {
  values probabilities, out, dqkv;
};

/// Of all that attention computes from qkv (B, T, 3, C) and dout (B, T, C), whole or by tiles. `exact`: no score needs
/// rounding, so that they may be large; what is left is rounded with the differences of scores that matter, and with
/// the logarithm of the sum, which is about as large as the highest.
inline attention_bound bound_of_attention(values const& dout, values const& qkv, attention_shape const& shape,
                                          bool exact = false) {
  oracle::attention_layout const at{shape};
  double const d = growth(shape.head_width()), T = growth(shape.T);
  values const qkv_sizes = sizes_of(qkv);
  values const scores = oracle::attention_scores(exact ? qkv : qkv_sizes, shape);
  values const probabilities = oracle::attention_probabilities(qkv, shape);
  // A probability depends on its own score, on the row's highest, and on the sum.
  values relative(shape.rows() * shape.heads);
  for (std::size_t row = 0; row < relative.size(); ++row) {
    auto const first = scores.begin() + static_cast<std::ptrdiff_t>(row) * shape.T;
    double const highest = *std::max_element(first, first + static_cast<std::ptrdiff_t>(row) % shape.T + 1);
    double const of_scores = exact ? 87 + std::abs(highest) : (d + 6) * highest;
    relative[row] = (2 * of_scores + T + 12) * unit;
  }
  values uncertain(probabilities.size()), gradient_sizes(probabilities.size()), dots(relative.size());
  attention_bound bound{values(probabilities.size(), 1e-37), {}, values(qkv.size())};
  at.for_each_pair([&](int b, int head, int t, int seen) {
    int const pair = at.score(b, head, t, seen);
    bound.probabilities[pair] += probabilities[pair] * relative[pair / shape.T];
    uncertain[pair] = probabilities[pair] * (relative[pair / shape.T] + (T + 8) * unit) + 1e-37;
    for (int i = 0; i < shape.head_width(); ++i) {
      double const gradient = std::abs(dout[at.out(b, t, head, i)]);
      gradient_sizes[pair] += gradient * qkv_sizes[at.qkv(b, seen, at.value, head, i)];
      bound.dqkv[at.qkv(b, seen, at.value, head, i)] += gradient * uncertain[pair];
    }
    dots[pair / shape.T] += probabilities[pair] * gradient_sizes[pair];
  });
  bound.out = oracle::attention_mix(uncertain, qkv_sizes, shape);
  at.for_each_pair([&](int b, int head, int t, int seen) {
    int const pair = at.score(b, head, t, seen);
    double const size = probabilities[pair] * (gradient_sizes[pair] + dots[pair / shape.T]) * at.scale();
    double const error = size * (4 * relative[pair / shape.T] + (2 * (d + T) + 20) * unit) + 1e-37;
    for (int i = 0; i < shape.head_width(); ++i) {
      int const q = at.qkv(b, t, at.query, head, i);
      int const k = at.qkv(b, seen, at.key, head, i);
      bound.dqkv[q] += error * qkv_sizes[k];
      bound.dqkv[k] += error * qkv_sizes[q];
    }
  });
  return bound;
}

/// Of the state after a step from `before`, which is right.
inline oracle::adamw_state adamw_bound(oracle::adamw_state const& before, values const& gradient, double clip, int step,
                                       adamw_step const& how) {
  oracle::adamw_state sizes{sizes_of(before.weight), sizes_of(before.m), before.v};
  oracle::adamw_state after = before;
  oracle::adamw(after, gradient, clip, step, how);
  oracle::adamw_state bound = before;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    double const m = how.beta1 * sizes.m[i] + (1 - how.beta1) * std::abs(gradient[i] * clip);
    double const mean = m / (1 - std::pow(how.beta1, step));
    double const deviation = std::sqrt(after.v[i] / (1 - std::pow(how.beta2, step)));
    bound.m[i] = 5 * unit * m;
    bound.v[i] = 6 * unit * after.v[i] + 1e-44;
    // The corrections are told in float: their error is that of 1 - beta^step, relative to what is left.
    double const of_corrections = unit / (1 - std::pow(how.beta1, step)) + unit / (1 - std::pow(how.beta2, step));
    bound.weight[i] = 4 * unit * sizes.weight[i] +
                      how.learning_rate * mean / (deviation + how.epsilon) * (16 * unit + of_corrections);
  }
  return bound;
}

}  // namespace ferry::nn::testing
