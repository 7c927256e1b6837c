// The operations inside a block, on the host device against the oracle, over shapes that are tiny, odd, and larger than
// the parts in which an operation works; attention and what comes around the blocks have files of their own. Bounds are
// those of error_bounds.hpp; results are written over NaNs, so that whatever an operation leaves out shows.
#include "ferry/nn/ops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ferry/error.hpp"
#include "nn/error_bounds.hpp"
#include "nn/ops_fixture.hpp"

namespace ferry::nn::testing {
namespace {

using Gemm = OpsTest;

struct gemm_shape {
  int m, n, k;
};

/// Which of the terms a call has.
struct gemm_variant {
  bool accumulate, bias, residual;
};

void expect_gemm(ops_world& world, random_values& random, gemm_shape const& shape, bool a_transposed, bool b_transposed,
                 gemm_variant const& with) {
  auto const [m, n, k] = shape;
  auto const a = random(m * k), b = random(k * n), before = random(m * n), bias = random(n), residual = random(m * n);
  auto const there_a = world.upload(a), there_b = world.upload(b), there_bias = world.upload(bias);
  auto const there_residual = world.upload(residual);
  auto const out = with.accumulate ? world.upload(before) : world.poisoned(m * n);
  world->gemm(world.stream(), "gemm",
              {.m = m,
               .n = n,
               .k = k,
               .a = {there_a, a_transposed},
               .b = {there_b, b_transposed},
               .out = out,
               .accumulate = with.accumulate,
               .bias = with.bias ? there_bias.data() : nullptr,
               .residual = with.residual ? there_residual.data() : nullptr});
  oracle::gemm_terms terms;
  if (with.accumulate) terms.out = widened(before);
  if (with.bias) terms.bias = widened(bias);
  if (with.residual) terms.residual = widened(residual);
  SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << (a_transposed ? " aT" : "")
                                    << (b_transposed ? " bT" : "") << (with.accumulate ? " accumulate" : "")
                                    << (with.bias ? " bias" : "") << (with.residual ? " residual" : ""));
  expect_close(world.download(out), oracle::gemm(m, n, k, widened(a), a_transposed, widened(b), b_transposed, terms),
               gemm_bound(m, n, k, widened(a), a_transposed, widened(b), b_transposed, terms), "out");
}

TEST_F(Gemm, MatchesTheOracleWithEveryTransposeAndTerm) {
  gemm_shape const shapes[]{{1, 1, 1}, {1, 33, 100}, {5, 1, 7}, {3, 5, 1}, {17, 31, 33}, {33, 100, 255}};
  for (auto const& shape : shapes) {
    for (int bits = 0; bits < 16; ++bits) {
      bool const accumulate = (bits & 4) != 0, terms = (bits & 8) != 0;
      expect_gemm(world, random, shape, (bits & 1) != 0, (bits & 2) != 0, {accumulate, terms, terms});
      expect_gemm(world, random, shape, (bits & 1) != 0, (bits & 2) != 0, {accumulate, !terms, false});
    }
  }
}

TEST_F(Gemm, MatchesTheOracleForStridesThatAreSpreadOut) {
  gemm_shape const shapes[]{{65, 31, 512}, {70, 9, 1024}, {13, 512, 33}, {9, 1024, 65}, {512, 20, 31}, {512, 1024, 5}};
  for (auto const& shape : shapes) {
    for (int bits = 0; bits < 8; ++bits) {
      bool const all_terms = (bits & 4) != 0;
      expect_gemm(world, random, shape, (bits & 1) != 0, (bits & 2) != 0, {all_terms, all_terms, all_terms});
    }
  }
}

TEST_F(Gemm, MatchesTheOracleForMoreThanOneTile) {
  gemm_shape const shapes[]{{257, 3, 9}, {2, 513, 9}, {300, 520, 17}, {520, 1040, 3}, {600, 1, 40}};
  for (auto const& shape : shapes) {
    for (int bits = 0; bits < 4; ++bits) {
      expect_gemm(world, random, shape, (bits & 1) != 0, (bits & 2) != 0, {true, true, true});
    }
  }
}

TEST_F(Gemm, RefusesAResidualWithoutABias) {
  auto const a = world.upload(random(1)), residual = world.upload(random(1)), out = world.upload(random(1));
  gemm_call const call{.m = 1, .n = 1, .k = 1, .a = {a}, .b = {a}, .out = out, .residual = residual};
  EXPECT_THROW(world->gemm(world.stream(), "gemm", call), invalid_argument);
}

TEST_F(Gemm, DoesNotHideNans) {
  int const m = 3, n = 5, k = 2;
  auto a = random(m * k), b = random(k * n);
  a[1 * k + 1] = not_a_number;
  b[0 * n + 4] = 0;  // 0 times NaN too
  b[1 * n + 4] = 0;
  auto const there_a = world.upload(a), there_b = world.upload(b), out = world.upload(random(m * n));
  world->gemm(world.stream(), "gemm", {.m = m, .n = n, .k = k, .a = {there_a}, .b = {there_b}, .out = out});
  auto const result = world.download(out);
  for (int i = 0; i < m * n; ++i) EXPECT_EQ(std::isnan(result[i]), i / n == 1) << i;
}

using Layernorm = OpsTest;

std::vector<float> layernorm_of(ops_world& world, std::vector<float> const& x, std::vector<float> const& weight,
                                std::vector<float> const& bias, int rows, int C) {
  auto const there_x = world.upload(x), there_weight = world.upload(weight), there_bias = world.upload(bias);
  auto const out = world.poisoned(x.size());
  world->layernorm_forward(world.stream(), out, there_x, there_weight, there_bias, rows, C);
  return world.download(out);
}

TEST_F(Layernorm, ForwardMatchesTheOracle) {
  for (auto const& [rows, C] : row_shapes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << C);
    auto x = random(rows * C, 3);
    for (float& value : x) value += 2;  // a mean to take away
    auto const weight = random(C), bias = random(C);
    expect_close(layernorm_of(world, x, weight, bias, rows, C),
                 oracle::layernorm_forward(widened(x), widened(weight), widened(bias), rows, C),
                 layernorm_forward_bound(widened(x), widened(weight), widened(bias), rows, C), "out");
  }
}

