// The operations of ferry/nn/ops.hpp again, from their mathematics and in double precision: what tests compare with.
// Slow and obviously right; nothing here is taken from the kernels. Each backward is checked against differences of its
// forward in finite_difference_test.cpp.
//
// Letters as in ferry/nn/ops.hpp; matrices are row-major, shapes stand beside the parameters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "ferry/nn/ops.hpp"

namespace ferry::nn::oracle {

using values = std::vector<double>;
using indices = std::vector<std::int32_t>;

/// A matrix (rows, columns) from one that is stored as it is, or as its transpose (columns, rows).
inline values untransposed(values const& x, bool transposed, int rows, int columns) {
  if (!transposed) return x;
  values result(x.size());
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) result[i * columns + j] = x[j * rows + i];
  }
  return result;
}

/// (m, n) from a (m, k) and b (k, n), each stored as its transpose if so said.
inline values product(int m, int n, int k, values const& a, bool a_transposed, values const& b, bool b_transposed) {
  values const left = untransposed(a, a_transposed, m, k);
  values const right = untransposed(b, b_transposed, k, n);
  values out(m * n);
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      for (int j = 0; j < n; ++j) out[i * n + j] += left[i * k + p] * right[p * n + j];
    }
  }
  return out;
}

/// What is added to a product; an empty one is left out.
struct gemm_terms {
  values out;       ///< (m, n), what was there before
  values bias;      ///< (n)
  values residual;  ///< (m, n)
};

inline values gemm(int m, int n, int k, values const& a, bool a_transposed, values const& b, bool b_transposed,
                   gemm_terms const& terms = {}) {
  values out = product(m, n, k, a, a_transposed, b, b_transposed);
  for (int i = 0; i < m * n; ++i) {
    if (!terms.out.empty()) out[i] += terms.out[i];
    if (!terms.bias.empty()) out[i] += terms.bias[i % n];
    if (!terms.residual.empty()) out[i] += terms.residual[i];
  }
  return out;
}

struct gemm_gradients {
  values a, b;  ///< (m, k), (k, n), stored as the operands were
};

/// Of dout (m, n), by the product's rule: da = dout b^T, db = a^T dout.
inline gemm_gradients gemm_backward(int m, int n, int k, values const& dout, values const& a, bool a_transposed,
                                    values const& b, bool b_transposed) {
  // The transpose of a gradient that is stored transposed is (dout b^T)^T = b dout^T.
  return {
      a_transposed ? product(k, m, n, b, b_transposed, dout, true) : product(m, k, n, dout, false, b, !b_transposed),
      b_transposed ? product(n, k, m, dout, true, a, a_transposed) : product(k, n, m, a, !a_transposed, dout, false)};
}

/// (columns): the sum over the rows of x (rows, columns), which is the gradient of a bias.
inline values column_sums(values const& x, int rows, int columns) {
  values sums(columns);
  for (int i = 0; i < rows * columns; ++i) sums[i % columns] += x[i];
  return sums;
}

struct normalised_row {
  values normal;             ///< (C)
  double inverse_deviation;  ///< what the distance from the mean was multiplied by
};

inline normalised_row normalised(double const* x, int C) {
  double mean = 0;
  for (int i = 0; i < C; ++i) mean += x[i] / C;
  double variance = 0;
  for (int i = 0; i < C; ++i) variance += (x[i] - mean) * (x[i] - mean) / C;
  normalised_row row{values(C), 1 / std::sqrt(variance + 1e-5)};
  for (int i = 0; i < C; ++i) row.normal[i] = (x[i] - mean) * row.inverse_deviation;
  return row;
}

/// x (rows, C); weight, bias (C)
inline values layernorm_forward(values const& x, values const& weight, values const& bias, int rows, int C) {
  values out;
  for (int row = 0; row < rows; ++row) {
    values const normal = normalised(&x[row * C], C).normal;
    for (int i = 0; i < C; ++i) out.push_back(normal[i] * weight[i] + bias[i]);
  }
  return out;
}

struct layernorm_gradients {
  values x, weight, bias;  ///< (rows, C), (C), (C)
};

/// With n the normalised row and g = dout * weight: dx = (g - mean(g) - n mean(g n)) / deviation.
inline layernorm_gradients layernorm_backward(values const& dout, values const& x, values const& weight, int rows,
                                              int C) {
  layernorm_gradients d{{}, values(C), values(C)};
  for (int row = 0; row < rows; ++row) {
    auto const [normal, inverse_deviation] = normalised(&x[row * C], C);
    double mean = 0, projection = 0;
    for (int i = 0; i < C; ++i) {
      double const g = dout[row * C + i] * weight[i];
      mean += g / C;
      projection += g * normal[i] / C;
      d.weight[i] += dout[row * C + i] * normal[i];
      d.bias[i] += dout[row * C + i];
    }
    for (int i = 0; i < C; ++i) {
      d.x.push_back((dout[row * C + i] * weight[i] - mean - normal[i] * projection) * inverse_deviation);
    }
  }
  return d;
}

