// Every kernel as a GPU runs it: in blocks of 32 to 256 threads, in three orders of threads between barriers, against
// the serial form and against the oracle in double precision. Bounds are those of error_bounds.hpp; against the serial
// form twice as much, as each of the two may be off. The order of threads shows in no bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/kernel_bench.hpp"
#include "ferry/cuda_device.hpp"
#include "nn/error_bounds.hpp"
#include "nn/ops_fixture.hpp"
#include "support/same_bits.hpp"

namespace ferry::nn::testing {
namespace {

using ferry::testing::same_bits;

/// What a run gave, with what it should have given.
struct result {
  std::string name;
  std::vector<float> actual;
  values expected;
  values bound;
};
using results = std::vector<result>;
/// Runs kernels on a bench, always on the same data.
using experiment = std::function<results(kernel_bench& bench)>;

results run_on(launch_way const& how, experiment const& what) {
  kernel_bench bench(how);
  return what(bench);
}

void expect_same_bits(results const& a, results const& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i].actual, b[i].actual)) << a[i].name;
}

class CudaKernels : public ::testing::TestWithParam<int> {
 protected:
  void expect_right(experiment const& what) {
    using cudasim::thread_order;
    int const threads = GetParam();
    auto const serial = run_on({}, what);
    auto const forward = run_on({threads}, what);
    ASSERT_EQ(serial.size(), forward.size());
    for (std::size_t i = 0; i < serial.size(); ++i) {
      auto const& [name, actual, expected, bound] = forward[i];
      expect_close(actual, expected, bound, name.c_str());
      expect_close(actual, widened(serial[i].actual), scaled(bound, 2), (name + ", against serial").c_str());
    }
    expect_same_bits(forward, run_on({threads, cudasim::mode::fibers, thread_order::reverse}, what));
    expect_same_bits(forward, run_on({threads, cudasim::mode::fibers, thread_order::shuffled}, what));
    expect_same_bits(serial, run_on({threads, cudasim::mode::serial}, what));
  }

  random_values random;
};

INSTANTIATE_TEST_SUITE_P(BlocksOf, CudaKernels, ::testing::Values(32, 64, 128, 256),
                         [](auto const& tested) { return std::to_string(tested.param); });

std::vector<float> stale(std::size_t count) { return std::vector<float>(count, not_a_number); }

/// Less than a warp, around a block of 64, more than the largest block.
constexpr int widths[]{1, 33, 64, 100, 300};

TEST_P(CudaKernels, Layernorm) {
  int const rows = 7, rows_per_block = 3, blocks = 3;
  for (int const C : widths) {
    SCOPED_TRACE(C);
    auto const x = random(rows * C, 3), weight = random(C), bias = random(C), dout = random(rows * C);
    auto const d = oracle::layernorm_backward(widened(dout), widened(x), widened(weight), rows, C);
    auto const bound = layernorm_backward_bound(widened(dout), widened(x), widened(weight), rows, C);
    expect_right([&](kernel_bench& bench) -> results {
      auto* const x_there = bench.put(x);
      auto* const weight_there = bench.put(weight);
      auto* const bias_there = bench.put(bias);
      auto* const dout_there = bench.put(dout);
      auto* const out = bench.put(stale(rows * C));
      auto* const dx = bench.put(stale(rows * C));
      auto* const partial = bench.put(stale(blocks * 2 * C));
      auto* const dweight = bench.put(stale(C));
      auto* const dbias = bench.put(stale(C));
      bench.run([](auto const& of) { return of.layernorm_forward; }, rows, out, x_there, weight_there, bias_there, C);
      auto const backward = [&](int accumulate) {
        bench.run([](auto const& of) { return of.layernorm_backward; }, blocks, dx, partial, dout_there, x_there,
                  weight_there, rows, C, rows_per_block, accumulate);
        return bench.get(dx, rows * C);
      };
      auto const once = backward(0), twice = backward(1);
      auto const add = [](auto const& of) { return of.add_partials; };
      bench.run(add, 1, dweight, partial, blocks, 2L * C, C, C, 0);
      bench.run(add, 1, dbias, partial + C, blocks, 2L * C, C, C, 0);
      return {{"out", bench.get(out, rows * C),
               oracle::layernorm_forward(widened(x), widened(weight), widened(bias), rows, C),
               layernorm_forward_bound(widened(x), widened(weight), widened(bias), rows, C)},
              {"dx", once, d.x, bound.x},
              {"dx, added", twice, scaled(d.x, 2), scaled(bound.x, 3)},
              {"dweight", bench.get(dweight, C), d.weight, bound.weight},
              {"dbias", bench.get(dbias, C), d.bias, bound.bias}};
    });
  }
}

