// What is computed a second time, by operation: with room enough each recipe runs once where its item was dropped, and
// never for one that was kept; and what that work is worth in FLOPs and bytes, by hand.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/plan.hpp"
#include "nn/observed_ops.hpp"
#include "nn/training_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;

constexpr int layers = 4;
constexpr std::uint64_t passes = 6;  ///< three steps of two micro-batches

struct counted {
  std::map<std::string, std::uint64_t, std::less<>> calls;  ///< by operation, of all passes
  recompute_counts recipes;
  session_stats stats;

  [[nodiscard]] std::uint64_t calls_of(std::string_view operation) const {
    auto const found = calls.find(operation);
    return found == calls.end() ? 0 : found->second;
  }
  [[nodiscard]] double recipe_runs() const {
    double sum = recipes.embeddings();
    for (std::size_t i = 0; i < item_count; ++i) sum += recipes.runs(static_cast<item>(i));
    return sum;
  }
};

counted count(gpt_shape const& shape, config const& settings) {
  auto const on = make_host_device({.device_bytes = 2 * unlimited_bytes,
                                    .pinned_bytes = unlimited_bytes + 2 * staging::default_bytes,
                                    .compute_threads = 1});
  stream const compute(*on, stream_kind::compute, "compute");
  auto const real = make_host_ops(*on);
  observed_ops observed(*real);
  gpt model(*on, compute, observed, shape, small_batch);
  staging(*on, compute)
      .upload(model.parameters().data(), std::vector<float>(model.layout().floats(), 0.1F).data(),
              model.parameters().bytes());
  counted result;
  observed.observe = [&](std::string_view operation) { ++result.calls[std::string(operation)]; };
  std::vector<std::int32_t> const tokens(static_cast<std::size_t>(small_batch) * shape.context, 1);
  session session(*on, settings);
  for (std::uint64_t i = 0; i < passes / 2; ++i) {
    session.begin_step();
    for (std::uint32_t j = 0; j < 2; ++j) model.pass(session, tokens, tokens, j, 2);
    session.end_step();
  }
  on->synchronize(compute);
  result.recipes = model.recomputed();
  result.stats = session.stats();
  // The session's books agree with the model's.
  EXPECT_EQ(result.recipe_runs(), result.stats.recomputes);
  return result;
}

/// Runs of each recipe per pass: of x, of the first block's x, and of everything else that a block saves.
void expect_runs(counted const& result, attention_form attention, std::uint64_t x, std::uint64_t first_x,
                 std::uint64_t others) {
  EXPECT_EQ(result.recipes.runs(item::x), passes * x);
  EXPECT_EQ(result.recipes.embeddings(), passes * first_x);
  for (item const what : {item::ln1, item::qkv, item::att, item::heads, item::mid, item::ln2, item::fc, item::act}) {
    bool const exists = what != item::att || attention == attention_form::whole;
    EXPECT_EQ(result.recipes.runs(what), exists ? passes * others : 0) << name_of(what).view();
  }
}

class RecomputeCount : public ::testing::TestWithParam<attention_form> {
 protected:
  gpt_shape shape = small_shape(GetParam());
};

TEST_P(RecomputeCount, KeepRebuildsNothing) {
  auto const result = count(shape, session_settings({policy_kind::keep}));
  expect_runs(result, GetParam(), 0, 0, 0);
  for (char const* const operation : {"qkv", "attention projection", "fc", "gelu_forward", "mlp projection"}) {
    EXPECT_EQ(result.calls_of(operation), passes * layers) << operation;
  }
  EXPECT_EQ(result.calls_of("layernorm_forward"), passes * (2 * layers + 1));
  EXPECT_EQ(result.calls_of("embedding_forward"), passes);
}

TEST_P(RecomputeCount, OffloadRebuildsNothing) {
  expect_runs(count(shape, session_settings({policy_kind::offload})), GetParam(), 0, 0, 0);
}

/// Every block's input is kept, but for the first's, which the tokens tell; all else is rebuilt once. So no operation
/// runs more than twice per block, and the product that makes the next block's input once.
TEST_P(RecomputeCount, RecomputeRebuildsEachItemOnce) {
  auto const result = count(shape, session_settings({policy_kind::recompute}));
  expect_runs(result, GetParam(), 0, 1, layers);
  for (char const* const operation : {"qkv", "attention projection", "fc", "gelu_forward"}) {
    EXPECT_EQ(result.calls_of(operation), passes * 2 * layers) << operation;
  }
  EXPECT_EQ(result.calls_of("mlp projection"), passes * layers);
  EXPECT_EQ(result.calls_of("layernorm_forward"), passes * (4 * layers + 1));  // the last one's input is at hand
  EXPECT_EQ(result.calls_of("embedding_forward"), passes * 2);
  // Logits, and all of backward, once.
  EXPECT_EQ(result.calls_of("cross_entropy"), passes);
  EXPECT_EQ(result.calls_of("gelu_backward"), passes * layers);
}