inline double gelu_argument(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
inline double gelu_slope(double x) { return std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x); }

inline values gelu_forward(values x) {
  for (double& value : x) value = value / 2 * (1 + std::tanh(gelu_argument(value)));
  return x;
}

inline values gelu_backward(values dout, values const& x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const tangent = std::tanh(gelu_argument(x[i]));
    dout[i] *= (1 + tangent) / 2 + x[i] / 2 * (1 - tangent * tangent) * gelu_slope(x[i]);
  }
  return dout;
}

/// (B, T, C) from tokens (B, T), wte (V, C) and wpe (T, C)
inline values embedding_forward(indices const& tokens, values const& wte, values const& wpe, int T, int C) {
  values out;
  for (int row = 0; row < static_cast<int>(tokens.size()); ++row) {
    for (int i = 0; i < C; ++i) out.push_back(wte[tokens[row] * C + i] + wpe[row % T * C + i]);
  }
  return out;
}

struct embedding_gradients {
  values wte, wpe;  ///< (V, C), (T, C)
};

inline embedding_gradients embedding_backward(values const& dout, indices const& tokens, int T, int C, int V) {
  embedding_gradients d{values(V * C), values(T * C)};
  for (int row = 0; row < static_cast<int>(tokens.size()); ++row) {
    for (int i = 0; i < C; ++i) {
      d.wte[tokens[row] * C + i] += dout[row * C + i];
      d.wpe[row % T * C + i] += dout[row * C + i];
    }
  }
  return d;
}

/// Where things lie: qkv (B, T, 3, heads, d), out (B, T, heads, d), probabilities (B, heads, T, T).
struct attention_layout {
  attention_shape shape;
  enum part : int { query, key, value };

  [[nodiscard]] int qkv(int b, int t, part which, int head, int i) const {
    return ((b * shape.T + t) * 3 + which) * shape.C + head * shape.head_width() + i;
  }
  [[nodiscard]] int out(int b, int t, int head, int i) const {
    return (b * shape.T + t) * shape.C + head * shape.head_width() + i;
  }
  [[nodiscard]] int score(int b, int head, int t, int seen) const {
    return ((b * shape.heads + head) * shape.T + t) * shape.T + seen;
  }
  [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(shape.head_width())); }

  /// `work(b, head, t, seen)` for every query t and every key that it may see.
  template <typename Work>
  void for_each_pair(Work work) const {
    for (int b = 0; b < shape.B; ++b) {
      for (int head = 0; head < shape.heads; ++head) {
        for (int t = 0; t < shape.T; ++t) {
          for (int seen = 0; seen <= t; ++seen) work(b, head, t, seen);
        }
      }
    }
  }
};

/// (B, heads, T, T): scaled products of queries and keys; 0 for what a query may not see.
inline values attention_scores(values const& qkv, attention_shape const& shape) {
  attention_layout const at{shape};
  values scores(shape.rows() * shape.heads * shape.T);
  at.for_each_pair([&](int b, int head, int t, int seen) {
    double dot = 0;
    for (int i = 0; i < shape.head_width(); ++i) {
      dot += qkv[at.qkv(b, t, at.query, head, i)] * qkv[at.qkv(b, seen, at.key, head, i)];
    }
    scores[at.score(b, head, t, seen)] = dot * at.scale();
  });
  return scores;
}

/// Rows of scores (..., T, T), already scaled, become probabilities: of what a query may see, 0 beyond.
inline values causal_softmax(values scores, int T) {
  for (int row = 0; row < static_cast<int>(scores.size()) / T; ++row) {
    double* const visible = &scores[row * T];
    int const count = row % T + 1;
    double const highest = *std::max_element(visible, visible + count);
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += std::exp(visible[i] - highest);
    for (int i = 0; i < count; ++i) visible[i] = std::exp(visible[i] - highest) / sum;
    std::fill(visible + count, visible + T, 0.0);
  }
  return scores;
}

