// checkpoint: what a function saves is rebuilt in backward, and nobody can tell from the results.
#include <ATen/autocast_mode.h>

#include "torch/support.hpp"

namespace ferry::torch::testing {
namespace {

using ::testing::HasSubstr;

struct chain {
  std::vector<at::Tensor> weights;
  at::Tensor x;

  explicit chain(int blocks) {
    ::torch::manual_seed(5);
    for (int i = 0; i < blocks; ++i) weights.push_back((at::randn({48, 48}) * 0.2).set_requires_grad(true));
    x = at::randn({32, 48});
  }
  static at::Tensor block(at::Tensor const& w, at::Tensor const& h) {
    return h + at::dropout(h.mm(w).tanh(), 0.25, true).mm(w);
  }
  [[nodiscard]] at::Tensor plain() const {
    auto h = x;
    for (auto const& w : weights) h = block(w, h);
    return h.pow(2).sum();
  }
  [[nodiscard]] at::Tensor checkpointed() const {
    auto h = x;
    for (auto const& w : weights) {
      h = checkpoint([w](at::Tensor const& in) { return block(w, in); }, h);
    }
    return h.pow(2).sum();
  }
  struct result {
    at::Tensor loss;
    std::vector<at::Tensor> gradients;
    at::Tensor random;
  };
  [[nodiscard]] result run(auto const& forward) const {
    ::torch::manual_seed(6);
    auto const loss = forward();
    loss.backward();
    return {loss.detach(), take_gradients(weights), random_state()};
  }
  static void expect_same(result const& a, result const& b) {
    EXPECT_TRUE(same_bits(a.loss, b.loss));
    EXPECT_TRUE(same_bits(a.gradients, b.gradients));
    EXPECT_TRUE(same_bits(a.random, b.random));
  }
};

TEST(TorchCheckpoint, WorksWithoutAGuard) {
  chain const model(3);
  chain::expect_same(model.run([&] { return model.plain(); }), model.run([&] { return model.checkpointed(); }));
}

TEST(TorchCheckpoint, EveryPolicyGivesTheSameBits) {
  chain const model(6);
  auto const plain = model.run([&] { return model.plain(); });
  for (std::string const policy : {"keep", "offload", "recompute", "every=2", "sqrt", "selective", "auto"}) {
    SCOPED_TRACE(policy);
    auto session = make_session({.policy = policy, .budget_bytes = 96 << 10});
    for (int step = 0; step < 4; ++step) {
      session.begin_step();
      auto const result = model.run([&] {
        offload_guard const guard{session};
        return model.checkpointed();
      });
      session.end_step();
      chain::expect_same(plain, result);
    }
    auto const did = session.adapter();
    EXPECT_EQ(did.recomputations, 6U * 4) << "each block once a step, however many of its tensors were asked for";
    EXPECT_EQ(did.stored, 7U * 4) << "the blocks' inputs, and what pow saves; nothing from inside a block";
    if (policy == "every=2") {
      EXPECT_GT(session.stats().recomputes, 0U) << "inputs rebuilt by the block before";
    }
  }
}

TEST(TorchCheckpoint, ASlowLinkIsReplacedByTheBlockBefore) {
  chain const model(6);
  auto const plain = model.run([&] { return model.plain(); });
  auto session = make_session({.budget_bytes = 128 << 10, .host_to_device = {0.0005, 0}});
  auto step = [&](placement where, bool last_input_stays) {
    session.with([&](ferry::session& core) {
      core.set_placement([=](item_info const& item) {
        bool const anchor = item.key.segment == 0 || (last_input_stays && item.key.segment == 2);
        return anchor ? placement::keep : where;
      });
    });
    session.begin_step();
    auto const result = model.run([&] {
      at::Tensor loss;
      {
        offload_guard const guard{session};
        loss = model.checkpointed();
      }
      settle(session);
      return loss;
    });
    session.end_step();
    chain::expect_same(plain, result);
  };
  step(placement::recompute, true);  // measures the recipes
  step(placement::offload, true);
  auto const stats = session.stats();
  EXPECT_GT(stats.count(reason::recomputed_sooner_than_transfer) + stats.count(reason::recomputed_rows_still_missing),
            0U)
      << session.explain();
}

TEST(TorchCheckpoint, Nests) {
  chain const model(4);
  auto const plain = model.run([&] { return model.plain(); });
  auto const nested = [&] {
    auto h = model.x;
    for (int half = 0; half < 2; ++half) {
      h = checkpoint(
          [&model, half](at::Tensor const& in) {
            auto inner = in;
            for (int i = 0; i < 2; ++i) {
              auto const w = model.weights[static_cast<std::size_t>(2 * half + i)];
              inner = checkpoint([w](at::Tensor const& deeper) { return chain::block(w, deeper); }, inner);
            }
            return inner;
          },
          h);
    }
    return h.pow(2).sum();
  };
  chain::expect_same(plain, model.run(nested));
  auto session = make_session({.policy = "offload", .budget_bytes = 96 << 10});
  session.begin_step();
  chain::expect_same(plain, model.run([&] {
    offload_guard const guard{session};
    return nested();
  }));
  EXPECT_EQ(session.adapter().stored, 3U) << "the outer blocks' inputs, and what pow saves";
  session.end_step();
}

TEST(TorchCheckpoint, SeveralInputsAndOutputsOfEveryKind) {
  ::torch::manual_seed(7);
  auto const a = at::randn({40, 40}).set_requires_grad(true);
  auto const b = at::randn({40, 40});
  auto const index = at::randint(0, 40, {40}, at::kLong);
  tensor_function const compute = [](tensor_list const& in) -> tensor_list {
    auto const h = in[0].mm(in[1]).sin();
    auto const optional = in[3].defined() ? h + in[3] : h;
    return {optional.index_select(0, in[2]), h.argmax(1), h.exp(), in[1] * 2};
  };
  auto const loss = [](tensor_list const& out) { return (out[0] * out[3]).sum() + out[2].sum() + out[1].sum(); };
  tensor_list const inputs{a, b, index, at::Tensor()};
  loss(compute(inputs)).backward();
  auto const plain = take_gradients({a});
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  offload_guard const guard{session};
  auto const out = checkpoint(compute, inputs);
  EXPECT_EQ(out.size(), 4U);
  EXPECT_FALSE(out[1].requires_grad());
  EXPECT_FALSE(out[3].requires_grad());
  loss(out).backward();
  EXPECT_TRUE(same_bits(plain, take_gradients({a})));
  {
    ::torch::NoGradGuard const no_grad;
    EXPECT_TRUE(same_bits(checkpoint(compute, inputs), out)) << "without gradients it is just a call";
  }
}

TEST(TorchCheckpoint, DoubleBackwardAndKeptGraphsWork) {
  chain const model(2);
  auto const second = [&](auto const& forward) {
    ::torch::manual_seed(8);
    auto const first = ::torch::autograd::grad({forward()}, {model.weights[0]}, {}, true, true)[0];
    (first * first).sum().backward();
    return take_gradients(model.weights);
  };
  auto const plain = second([&] { return model.plain(); });
  EXPECT_TRUE(same_bits(plain, second([&] { return model.checkpointed(); })));
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  EXPECT_TRUE(same_bits(plain, second([&] {
                          offload_guard const guard{session};
                          return model.checkpointed();
                        })));
  at::Tensor loss;
  {
    offload_guard const guard{session};
    loss = model.checkpointed();
  }
  loss.backward({}, true);
  auto const once = take_gradients(model.weights);
  loss.backward();
  EXPECT_TRUE(same_bits(once, take_gradients(model.weights)));
  session.end_step();
}

TEST(TorchCheckpoint, AutocastIsAsItWas) {
  auto const w = at::randn({32, 32}).set_requires_grad(true);
  auto const x = at::randn({32, 32});
  auto const run = [&](bool with_checkpoint) {
    auto const compute = [&](at::Tensor const& in) { return in.mm(w).tanh().mm(w); };
#if TORCH_VERSION_MAJOR >= 2
    auto const set = [](bool on) { at::autocast::set_autocast_enabled(at::kCPU, on); };
#else
    auto const set = [](bool on) { at::autocast::set_cpu_enabled(on); };
#endif
    set(true);
    auto const out = with_checkpoint ? checkpoint(compute, x) : compute(x);
    at::autocast::clear_cache();
    set(false);
    EXPECT_EQ(out.scalar_type(), at::kBFloat16);
    out.to(at::kFloat).sum().backward();
    return take_gradients({w});
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST(TorchCheckpoint, RunningStatisticsMoveOnceIfNamed) {
  auto const run = [](int kind) {
    ::torch::manual_seed(9);
    ::torch::nn::Sequential block(::torch::nn::Linear(16, 16), ::torch::nn::BatchNorm1d(16), ::torch::nn::ReLU());
    auto const x = at::randn({64, 16});
    auto const compute = [&](tensor_list const& in) { return tensor_list{block->forward(in[0])}; };
    checkpoint_options options;
    if (kind == 2) options.buffers = block->buffers();
    auto const out = kind == 0 ? compute({x}) : checkpoint(compute, {x}, options);
    out[0].pow(2).sum().backward();
    auto all = take_gradients(block->parameters());
    for (auto const& buffer : block->buffers()) all.push_back(buffer.clone());
    return all;
  };
  EXPECT_TRUE(same_bits(run(0), run(2)));
  auto const unnamed = run(1);
  EXPECT_FALSE(same_bits(run(0), unnamed)) << "the test can tell";
}

TEST(TorchCheckpoint, AFunctionThatDoesSomethingElseTheSecondTimeIsFoundOut) {
  auto const x = at::randn({32, 32}).set_requires_grad(true);
  auto const others = std::vector<std::function<at::Tensor(at::Tensor const&)>>{
      [](at::Tensor const& in) { return in.slice(0, 0, 16).exp(); },  // of another shape
      [](at::Tensor const& in) { return in + 1; }};                   // saves nothing
  for (auto const& other : others) {
    int calls = 0;
    auto const out = checkpoint([&](at::Tensor const& in) { return ++calls == 1 ? in.exp().exp() : other(in); }, x);
    try {
      out.sum().backward();
      FAIL();
    } catch (recipe_error const& problem) {
      EXPECT_THAT(problem.what(), HasSubstr("run again"));
    }
    EXPECT_EQ(calls, 2);
  }
}

TEST(TorchCheckpoint, AnInputChangedInPlaceRaises) {
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  offload_guard const guard{session};
  auto const w = at::randn({64, 64}).set_requires_grad(true);
  auto h = w * 1;
  auto const out = checkpoint([](at::Tensor const& in) { return in.sin().exp(); }, h).sum();
  h.add_(1);
  EXPECT_THROW(out.backward(), c10::Error);
}

TEST(TorchCheckpoint, StopsWithTheLastTensorThatIsNeeded) {
  auto const x = at::randn({32, 32}).set_requires_grad(true);
  for (bool const early : {true, false}) {
    int reached = 0;
    tensor_function const compute = [&](tensor_list const& in) {
      auto const made = in[0].sin().exp() + 1;
      ++reached;
      return tensor_list{made};
    };
    checkpoint(compute, {x}, {.stop_early = early})[0].sum().backward();
    EXPECT_EQ(reached, early ? 1 : 2);
  }
}

}  // namespace
}  // namespace ferry::torch::testing