/// The tiled form's statistics come with `heads`: its forward runs in forward and for its recipe, not a third time. Of
/// the explicit form both halves run once more.
TEST_P(RecomputeCount, AttentionRunsTwiceAtMost) {
  auto const result = count(shape, session_settings({policy_kind::recompute}));
  bool const whole = GetParam() == attention_form::whole;
  EXPECT_EQ(result.calls_of("tiled_attention_forward"), whole ? 0 : passes * 2 * layers);
  EXPECT_EQ(result.calls_of("tiled_attention_backward"), whole ? 0 : passes * layers);
  EXPECT_EQ(result.calls_of("attention_probabilities"), whole ? passes * 2 * layers : 0);
  EXPECT_EQ(result.calls_of("attention_mix"), whole ? passes * 2 * layers : 0);
  EXPECT_EQ(result.calls_of("attention_backward"), whole ? passes * layers : 0);
}

/// Kept are the x of segments that N divides, without the first: of four, N = 1 keeps three, 2 and 3 keep one.
TEST_P(RecomputeCount, CheckpointsAreNotRebuilt) {
  expect_runs(count(shape, session_settings({policy_kind::every, 1})), GetParam(), 0, 1, layers);
  expect_runs(count(shape, session_settings({policy_kind::every, 2})), GetParam(), 2, 1, layers);
  expect_runs(count(shape, session_settings({policy_kind::every, 3})), GetParam(), 2, 1, layers);
}

/// With little room what was rebuilt may have to go again, and at last what was kept: more work, which is counted.
TEST_P(RecomputeCount, LittleRoomCostsMore) {
  shape.width = 96;  // so that a block is more than a few units of the smallest budget
  auto const settings = session_settings({policy_kind::recompute});
  std::size_t const least = smallest_budget(shape, small_batch, 2, settings, unlimited_bytes);
  auto const result = count(shape, session_settings({policy_kind::recompute}, least));
  EXPECT_GT(result.recipe_runs(), passes * (1 + (GetParam() == attention_form::whole ? 8 : 7) * layers));
  EXPECT_GT(result.stats.count(reason::dropped_for_space), 0U);
}

INSTANTIATE_TEST_SUITE_P(, RecomputeCount, ::testing::Values(attention_form::tiled, attention_form::whole),
                         [](auto const& of) { return of.param == attention_form::whole ? "Explicit" : "Tiled"; });

TEST(RecomputeCounts, RehearsalsDoNotCount) {
  training_world world(small_shape());
  session on(*world.on, session_settings({policy_kind::recompute}));
  world.in_training.model().rehearse(on, 2);
  EXPECT_GT(on.stats().recomputes, 0U);
  EXPECT_EQ(world.in_training.model().recomputed().runs(item::qkv), 0U);
  EXPECT_EQ(world.in_training.model().recomputed().embeddings(), 0U);
}

/// B = 1, T = 4, C = 8: N = 4 rows of 8 features, NC = 32 floats, CC = 64. A query sees (1 + 2 + 3 + 4) / 4 = 2.5 keys.
gpt_shape hand_shape(attention_form attention) {
  return {.layers = 3, .width = 8, .heads = 2, .context = 4, .vocabulary = 10, .attention = attention};
}

struct by_hand {
  item what;
  std::size_t floats;
  double flops, bytes;
};

void expect_described(attention_form attention, std::vector<by_hand> const& expected) {
  auto const described = describe_items(hand_shape(attention), 1);
  ASSERT_EQ(described.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(name_of(expected[i].what).view());
    EXPECT_EQ(described[i].what, expected[i].what);
    EXPECT_EQ(described[i].floats, expected[i].floats);
    EXPECT_DOUBLE_EQ(described[i].flops, expected[i].flops);
    EXPECT_DOUBLE_EQ(described[i].bytes, expected[i].bytes);
  }
}

