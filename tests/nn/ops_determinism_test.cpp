// The same bits from the same arguments: run after run, with any number of threads, at any address that a pool gives,
// and whatever lay before in outputs, workspaces and the threads' scratch. Recomputation rests on it.
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ferry/nn/ops.hpp"
#include "nn/ops_fixture.hpp"

namespace ferry::nn::testing {
namespace {

using results = std::map<std::string, std::vector<float>>;

/// Calls every operation on the same data and keeps all that they give. What they need not read holds `stale`.
class all_operations {
 public:
  all_operations(ops_world& world, float stale, float scale = 1) : world_(world), stale_(stale), scale_(scale) {}

  results run() {
    for (auto const& [rows, C] : {row_shape{200, 100}, row_shape{33, 1024}, row_shape{5, 33}}) {
      layernorm(rows, C);
      gelu(rows, C);
      bias(rows, C);
    }
    gemm(300, 520, 512, false, false);
    gemm(512, 1024, 70, true, false);
    gemm(70, 100, 1024, false, true);
    gemm(512, 33, 129, true, true);
    embedding(3, 50, 200, 11);
    cross_entropy(40, 5003);
    for (attention_shape const& shape : {attention_shape{2, 300, 32, 2}, attention_shape{3, 65, 15, 3}}) {
      explicit_attention(shape);
      tiled_attention(shape);
    }
    optimiser(50001);
    return std::move(results_);
  }

 private:
  tensor<float> data(std::size_t count) { return world_.upload(random_(count, scale_)); }
  tensor<float> fresh(std::size_t count) { return world_.upload(std::vector<float>(count, stale_)); }

  template <typename... Tensors>
  void keep(std::string const& name, Tensors const&... tensors) {
    int part = 0;
    ((results_[name + " " + std::to_string(results_.size()) + "." + std::to_string(part++)] = world_.download(tensors)),
     ...);
  }

  void layernorm(int rows, int C) {
    auto const x = data(rows * C), weight = data(C), offset = data(C), dout = data(rows * C);
    auto const out = fresh(rows * C), dx = fresh(rows * C), dweight = fresh(C), dbias = fresh(C);
    auto const added = data(rows * C), workspace = fresh(ops::workspace_floats(rows, C));
    world_->layernorm_forward(world_.stream(), out, x, weight, offset, rows, C);
    world_->layernorm_backward(world_.stream(), dx, dweight, dbias, dout, x, weight, workspace, rows, C, false, false);
    keep("layernorm", out, dx, dweight, dbias);
    world_->layernorm_backward(world_.stream(), added, dweight, dbias, dout, x, weight, workspace, rows, C, true, true);
    keep("layernorm, added", added, dweight, dbias);
  }

  void gelu(int rows, int columns) {
    auto const x = data(rows * columns), gradient = data(rows * columns), out = fresh(rows * columns);
    auto const dbias = fresh(columns), workspace = fresh(ops::workspace_floats(rows, columns));
    world_->gelu_forward(world_.stream(), out, x, rows, columns);
    world_->gelu_backward(world_.stream(), gradient, dbias, x, workspace, rows, columns, false);
    keep("gelu", out, gradient, dbias);
  }

  void bias(int rows, int columns) {
    auto const dout = data(rows * columns), dbias = fresh(columns);
    auto const workspace = fresh(ops::workspace_floats(rows, columns));
    world_->bias_backward(world_.stream(), dbias, dout, workspace, rows, columns, false);
    keep("bias", dbias);
  }

  void gemm(int m, int n, int k, bool a_transposed, bool b_transposed) {
    auto const a = data(m * k), b = data(k * n), out = fresh(m * n), sum = data(m * n), offset = data(n);
    auto const residual = data(m * n);
    gemm_call call{.m = m, .n = n, .k = k, .a = {a, a_transposed}, .b = {b, b_transposed}, .out = out};
    world_->gemm(world_.stream(), "gemm", call);
    call.out = sum;
    call.accumulate = true;
    call.bias = offset;
    call.residual = residual;
    world_->gemm(world_.stream(), "gemm", call);
    keep("gemm", out, sum);
  }

  void embedding(int B, int T, int C, int V) {
    auto const tokens = world_.upload(random_.below(V, B * T));
    auto const wte = data(V * C), wpe = data(T * C), dx = data(B * T * C), dwte = data(V * C);
    auto const x = fresh(B * T * C), dwpe = fresh(T * C);
    world_->embedding_forward(world_.stream(), x, tokens, wte, wpe, {0, B * T}, T, C, V);
    world_->embedding_backward(world_.stream(), dwte, dwpe, dx, tokens, B, T, C, V, false);
    keep("embedding", x, dwte, dwpe);
  }

