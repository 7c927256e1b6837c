// Attention on the host device against the oracle, whole and by tiles, around the borders of tiles of queries (64) and
// of keys (256). Bounds are those of error_bounds.hpp; results are written over NaNs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "ferry/nn/ops.hpp"
#include "nn/error_bounds.hpp"
#include "nn/ops_fixture.hpp"

namespace ferry::nn::testing {
namespace {

using Attention = OpsTest;

/// What both ways give: of the probabilities only one has some.
struct attention_results {
  std::vector<float> probabilities, out, dqkv;
};

attention_results explicit_attention(ops_world& world, std::vector<float> const& qkv, std::vector<float> const& dout,
                                     attention_shape const& shape) {
  std::size_t const squares = static_cast<std::size_t>(shape.rows()) * shape.heads * shape.T;
  auto const there_qkv = world.upload(qkv), there_dout = world.upload(dout);
  auto const probabilities = world.poisoned(squares), dprobabilities = world.poisoned(squares);
  auto const out = world.poisoned(dout.size()), dqkv = world.poisoned(qkv.size());
  world->attention_probabilities(world.stream(), probabilities, there_qkv, shape);
  world->attention_mix(world.stream(), out, probabilities, there_qkv, shape);
  world->attention_backward(world.stream(), dqkv, dprobabilities, there_dout, probabilities, there_qkv, shape);
  return {world.download(probabilities), world.download(out), world.download(dqkv)};
}

attention_results tiled_attention(ops_world& world, std::vector<float> const& qkv, std::vector<float> const& dout,
                                  attention_shape const& shape) {
  auto const there_qkv = world.upload(qkv), there_dout = world.upload(dout);
  auto const out = world.poisoned(dout.size() + static_cast<std::size_t>(shape.rows()) * shape.heads);
  auto const dqkv = world.poisoned(qkv.size());
  auto const workspace = world.poisoned(ops::attention_workspace_floats(shape));
  world->tiled_attention_forward(world.stream(), out, there_qkv, workspace, shape);
  world->tiled_attention_backward(world.stream(), dqkv, there_dout, out, there_qkv, workspace, shape);
  auto values_of_out = world.download(out);
  values_of_out.resize(dout.size());
  return {{}, values_of_out, world.download(dqkv)};
}

void expect_attention(ops_world& world, std::vector<float> const& qkv, std::vector<float> const& dout,
                      attention_shape const& shape, bool exact = false) {
  SCOPED_TRACE(::testing::Message() << "B " << shape.B << " T " << shape.T << " C " << shape.C << " heads "
                                    << shape.heads);
  values const of_qkv = widened(qkv), of_dout = widened(dout);
  auto const bound = bound_of_attention(of_dout, of_qkv, shape, exact);
  values const out = oracle::attention_forward(of_qkv, shape);
  values const dqkv = oracle::attention_backward(of_dout, of_qkv, shape);
  auto const whole = explicit_attention(world, qkv, dout, shape);
  expect_close(whole.probabilities, oracle::attention_probabilities(of_qkv, shape), bound.probabilities,
               "probabilities");
  expect_close(whole.out, out, bound.out, "out");
  expect_close(whole.dqkv, dqkv, bound.dqkv, "dqkv");
  auto const tiled = tiled_attention(world, qkv, dout, shape);
  expect_close(tiled.out, out, bound.out, "tiled out");
  expect_close(tiled.dqkv, dqkv, bound.dqkv, "tiled dqkv");
  expect_close(tiled.out, widened(whole.out), bound.out, "out of both ways");
  expect_close(tiled.dqkv, widened(whole.dqkv), bound.dqkv, "dqkv of both ways");
}

TEST_F(Attention, MatchesTheOracle) {
  for (attention_shape const& shape :
       {attention_shape{1, 1, 1, 1}, attention_shape{2, 2, 6, 3}, attention_shape{2, 7, 15, 3},
        attention_shape{3, 33, 33, 1}, attention_shape{1, 9, 512, 8}, attention_shape{4, 40, 20, 5}}) {
    expect_attention(world, random(3 * shape.rows() * shape.C), random(shape.rows() * shape.C), shape);
  }
}

TEST_F(Attention, MatchesTheOracleAroundTheBordersOfTiles) {
  for (int const T : {63, 64, 65, 127, 128, 129, 256, 257, 320, 321}) {
    attention_shape const shape{1, T, 10, 2};
    expect_attention(world, random(3 * shape.rows() * shape.C), random(shape.rows() * shape.C), shape);
  }
  attention_shape const shape{1, 300, 32, 2};
  expect_attention(world, random(3 * shape.rows() * shape.C), random(shape.rows() * shape.C), shape);
}

TEST_F(Attention, MatchesTheOracleForTwoTilesOfKeysAndMore) {
  attention_shape const shape{2, 530, 4, 1};
  expect_attention(world, random(3 * shape.rows() * shape.C), random(shape.rows() * shape.C), shape);
}

/// Queries of 1 and keys such that the score of key t is `score(t)`, with one head of width 1.
template <typename Score>
std::vector<float> qkv_with_scores(random_values& random, int T, Score score) {
  auto qkv = random(3 * T);
  for (int t = 0; t < T; ++t) {
    qkv[3 * t] = 1;
    qkv[3 * t + 1] = score(t);
  }
  return qkv;
}

TEST_F(Attention, StandsLargeScores) {
  for (int const T : {7, 70, 300}) {
    attention_shape const shape{1, T, 1, 1};
    auto const expect = [&](auto score) {
      expect_attention(world, qkv_with_scores(random, T, score), random(T), shape, true);
    };
    expect([](int) { return 80.0F; });
    expect([](int) { return -1000.0F; });
    expect([](int t) { return t % 2 == 0 ? 80.0F : -80.0F; });
    expect([](int t) { return t == 0 ? 0.0F : -1e30F; });          // all but the first key vanish
    expect([T](int t) { return t == T - 1 ? 0.0F : -1000.0F; });   // a late key outdoes all before
    expect([](int t) { return static_cast<float>(t) * 0.5F; });    // every tile brings a new highest
    expect([](int t) { return static_cast<float>(-t) * 0.5F; });   // none does
    expect([](int t) { return static_cast<float>(t % 50) * 8; });  // beyond the range of one exponential
  }
}

TEST_F(Attention, EqualScoresGiveTheMeanHoweverLarge) {
  int const T = 300;
  attention_shape const shape{1, T, 1, 1};
  for (float const score : {0.0F, 80.0F, -80.0F, 1e30F, -1e30F}) {
    auto qkv = qkv_with_scores(random, T, [score](int) { return score; });
    for (int t = 0; t < T; ++t) qkv[3 * t + 2] = static_cast<float>(t);
    std::vector<float> const dout(T, 1.0F);
    for (auto const& attention : {explicit_attention, tiled_attention}) {
      auto const out = attention(world, qkv, dout, shape).out;
      for (int t = 0; t < T; ++t) EXPECT_NEAR(out[t], t / 2.0, t / 2.0 * (growth(T) + 4) * unit) << score;
    }
  }
}

TEST_F(Attention, NoQuerySeesWhatComesLater) {
  attention_shape const shape{1, 130, 6, 2};
  int const changed = 100, per_token = 3 * shape.C;
  auto const qkv = random(3 * shape.rows() * shape.C), dout = random(shape.rows() * shape.C);
  auto other = qkv;
  for (std::size_t i = changed * per_token; i < other.size(); ++i) other[i] += 1;
  auto const unseen = static_cast<std::ptrdiff_t>(changed) * shape.C;
  for (auto const& attention : {explicit_attention, tiled_attention}) {
    auto const a = attention(world, qkv, dout, shape).out, b = attention(world, other, dout, shape).out;
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + unseen, b.begin()));
    EXPECT_FALSE(std::equal(a.begin() + unseen, a.end(), b.begin() + unseen));
  }
}

TEST_F(Attention, DoesNotHideNans) {
  attention_shape const shape{2, 70, 4, 2};
  auto const clean = random(3 * shape.rows() * shape.C), dout = random(shape.rows() * shape.C);
  for (int const which : {0, 1, 2}) {
    auto qkv = clean;
    qkv[(3 * shape.C) * 20 + which * shape.C] = not_a_number;  // head 0 of token 20 of the first sequence
    for (auto const& attention : {explicit_attention, tiled_attention}) {
      auto const result = attention(world, qkv, dout, shape);
      EXPECT_TRUE(std::isnan(result.out[20 * shape.C])) << which;
      EXPECT_TRUE(std::isnan(result.dqkv[20 * 3 * shape.C])) << which;
      EXPECT_EQ(std::isnan(result.out[60 * shape.C]), which != 0) << which;
      for (int t = 0; t < shape.T; ++t) {
        EXPECT_FALSE(std::isnan(result.out[t * shape.C + 2])) << "the other head";
        EXPECT_FALSE(std::isnan(result.out[(shape.T + t) * shape.C])) << "the other sequence";
      }
    }
  }
}

}  // namespace
}  // namespace ferry::nn::testing