/// A product of (4, k) and (k, n) has 2 * 4 * k * n FLOPs and reads and writes both activations and the weight; a
/// LayerNorm has 8 per value, GELU 12. The tiled form: q k and its product with v, 2 * 2 * N * 2.5 * C.
TEST(RecomputeWork, OfTiledAttentionByHand) {
  expect_described(attention_form::tiled, {{item::x, 32, 2.0 * 4 * 32 * 8, 4 * (32 + 128 + 32 + 256)},
                                           {item::ln1, 32, 8 * 32, 4 * 64},
                                           {item::qkv, 96, 2.0 * 4 * 8 * 24, 4 * (32 + 96 + 192)},
                                           {item::att, 0, 0, 0},
                                           {item::heads, 32 + 8, 4 * 4 * 2.5 * 8, 4 * (96 + 32 + 8)},
                                           {item::mid, 32, 2.0 * 4 * 8 * 8, 4 * (32 + 32 + 32 + 64)},
                                           {item::ln2, 32, 8 * 32, 4 * 64},
                                           {item::fc, 128, 2.0 * 4 * 8 * 32, 4 * (32 + 128 + 256)},
                                           {item::act, 128, 12 * 128, 4 * 256}});
}

/// The probabilities: N * heads * T = 32 floats; q k, and 5 per probability that is not zero, of which there are
/// 4 * 2 * 2.5 = 20. From qkv each half needs two thirds, or one.
TEST(RecomputeWork, OfExplicitAttentionByHand) {
  auto const described = describe_items(hand_shape(attention_form::whole), 1);
  auto const& att = described[static_cast<std::size_t>(item::att)];
  EXPECT_EQ(att.floats, 32U);
  EXPECT_DOUBLE_EQ(att.flops, 2 * 4 * 2.5 * 8 + 5 * 20);
  EXPECT_DOUBLE_EQ(att.bytes, 4 * (64 + 32));
  auto const& heads = described[static_cast<std::size_t>(item::heads)];
  EXPECT_EQ(heads.floats, 32U);
  EXPECT_DOUBLE_EQ(heads.flops, 2 * 4 * 2.5 * 8);
  EXPECT_DOUBLE_EQ(heads.bytes, 4 * (32 + 32 + 32));
}

/// A block: 2048 + 256 + 1536 + 320 + 512 + 256 + 2048 + 1536 = 8512 FLOPs, explicit 8512 - 320 + 260 + 160 = 8612; the
/// logits 2 * 4 * 8 * 10 = 640. Backward is twice as much again.
TEST(RecomputeWork, OfAPassByHand) {
  EXPECT_DOUBLE_EQ(flops_of_pass(hand_shape(attention_form::tiled), 1), 3 * (3 * 8512 + 640));
  EXPECT_DOUBLE_EQ(flops_of_pass(hand_shape(attention_form::whole), 1), 3 * (3 * 8612 + 640));
  EXPECT_DOUBLE_EQ(flops_of_pass(hand_shape(attention_form::tiled), 5), 5 * 3 * (3 * 8512 + 640));
}

/// Three blocks rebuilt without their inputs, 3 * (8512 - 2048) FLOPs; and the embedding, which only moves: 3 * 32
/// floats.
TEST(RecomputeWork, OfCountsByHand) {
  recompute_counts counts;
  auto const items = describe_items(hand_shape(attention_form::tiled), 1);
  EXPECT_EQ(work_of(counts, items).flops, 0);
  EXPECT_EQ(work_of(counts, items).bytes, 0);
  for (auto const& one : items) {
    if (one.what == item::x || one.what == item::att) continue;
    for (std::uint32_t segment = 0; segment < 3; ++segment) ++*counts.counter(one.what, segment);
  }
  ++*counts.counter(item::x, 0);
  EXPECT_DOUBLE_EQ(work_of(counts, items).flops, 19392);
  EXPECT_DOUBLE_EQ(work_of(counts, items).bytes, 3 * (256 + 1280 + 544 + 640 + 256 + 1664 + 1024) + 384);
  ++*counts.counter(item::x, 2);
  EXPECT_DOUBLE_EQ(work_of(counts, items).flops, 19392 + 2048);
}

/// The same from a step that was run.
TEST(RecomputeWork, OfAStep) {
  auto shape = hand_shape(attention_form::tiled);
  shape.vocabulary = 256;
  training_world world(shape, 1);
  session on(*world.on, session_settings({policy_kind::recompute}));
  static_cast<void>(world.in_training.step(on, token_data::shipped()));
  EXPECT_DOUBLE_EQ(work_of(world.in_training.model().recomputed(), describe_items(shape, 1)).flops, 19392);
}

}  // namespace
