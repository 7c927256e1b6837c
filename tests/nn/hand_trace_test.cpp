// How much is live when: what a step holds of a small net is what one works out on paper, for every policy that is
// about forgetting; and under `sqrt` it grows with the square root of the depth.
//
// On paper. A block of explicit attention has nine items; in units of B*T*C floats they take
//
//   x 1, ln1 1, qkv 3, att 1, heads 1, mid 1, ln2 1, fc 4, act 4: together 17
//
// where att, (B, heads, T, T), is one unit because heads * T = C here. Tiled attention has no att, and heads is longer
// by its statistics, heads / C = 1/16 of a unit: eight items, 16 1/16. The next block's x is that block's item; the
// last block's output is no item, for it is used up at the turn.
//
// At the turn, when the loss is computed, there are besides the kept items the last block's output, its LayerNorm, that
// one's gradient and the logits, each of one unit (V = C, and all rows at once): 4.
//
// Backward begins each block with `act`, and with the gradients "d x" (1) and "d act" (4) of its output and of act. By
// then everything that act is built from has been built again, and stays until backward has used it: all of the block,
// and if its x had been dropped all of the block before, down to an x that was kept or to the first one, which is
// made from the tokens. From there on a block only gives back. So the most that is live is, at the first block that
// backward comes to, and at each that follows a kept x,
//
//   keep:      all four blocks:                               36 items, 4 * 17 + 5 = 73 units
//   every=1:   its block, and two x (the first is not kept):  11 items, 17 + 2 + 5 = 24
//   every=2:   its block and the one before it:               18 items, 2 * 17 + 5 = 39; the x of block 2 is one of
//   them sqrt:      the same, as sqrt(4) = 2 recompute: as every=1
//
// and at the turn keep holds 36 items, every=1 the x of blocks 1, 2 and 3, every=2 that of block 2. In its first step
// sqrt does not know the depth and keeps the x of blocks 1 and 3.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <ostream>
#include <set>
#include <string_view>
#include <vector>

#include "nn/observed_ops.hpp"
#include "nn/training_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;

constexpr int batch = 4;

gpt_shape shape_of(int layers, attention_form attention) {
  return {.layers = layers, .width = 32, .heads = 2, .context = 16, .vocabulary = 32, .attention = attention};
}
/// B*T*C floats; a multiple of what allocations are rounded to, as are the statistics.
constexpr double unit_bytes = 4.0 * batch * 16 * 32;

struct live {
  int items = 0;
  double units = 0;  ///< of device bytes, blocks that are no items included

  friend bool operator==(live const&, live const&) noexcept = default;
  friend std::ostream& operator<<(std::ostream& out, live const& one) {
    return out << one.items << " items, " << one.units << " units";
  }
};

struct step_trace {
  live turn;
  live peak;  ///< of each on its own
};

/// Runs steps without their mathematics and looks at the session whenever an operation is enqueued.
class tracer {
 public:
  tracer(gpt_shape const& shape, policy_choice policy)
      : shape_(shape),
        session_(*device_, session_settings(policy)),
        model_(*device_, stream_, observed_, shape, batch) {}

  step_trace step() {
    step_trace trace;
    bool turned = false;
    observed_.observe = [&](std::string_view operation) {
      turned = turned || operation == "cross_entropy";
      // After the turn these are recipes, which must not call the session. It looks again once the item is back.
      if (turned && operations_of_recipes().contains(operation)) return;
      live const now = look();
      if (operation == "cross_entropy") trace.turn = now;
      trace.peak = {std::max(trace.peak.items, now.items), std::max(trace.peak.units, now.units)};
    };
    std::vector<std::int32_t> const tokens(static_cast<std::size_t>(batch) * shape_.context);
    session_.begin_step();
    model_.pass(session_, tokens, tokens, 0, 1);
    session_.end_step();
    observed_.observe = [](std::string_view) {};
    return trace;
  }

  double peak_units() { return static_cast<double>(session_.stats().device.peak_bytes) / unit_bytes; }
  void rehearse(std::uint32_t micro_batches) { model_.rehearse(session_, micro_batches); }

 private:
  static std::set<std::string_view> const& operations_of_recipes() {
    static std::set<std::string_view> const names{"embedding_forward",
                                                  "layernorm_forward",
                                                  "qkv",
                                                  "attention_probabilities",
                                                  "attention_mix",
                                                  "tiled_attention_forward",
                                                  "attention projection",
                                                  "fc",
                                                  "gelu_forward",
                                                  "mlp projection"};
    return names;
  }

  live look() {
    live now;
    for (std::uint32_t layer = 0; layer < static_cast<std::uint32_t>(shape_.layers); ++layer) {
      for (std::size_t i = 0; i < item_count; ++i) {
        if (session_.state({0, layer, name_of(static_cast<item>(i))}) == item_state::resident) ++now.items;
      }
    }
    now.units = static_cast<double>(session_.stats().device.now_bytes) / unit_bytes;
    return now;
  }