TEST_F(Layernorm, ForwardOfConstantRowsIsTheBias) {
  int const rows = 4, C = 100;
  auto const weight = random(C), bias = random(C);
  std::vector<float> x;
  for (float const constant : {0.0F, 1.0F, -3.0F, 0.1F}) x.insert(x.end(), C, constant);
  auto const out = layernorm_of(world, x, weight, bias, rows, C);
  expect_close(out, oracle::layernorm_forward(widened(x), widened(weight), widened(bias), rows, C),
               layernorm_forward_bound(widened(x), widened(weight), widened(bias), rows, C), "out");
  EXPECT_TRUE(std::equal(bias.begin(), bias.end(), out.begin())) << "a row of zeros";
}

TEST_F(Layernorm, ForwardDoesNotHideNans) {
  int const rows = 3, C = 33;
  auto x = random(rows * C);
  x[C + 32] = not_a_number;
  auto const out = layernorm_of(world, x, random(C), random(C), rows, C);
  for (int i = 0; i < rows * C; ++i) EXPECT_EQ(std::isnan(out[i]), i / C == 1) << i;
}

void expect_layernorm_backward(ops_world& world, random_values& random, row_shape const& shape, bool add_to_dx,
                               bool accumulate) {
  auto const [rows, C] = shape;
  SCOPED_TRACE(::testing::Message() << rows << " x " << C << (add_to_dx ? " add" : "")
                                    << (accumulate ? " accumulate" : ""));
  auto const x = random(rows * C, 2), weight = random(C), dout = random(rows * C);
  auto const dx_before = random(rows * C), dweight_before = random(C), dbias_before = random(C);
  auto const there_x = world.upload(x), there_weight = world.upload(weight), there_dout = world.upload(dout);
  auto const dx = add_to_dx ? world.upload(dx_before) : world.poisoned(rows * C);
  auto const dweight = accumulate ? world.upload(dweight_before) : world.poisoned(C);
  auto const dbias = accumulate ? world.upload(dbias_before) : world.poisoned(C);
  auto const workspace = world.poisoned(ops::workspace_floats(rows, C));
  world->layernorm_backward(world.stream(), dx, dweight, dbias, there_dout, there_x, there_weight, workspace, rows, C,
                            add_to_dx, accumulate);
  auto const d = oracle::layernorm_backward(widened(dout), widened(x), widened(weight), rows, C);
  auto const bound = layernorm_backward_bound(widened(dout), widened(x), widened(weight), rows, C);
  auto const check = [&](tensor<float> const& actual, values const& gradient, values const& gradient_bound,
                         std::vector<float> const& before, bool added, char const* what) {
    values const start = added ? widened(before) : values(before.size());
    values const expected = sum_of(gradient, start);
    expect_close(world.download(actual), expected,
                 sum_of(gradient_bound, scaled(sum_of(sizes_of(start), sizes_of(expected)), 2 * unit)), what);
  };
  check(dx, d.x, bound.x, dx_before, add_to_dx, "dx");
  check(dweight, d.weight, bound.weight, dweight_before, accumulate, "dweight");
  check(dbias, d.bias, bound.bias, dbias_before, accumulate, "dbias");
}