TEST_P(CudaKernels, Gelu) {
  int const rows = 5, rows_per_block = 4, blocks = 2;
  for (int const columns : widths) {
    SCOPED_TRACE(columns);
    auto const x = random(rows * columns, 6), dout = random(rows * columns);
    values const dx = oracle::gelu_backward(widened(dout), widened(x));
    values const bound = gelu_backward_bound(widened(dout), widened(x));
    expect_right([&](kernel_bench& bench) -> results {
      auto* const there = bench.put(x);
      auto* const out = bench.put(stale(x.size()));
      auto* const gradient = bench.put(dout);
      auto* const partial = bench.put(stale(blocks * columns));
      auto* const dbias = bench.put(stale(columns));
      bench.run([](auto const& of) { return of.gelu_forward; }, rows, out, there, columns);
      bench.run([](auto const& of) { return of.gelu_backward; }, blocks, gradient, partial, there, rows, columns,
                rows_per_block);
      bench.run([](auto const& of) { return of.add_partials; }, 1, dbias, partial, blocks, columns, columns, columns,
                0);
      return {
          {"out", bench.get(out, x.size()), oracle::gelu_forward(widened(x)), gelu_forward_bound(widened(x))},
          {"gradient", bench.get(gradient, x.size()), dx, bound},
          {"dbias", bench.get(dbias, columns), oracle::column_sums(dx, rows, columns),
           sum_of(oracle::column_sums(bound, rows, columns), column_sums_bound(dx, values(columns), rows, columns))}};
    });
  }
}

TEST_P(CudaKernels, BiasResidualAndZero) {
  int const rows = 5;
  for (int const columns : widths) {
    SCOPED_TRACE(columns);
    int const stride = columns + 3, count = rows * stride;
    auto const before = random(count), bias = random(columns), residual = random(count);
    values biased = widened(before), both = biased, zeroed_rows = biased, zeroed = biased;
    for (int i = 0; i < count; ++i) {
      if (i < count / 2) zeroed[i] = 0;
      if (i % stride >= columns) continue;
      biased[i] += static_cast<double>(bias[i % stride]);
      both[i] = biased[i] + static_cast<double>(residual[i]);
      zeroed_rows[i] = 0;
    }
    values const rounding(count, 4 * unit);
    expect_right([&](kernel_bench& bench) -> results {
      auto* const bias_there = bench.put(bias);
      auto* const residual_there = bench.put(residual);
      auto* const a = bench.put(before);
      auto* const b = bench.put(before);
      auto* const c = bench.put(before);
      auto* const d = bench.put(before);
      bench.run([](auto const& of) { return of.add_bias; }, rows, a, stride, bias_there, columns);
      bench.run([](auto const& of) { return of.add_bias_and_residual; }, rows, b, stride, bias_there, residual_there,
                columns);
      bench.run([](auto const& of) { return of.set_rows_to_zero; }, rows, c, stride, columns);
      bench.run([](auto const& of) { return of.set_to_zero; }, 3, d, count / 2, (count / 2 + 2) / 3);
      return {{"bias", bench.get(a, count), biased, rounding},
              {"bias and residual", bench.get(b, count), both, rounding},
              {"rows set to zero", bench.get(c, count), zeroed_rows, values(count)},
              {"set to zero", bench.get(d, count), zeroed, values(count)}};
    });
  }
}

TEST_P(CudaKernels, ColumnSums) {
  int const rows = 7, rows_per_block = 3, blocks = 3, columns_per_block = 64;
  for (int const columns : widths) {
    SCOPED_TRACE(columns);
    auto const x = random(rows * columns), before = random(columns);
    expect_right([&](kernel_bench& bench) -> results {
      auto* const partial = bench.put(stale(blocks * columns));
      auto* const sums = bench.put(before);
      bench.run([](auto const& of) { return of.partial_column_sums; }, blocks, partial, bench.put(x), rows, columns,
                rows_per_block);
      bench.run([](auto const& of) { return of.add_partials; }, (columns + columns_per_block - 1) / columns_per_block,
                sums, partial, blocks, columns, columns, columns_per_block, 1);
      return {{"sums", bench.get(sums, columns),
               sum_of(oracle::column_sums(widened(x), rows, columns), widened(before)),
               column_sums_bound(widened(x), widened(before), rows, columns)}};
    });
  }
}