  void cross_entropy(int rows, int V) {
    auto const logits = data(rows * V), losses = fresh(rows);
    auto const targets = world_.upload(random_.below(V, rows));
    auto const total = world_.upload(std::vector<double>{0});
    world_->cross_entropy(world_.stream(), losses, logits, targets, rows, V, 0.25F);
    world_->add_losses(world_.stream(), total, losses, rows, 0.5);
    keep("cross-entropy", losses, logits);
    double const sum = world_.download(total)[0];
    std::vector<float> halves(2);
    std::memcpy(halves.data(), &sum, sizeof sum);
    results_["total"] = halves;
  }

  void explicit_attention(attention_shape const& shape) {
    int const values = shape.rows() * shape.C, squares = shape.rows() * shape.heads * shape.T;
    auto const qkv = data(3 * values), dout = data(values), out = fresh(values), dqkv = fresh(3 * values);
    auto const probabilities = fresh(squares), dprobabilities = fresh(squares);
    world_->attention_probabilities(world_.stream(), probabilities, qkv, shape);
    world_->attention_mix(world_.stream(), out, probabilities, qkv, shape);
    world_->attention_backward(world_.stream(), dqkv, dprobabilities, dout, probabilities, qkv, shape);
    keep("attention", probabilities, out, dqkv);
  }

  void tiled_attention(attention_shape const& shape) {
    int const values = shape.rows() * shape.C;
    auto const qkv = data(3 * values), dout = data(values), dqkv = fresh(3 * values);
    auto const out = fresh(values + shape.rows() * shape.heads);
    auto const workspace = fresh(ops::attention_workspace_floats(shape));
    world_->tiled_attention_forward(world_.stream(), out, qkv, workspace, shape);
    world_->tiled_attention_backward(world_.stream(), dqkv, dout, out, qkv, workspace, shape);
    keep("tiled attention", out, dqkv);
  }

  void optimiser(std::size_t count) {
    auto const weight = data(count), gradient = data(count), m = data(count), v = fresh(count), clip = fresh(2);
    auto const workspace =
        world_.upload(std::vector<double>(ops::norm_workspace_doubles(count), static_cast<double>(stale_)));
    world_->set_to_zero(world_.stream(), v, count);
    world_->gradient_norm(world_.stream(), clip, gradient, workspace, count, 1.0F);
    world_->adamw(world_.stream(), weight, gradient, m, v, clip, count, {.learning_rate = 0.01F, .weight_decay = 0.1F});
    keep("optimiser", weight, m, v, clip);
  }

  ops_world& world_;
  float stale_;
  float scale_;
  random_values random_;
  results results_;
};

results results_in(ops_world& world, float stale = 0) { return all_operations(world, stale).run(); }

void expect_same_bits(results const& expected, results const& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (auto const& [name, values] : expected) {
    auto const found = actual.find(name);
    ASSERT_NE(found, actual.end()) << name;
    ASSERT_EQ(values.size(), found->second.size()) << name;
    EXPECT_EQ(std::memcmp(values.data(), found->second.data(), values.size() * sizeof(float)), 0) << name;
  }
}

TEST(OpsDeterminism, RunToRun) {
  ops_world world;
  results const first = results_in(world);
  expect_same_bits(first, results_in(world));
  expect_same_bits(first, results_in(world));
  ops_world other;
  expect_same_bits(first, results_in(other));
  world.expect_ordered();
}

TEST(OpsDeterminism, AnyNumberOfThreads) {
  // Without it oneTBB would start no more threads than the machine has cores.
  tbb::global_control const threads_for_all(tbb::global_control::max_allowed_parallelism, 8);
  ops_world one(1);
  results const expected = results_in(one);
  for (unsigned const threads : {2U, 3U, 8U}) {
    SCOPED_TRACE(threads);
    ops_world world(threads);
    for (int round = 0; round < 3; ++round) expect_same_bits(expected, results_in(world));
    world.expect_ordered();
  }
}

TEST(OpsDeterminism, AnyAddress) {
  ops_world dense;
  results const expected = results_in(dense);
  for (std::size_t const gap : {256, 768, 256 * 7, 4096 + 256, (64 << 10) + 512}) {
    SCOPED_TRACE(gap);
    ops_world world(2, gap);
    expect_same_bits(expected, results_in(world));
    world.expect_ordered();
  }
}

TEST(OpsDeterminism, WhateverLayInTheMemoryBefore) {
  ops_world world;
  results const expected = results_in(world);
  for (float const stale : {not_a_number, 1e30F, -std::numeric_limits<float>::infinity()}) {
    SCOPED_TRACE(stale);
    expect_same_bits(expected, results_in(world, stale));
  }
  // Through every operation, so that the threads' own scratch is full of it too.
  static_cast<void>(all_operations(world, not_a_number, not_a_number).run());
  expect_same_bits(expected, results_in(world));
  world.expect_ordered();
}

}  // namespace
}  // namespace ferry::nn::testing