TEST_F(Layernorm, BackwardMatchesTheOracle) {
  for (auto const& shape : row_shapes) {
    expect_layernorm_backward(world, random, shape, false, false);
    expect_layernorm_backward(world, random, shape, true, true);
  }
  expect_layernorm_backward(world, random, {65, 33}, true, false);
  expect_layernorm_backward(world, random, {65, 33}, false, true);
}

using Gelu = OpsTest;

/// Large ones of either sign among the usual.
std::vector<float> gelu_inputs(random_values& random, int count) {
  auto x = random(count, 6);
  for (int i = 0; i < count; i += 11) x[i] = i % 2 == 0 ? 20.0F : -20.0F;
  return x;
}

TEST_F(Gelu, ForwardMatchesTheOracle) {
  for (auto const& [rows, columns] : row_shapes) {
    auto const x = gelu_inputs(random, rows * columns);
    auto const there_x = world.upload(x), out = world.poisoned(x.size());
    world->gelu_forward(world.stream(), out, there_x, rows, columns);
    SCOPED_TRACE(::testing::Message() << rows << " x " << columns);
    expect_close(world.download(out), oracle::gelu_forward(widened(x)), gelu_forward_bound(widened(x)), "out");
  }
}

TEST_F(Gelu, ForwardOfLargeValuesIsTheValueOrNothing) {
  std::vector<float> const x{20, -20, 1000, -1000, 1e10F, -1e10F, 0};
  auto const there_x = world.upload(x), out = world.poisoned(x.size());
  world->gelu_forward(world.stream(), out, there_x, 1, static_cast<int>(x.size()));
  EXPECT_EQ(world.download(out), (std::vector<float>{20, 0, 1000, 0, 1e10F, 0, 0}));
}

TEST_F(Gelu, BackwardMatchesTheOracle) {
  for (auto const& [rows, columns] : row_shapes) {
    for (bool const accumulate : {false, true}) {
      auto const x = gelu_inputs(random, rows * columns), dout = random(x.size()), before = random(columns);
      auto const there_x = world.upload(x), gradient = world.upload(dout);
      auto const dbias = accumulate ? world.upload(before) : world.poisoned(columns);
      auto const workspace = world.poisoned(ops::workspace_floats(rows, columns));
      world->gelu_backward(world.stream(), gradient, dbias, there_x, workspace, rows, columns, accumulate);
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns << (accumulate ? " accumulate" : ""));
      values const dx = oracle::gelu_backward(widened(dout), widened(x));
      values const bound = gelu_backward_bound(widened(dout), widened(x));
      values const start = accumulate ? widened(before) : values(columns);
      expect_close(world.download(gradient), dx, bound, "gradient");
      expect_close(world.download(dbias), sum_of(oracle::column_sums(dx, rows, columns), start),
                   sum_of(oracle::column_sums(bound, rows, columns), column_sums_bound(dx, start, rows, columns)),
                   "dbias");
    }
  }
}

TEST_F(Gelu, DoesNotHideNans) {
  std::vector<float> const x{1, not_a_number, -2};
  auto const there_x = world.upload(x), out = world.upload(random(3)), gradient = world.upload(random(3));
  auto const dbias = world.upload(random(3)), workspace = world.poisoned(ops::workspace_floats(1, 3));
  world->gelu_forward(world.stream(), out, there_x, 1, 3);
  world->gelu_backward(world.stream(), gradient, dbias, there_x, workspace, 1, 3, false);
  for (auto const& result : {world.download(out), world.download(gradient), world.download(dbias)}) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(std::isnan(result[i]), i == 1) << i;
  }
}

using Bias = OpsTest;

TEST_F(Bias, BackwardMatchesTheOracle) {
  for (auto const& [rows, columns] : row_shapes) {
    for (bool const accumulate : {false, true}) {
      auto const dout = random(rows * columns), before = random(columns);
      auto const there_dout = world.upload(dout);
      auto const dbias = accumulate ? world.upload(before) : world.poisoned(columns);
      auto const workspace = world.poisoned(ops::workspace_floats(rows, columns));
      world->bias_backward(world.stream(), dbias, there_dout, workspace, rows, columns, accumulate);
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns << (accumulate ? " accumulate" : ""));
      values const start = accumulate ? widened(before) : values(columns);
      expect_close(world.download(dbias), sum_of(oracle::column_sums(widened(dout), rows, columns), start),
                   column_sums_bound(widened(dout), start, rows, columns), "dbias");
    }
  }
}

}  // namespace
}  // namespace ferry::nn::testing