  gpt_shape shape_;
  std::unique_ptr<host_device> device_ = make_host_device(
      {.device_bytes = std::size_t{32} << 20, .pinned_bytes = std::size_t{16} << 20, .compute_threads = 1});
  stream stream_{*device_, stream_kind::compute, "compute"};
  std::unique_ptr<ops> idle_ = make_idle_ops();
  observed_ops observed_{*idle_};
  session session_;
  gpt model_;
};

struct paper {
  policy_choice policy;
  std::array<int, 2> kept;  ///< items at the turn of the first step and of the second
  int items;                ///< the most
  int blocks;               ///< of these so many whole ones,
  int inputs;               ///< and x of so many more
};

void expect_as_on_paper(attention_form attention, paper const& figures, int items_of_block, double units_of_block) {
  SCOPED_TRACE(::testing::Message() << "policy " << static_cast<int>(figures.policy.kind) << ", every "
                                    << figures.policy.every);
  auto const shape = shape_of(4, attention);
  tracer traced(shape, figures.policy);
  double const most_units = figures.blocks * units_of_block + figures.inputs + 5;
  bool const keeps_all = figures.policy.kind == policy_kind::keep;
  for (int const kept : figures.kept) {
    auto const trace = traced.step();
    EXPECT_EQ(trace.turn, (live{kept, (keeps_all ? 4 * units_of_block : kept) + 4}));
    EXPECT_EQ(trace.peak, (live{figures.items, most_units}));
  }
  EXPECT_EQ(figures.items, figures.blocks * items_of_block + figures.inputs);
  EXPECT_EQ(traced.peak_units(), most_units);

  // A rehearsal asks for the same; and of micro-batches, one is there at a time.
  tracer rehearsed(shape, figures.policy);
  rehearsed.rehearse(3);
  rehearsed.rehearse(3);
  EXPECT_EQ(rehearsed.peak_units(), most_units);
}

TEST(HandTrace, ExplicitAttention) {
  for (paper const& figures :
       {paper{{policy_kind::keep}, {36, 36}, 36, 4, 0}, paper{{policy_kind::every, 1}, {3, 3}, 11, 1, 2},
        paper{{policy_kind::every, 2}, {1, 1}, 18, 2, 0}, paper{{policy_kind::sqrt}, {2, 1}, 18, 2, 0},
        paper{{policy_kind::recompute}, {3, 3}, 11, 1, 2}}) {
    expect_as_on_paper(attention_form::whole, figures, 9, 17);
  }
}

TEST(HandTrace, TiledAttention) {
  for (paper const& figures :
       {paper{{policy_kind::keep}, {32, 32}, 32, 4, 0}, paper{{policy_kind::every, 1}, {3, 3}, 10, 1, 2},
        paper{{policy_kind::every, 2}, {1, 1}, 16, 2, 0}, paper{{policy_kind::sqrt}, {2, 1}, 16, 2, 0},
        paper{{policy_kind::recompute}, {3, 3}, 10, 1, 2}}) {
    expect_as_on_paper(attention_form::tiled, figures, 8, 16.0625);
  }
}

/// The second step of `sqrt` at a depth of L: the first has shown it.
step_trace second_step(int layers) {
  tracer traced(shape_of(layers, attention_form::whole), {policy_kind::sqrt});
  traced.step();
  return traced.step();
}

/// With s = sqrt(L): kept are the x of blocks s, 2s, ..., (s-1)s. Backward of the last s blocks holds them whole, and
/// s-2 x beside the one that is theirs: 17 s + s-2 + 5 = 18 s + 3 units, so that the units per sqrt(L) stay between 18
/// and 19.5. The exponent of L that fits best is a little below 1/2, for the 3; that of a net that keeps all is 1.
TEST(HandTrace, UnderSqrtMemoryGrowsAsTheRootOfTheDepth) {
  std::vector<double> x, y;
  for (int s = 2; s <= 8; ++s) {
    SCOPED_TRACE(s * s);
    auto const trace = second_step(s * s);
    EXPECT_EQ(trace.turn, (live{s - 1, s - 1 + 4.0}));
    EXPECT_EQ(trace.peak, (live{9 * s + s - 2, 18.0 * s + 3}));
    EXPECT_GE(trace.peak.units / s, 18);
    EXPECT_LE(trace.peak.units / s, 19.5);
    x.push_back(std::log(s * s));
    y.push_back(std::log(trace.peak.units));
  }
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / static_cast<double>(x.size());
    mean_y += y[i] / static_cast<double>(x.size());
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
  }
  EXPECT_GT(xy / xx, 0.4);
  EXPECT_LT(xy / xx, 0.65);
}

/// Depths that have no whole root: every ceil(sqrt(L))-th x but the first.
TEST(HandTrace, UnderSqrtAnyDepthKeepsTheRootOfIt) {
  struct depth {
    int layers, kept;
  };
  for (auto const [layers, kept] : {depth{1, 0}, depth{2, 0}, depth{3, 1}, depth{5, 1}, depth{12, 2}, depth{50, 6}}) {
    EXPECT_EQ(second_step(layers).turn.items, kept) << layers;
  }
}

}  // namespace