TEST_P(CudaKernels, Embedding) {
  int const B = 2, T = 5, V = 4, rows = B * T, columns_per_block = 64;
  for (int const C : widths) {
    SCOPED_TRACE(C);
    auto const tokens = random.below(V, rows);
    auto const wte = random(V * C), wpe = random(T * C), dout = random(rows * C);
    values const expected = oracle::embedding_forward(tokens, widened(wte), widened(wpe), T, C);
    auto const d = oracle::embedding_backward(widened(dout), tokens, T, C, V);
    expect_right([&](kernel_bench& bench) -> results {
      auto* const tokens_there = bench.put(tokens);
      auto* const dout_there = bench.put(dout);
      auto* const x = bench.put(stale(rows * C));
      auto* const dwte = bench.put(std::vector<float>(V * C));
      auto* const dwpe = bench.put(stale(T * C));
      auto const forward = [](auto const& of) { return of.embedding_forward; };
      auto* const wte_there = bench.put(wte);
      auto* const wpe_there = bench.put(wpe);
      bench.run(forward, 3, x, tokens_there, wte_there, wpe_there, 0, T, C);
      bench.run(forward, rows - 3, x, tokens_there, wte_there, wpe_there, 3, T, C);
      bench.run([](auto const& of) { return of.token_embedding_backward; },
                (C + columns_per_block - 1) / columns_per_block, dwte, dout_there, tokens_there, rows, C,
                columns_per_block);
      bench.run([](auto const& of) { return of.position_embedding_backward; }, T, dwpe, dout_there, B, T, C, 0);
      return {{"x", bench.get(x, rows * C), expected, scaled(sizes_of(expected), unit)},
              {"dwte", bench.get(dwte, V * C), d.wte, values(V * C, rows * rows * unit)},
              {"dwpe", bench.get(dwpe, T * C), d.wpe, values(T * C, B * B * unit)}};
    });
  }
}

TEST_P(CudaKernels, CausalSoftmax) {
  float const scale = 0.25F;
  for (int const T : {1, 7, 33, 70}) {
    SCOPED_TRACE(T);
    auto const scores = random(2 * T * T, 40), dout = random(2 * T * T);
    values const right = scaled(widened(scores), scale);
    values const probabilities = oracle::causal_softmax(right, T), error = causal_softmax_bound(right, T);
    // |dout| is at most 1, so both terms are at most p, and their error at most that of p and of its sum.
    values bound = sum_of(scaled(probabilities, 2 * (growth(T) + 4) * unit), scaled(error, 4));
    for (int row = 0; row < 2 * T; ++row) {
      double whole = 0;
      for (int i = 0; i < T; ++i) whole += error[row * T + i];
      for (int i = 0; i < T; ++i) bound[row * T + i] += probabilities[row * T + i] * whole;
    }
    expect_right([&](kernel_bench& bench) -> results {
      auto* const p = bench.put(scores);
      auto* const gradient = bench.put(dout);
      bench.run([](auto const& of) { return of.causal_softmax_forward; }, 2 * T, p, T, scale);
      bench.run([](auto const& of) { return of.causal_softmax_backward; }, 2 * T, gradient, p, T, scale);
      return {{"probabilities", bench.get(p, scores.size()), probabilities, error},
              {"gradient", bench.get(gradient, dout.size()),
               scaled(oracle::causal_softmax_backward(widened(dout), probabilities, T), scale), scaled(bound, scale)}};
    });
  }
}