/// Gradient of the scores (..., T, T) from that of the probabilities: p (dp - p . dp).
inline values causal_softmax_backward(values gradient, values const& probabilities, int T) {
  for (int row = 0; row < static_cast<int>(gradient.size()) / T; ++row) {
    double dot = 0;
    for (int i = 0; i <= row % T; ++i) dot += gradient[row * T + i] * probabilities[row * T + i];
    for (int i = 0; i < T; ++i) {
      gradient[row * T + i] = i <= row % T ? probabilities[row * T + i] * (gradient[row * T + i] - dot) : 0;
    }
  }
  return gradient;
}

inline values attention_probabilities(values const& qkv, attention_shape const& shape) {
  return causal_softmax(attention_scores(qkv, shape), shape.T);
}

/// (B, T, C)
inline values attention_mix(values const& probabilities, values const& qkv, attention_shape const& shape) {
  attention_layout const at{shape};
  values out(shape.rows() * shape.C);
  at.for_each_pair([&](int b, int head, int t, int seen) {
    for (int i = 0; i < shape.head_width(); ++i) {
      out[at.out(b, t, head, i)] += probabilities[at.score(b, head, t, seen)] * qkv[at.qkv(b, seen, at.value, head, i)];
    }
  });
  return out;
}

inline values attention_forward(values const& qkv, attention_shape const& shape) {
  return attention_mix(attention_probabilities(qkv, shape), qkv, shape);
}

/// (B, T, 3, C) of dout (B, T, C)
inline values attention_backward(values const& dout, values const& qkv, attention_shape const& shape) {
  attention_layout const at{shape};
  values const probabilities = attention_probabilities(qkv, shape);
  values dprobabilities(probabilities.size());
  values dqkv(qkv.size());
  at.for_each_pair([&](int b, int head, int t, int seen) {
    int const pair = at.score(b, head, t, seen);
    for (int i = 0; i < shape.head_width(); ++i) {
      double const gradient = dout[at.out(b, t, head, i)];
      dprobabilities[pair] += gradient * qkv[at.qkv(b, seen, at.value, head, i)];
      dqkv[at.qkv(b, seen, at.value, head, i)] += gradient * probabilities[pair];
    }
  });
  values const dscores = causal_softmax_backward(dprobabilities, probabilities, shape.T);
  at.for_each_pair([&](int b, int head, int t, int seen) {
    double const gradient = dscores[at.score(b, head, t, seen)] * at.scale();
    for (int i = 0; i < shape.head_width(); ++i) {
      int const q = at.qkv(b, t, at.query, head, i);
      int const k = at.qkv(b, seen, at.key, head, i);
      dqkv[q] += gradient * qkv[k];
      dqkv[k] += gradient * qkv[q];
    }
  });
  return dqkv;
}

struct cross_entropy_result {
  values losses;   ///< (rows)
  values dlogits;  ///< (rows, V), of the sum of losses
};

inline cross_entropy_result cross_entropy(values const& logits, indices const& targets, int rows, int V) {
  cross_entropy_result result;
  for (int row = 0; row < rows; ++row) {
    double const* const at = &logits[row * V];
    double const highest = *std::max_element(at, at + V);
    double sum = 0;
    for (int i = 0; i < V; ++i) sum += std::exp(at[i] - highest);
    result.losses.push_back(std::log(sum) + (highest - at[targets[row]]));
    for (int i = 0; i < V; ++i) {
      result.dlogits.push_back(std::exp(at[i] - highest) / sum - (i == targets[row] ? 1 : 0));
    }
  }
  return result;
}

inline double norm(values const& x) {
  double squares = 0;
  for (double const value : x) squares += value * value;
  return std::sqrt(squares);
}

/// What brings a gradient of that norm to `limit`; 1 if it is within, or the limit is 0.
inline double clip_factor(double norm, double limit) { return limit > 0 && norm > limit ? limit / norm : 1; }

struct adamw_state {
  values weight, m, v;
};

/// The `step`-th step, counted from 1, with a gradient that is multiplied by `clip` first. Corrections are taken from
/// `step`, not from `how`.
inline void adamw(adamw_state& state, values const& gradient, double clip, int step, adamw_step const& how) {
  double const beta1 = how.beta1, beta2 = how.beta2, rate = how.learning_rate;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    double const g = gradient[i] * clip;
    state.m[i] = beta1 * state.m[i] + (1 - beta1) * g;
    state.v[i] = beta2 * state.v[i] + (1 - beta2) * g * g;
    double const mean = state.m[i] / (1 - std::pow(beta1, step));
    double const variance = state.v[i] / (1 - std::pow(beta2, step));
    state.weight[i] -= rate * how.weight_decay * state.weight[i];
    state.weight[i] -= rate * mean / (std::sqrt(variance) + how.epsilon);
  }
}

}  // namespace ferry::nn::oracle