/// Two heads at once; the second tile of keys is cut off by the diagonal. All values are 1, so that the output is too.
TEST_P(CudaKernels, TileSoftmax) {
  int const heads = 2, queries = 9, tile = 70, keys = 2 * tile, d = 5, stride = heads * d + 3, rows = heads * queries;
  int const first_query = keys - queries, log_sum_stride = queries + 4;
  float const scale = 0.5F;
  auto const all_scores = random(rows * keys, 30), of_value = random(rows * keys), dots = random(rows);
  values log_sums(rows), p(rows * keys), slopes(rows * keys);
  for (int row = 0; row < rows; ++row) {
    int const visible = first_query + row % queries + 1;
    double sum = 0;
    for (int key = 0; key < visible; ++key) sum += std::exp(scale * static_cast<double>(all_scores[row * keys + key]));
    log_sums[row] = std::log(sum);
    for (int key = 0; key < visible; ++key) {
      int const at = row * keys + key;
      p[at] = std::exp(scale * static_cast<double>(all_scores[at])) / sum;
      slopes[at] = p[at] * (of_value[at] - static_cast<double>(dots[row])) * scale;
    }
  }
  auto const tile_of = [&](auto const& all, int first_key) {
    auto part = all;
    part.clear();
    for (int i = 0; i < rows * tile; ++i) part.push_back(all[i / tile * keys + first_key + i % tile]);
    return part;
  };
  expect_right([&](kernel_bench& bench) -> results {
    auto* const out = bench.put(std::vector<float>(queries * stride, 1));
    auto* const highest = bench.put(stale(rows));
    auto* const sums = bench.put(stale(rows));
    auto* const log_sum = bench.put(stale(heads * log_sum_stride));
    auto* const dots_there = bench.put(dots);
    for (int const first_key : {0, tile}) {
      auto* const scores = bench.put(tile_of(all_scores, first_key));
      bench.run([](auto const& of) { return of.tile_softmax_forward; }, rows, scores, highest, sums, out, stride,
                queries, tile, d, first_query - first_key, scale, first_key == 0 ? 1 : 0);
      // In place of the product with the values.
      for (int i = 0; i < rows * d; ++i) {
        int const row = i / d, head = row / queries, query = row % queries;
        float sum = 0;
        for (int key = 0; key < tile; ++key) sum += scores[row * tile + key];
        float& to = out[query * stride + head * d + i % d];
        to = first_key == 0 ? sum : to + sum;
      }
    }
    bench.run([](auto const& of) { return of.tile_softmax_finish; }, rows, out, stride, log_sum, log_sum_stride,
              highest, sums, queries, d);
    results all{{"out", bench.get(out, queries * stride), values(queries * stride, 1),
                 values(queries * stride, (2 * growth(keys) + 12) * unit)}};
    std::vector<float> found;
    for (int row = 0; row < rows; ++row) found.push_back(log_sum[row / queries * log_sum_stride + row % queries]);
    all.push_back({"log of the sum", found, log_sums, values(rows, 2 * exponential_error + 30 * unit)});
    for (int const first_key : {0, tile}) {
      auto* const scores = bench.put(tile_of(all_scores, first_key));
      auto* const gradient = bench.put(tile_of(of_value, first_key));
      bench.run([](auto const& of) { return of.tile_softmax_backward; }, rows, scores, gradient, log_sum,
                log_sum_stride, dots_there, queries, tile, first_query - first_key, scale);
      values const right = tile_of(p, first_key);
      all.push_back({"probabilities", bench.get(scores, rows * tile), right, scaled(right, 3 * exponential_error)});
      all.push_back({"gradient", bench.get(gradient, rows * tile), tile_of(slopes, first_key),
                     scaled(right, 2 * (3 * exponential_error + 4 * unit))});
    }
    return all;
  });
}

TEST_P(CudaKernels, RowDots) {
  int const heads = 3, queries = 4;
  for (int const d : widths) {
    SCOPED_TRACE(d);
    int const stride = heads * d + 5;
    auto const a = random(queries * stride), b = random(queries * stride);
    values expected, bound;
    for (int head = 0; head < heads; ++head) {
      for (int query = 0; query < queries; ++query) {
        double sum = 0, size = 0;
        for (int i = query * stride + head * d; i < query * stride + (head + 1) * d; ++i) {
          sum += static_cast<double>(a[i]) * b[i];
          size += std::abs(static_cast<double>(a[i]) * b[i]);
        }
        expected.push_back(sum);
        bound.push_back(size * (growth(d) + 1) * unit);
      }
    }
    expect_right([&](kernel_bench& bench) -> results {
      auto* const dots = bench.put(stale(heads * queries));
      bench.run([](auto const& of) { return of.row_dots; }, heads * queries, dots, bench.put(a), bench.put(b), stride,
                queries, d);
      return {{"dots", bench.get(dots, heads * queries), expected, bound}};
    });
  }
}

TEST_P(CudaKernels, CrossEntropy) {
  int const rows = 3;
  for (int const V : {1, 5, 33, 1000}) {
    SCOPED_TRACE(V);
    auto const logits = random(rows * V, 80);
    auto const targets = random.below(V, rows);
    auto const right = oracle::cross_entropy(widened(logits), targets, rows, V);
    auto const bound = cross_entropy_bound(widened(logits), targets, rows, V);
    double total = 1, total_bound = 8 * unit;
    for (double const loss : right.losses) total += 0.5 * loss;
    for (double const error : bound.losses) total_bound += 0.5 * error;
    total_bound += std::abs(total) * unit;  // it is looked at as a float
    expect_right([&](kernel_bench& bench) -> results {
      auto* const there = bench.put(logits);
      auto* const targets_there = bench.put(targets);
      auto* const losses = bench.put(stale(rows));
      auto* const sum = bench.put(std::vector<double>{1});
      auto const kernel = [](auto const& of) { return of.cross_entropy; };
      bench.run(kernel, rows, losses, there, targets_there, V, 0.0F);
      auto const alone = bench.get(losses, rows), untouched = bench.get(there, logits.size());
      bench.run(kernel, rows, losses, there, targets_there, V, 2.0F);
      bench.run([](auto const& of) { return of.add_losses; }, 1, sum, losses, rows, 0.5);
      return {{"losses alone", alone, right.losses, bound.losses},
              {"logits without a gradient", untouched, widened(logits), values(logits.size())},
              {"losses", bench.get(losses, rows), right.losses, bound.losses},
              {"gradient", bench.get(there, logits.size()), scaled(right.dlogits, 2), scaled(bound.dlogits, 2)},
              {"total", {static_cast<float>(*sum)}, {total}, {total_bound}}};
    });
  }
}

TEST_P(CudaKernels, NormAndAdamw) {
  int const per_block = 64;
  for (int const count : widths) {
    SCOPED_TRACE(count);
    int const blocks = (count + per_block - 1) / per_block;
    auto const gradient = random(count), weight = random(count), m = random(count);
    std::vector<float> const v(count, 0.5F);
    double const norm = oracle::norm(widened(gradient)), relative = (growth(per_block) + 4) * unit;
    double const factor = oracle::clip_factor(norm, 0.125);
    adamw_step const how{.learning_rate = 0.01F, .weight_decay = 0.1F, .correction1 = 0.1F, .correction2 = 0.05F};
    auto const clip_given = static_cast<float>(factor);
    oracle::adamw_state state{widened(weight), widened(m), widened(v)};
    auto const bound = adamw_bound(state, widened(gradient), clip_given, 1, how);
    oracle::adamw(state, widened(gradient), clip_given, 1, how);
    expect_right([&](kernel_bench& bench) -> results {
      auto* const gradient_there = bench.put(gradient);
      auto* const partial = bench.put(std::vector<double>(blocks, not_a_number));
      auto* const clip = bench.put(stale(2));
      auto* const weight_there = bench.put(weight);
      auto* const m_there = bench.put(m);
      auto* const v_there = bench.put(v);
      bench.run([](auto const& of) { return of.partial_squares; }, blocks, partial, gradient_there, count, per_block);
      bench.run([](auto const& of) { return of.finish_norm; }, 1, clip, partial, blocks, 0.125F);
      bench.run([](auto const& of) { return of.adamw; }, blocks, weight_there, gradient_there, m_there, v_there,
                bench.put(std::vector<float>{static_cast<float>(norm), clip_given}), count, per_block, how);
      return {{"clip", bench.get(clip, 2), {norm, factor}, {norm * relative, factor * relative}},
              {"weight", bench.get(weight_there, count), state.weight, bound.weight},
              {"m", bench.get(m_there, count), state.m, bound.m},
              {"v", bench.get(v_there, count), state.v, bound.v}};
    });
  }
}

TEST(CudaLaunch, NoBlocksAreNoLaunch) {
  kernel_bench bench({32});
  cudasim::reset_calls();
  bench.run([](auto const& of) { return of.set_to_zero; }, 0, bench.put(std::vector<float>{1}), 0, 1);
  EXPECT_FALSE(cudasim::calls().contains("cudaLaunchKernelEx"));
}

TEST(CudaLaunch, AFailureNamesTheCallAndItsPlace) {
  kernel_bench bench({32});
  auto* const x = bench.put(std::vector<float>{1});
  cudasim::fail("cudaLaunchKernelEx", 1, cudaErrorLaunchOutOfResources);
  try {
    bench.run([](auto const& of) { return of.set_to_zero; }, 1, x, 1, 1);
    FAIL() << "expected cuda_error";
  } catch (cuda_error const& failed) {
    EXPECT_EQ(failed.where().call, "cudaLaunchKernelEx");
    EXPECT_EQ(failed.where().reason, "cudaErrorLaunchOutOfResources");
    EXPECT_NE(std::string(failed.where().file).find("kernels.cu"), std::string::npos);
    EXPECT_GT(failed.where().line, 0);
    EXPECT_FALSE(failed.where().sticky);
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace ferry::nn::testing
