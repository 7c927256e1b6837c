// What must not go wrong: tensors that cannot be moved, steps that have ended, sessions that have gone, budgets that
// are too small, engines of others.
#include <torch/csrc/autograd/engine.h>

#include "torch/support.hpp"

namespace ferry::torch::testing {
namespace {

using ::testing::HasSubstr;

at::Tensor leaf(std::vector<std::int64_t> const& sizes) { return at::randn(sizes).set_requires_grad(true); }

std::string message_of(auto const& call) {
  try {
    call();
  } catch (std::exception const& problem) {
    return problem.what();
  }
  return "no exception";
}

TEST(TorchBadInput, SparseTensorsAreLeftAloneAndCounted) {
  auto session = make_session();
  session.begin_step();
  offload_guard const guard{session};
  auto const sparse = at::eye(64).to_sparse();
  auto const w = leaf({64, 64});
  auto const y = at::_sparse_mm(sparse, w).sum();
  EXPECT_GT(session.adapter().count(left_alone::no_storage), 0U);
  y.backward();
  EXPECT_TRUE(same_bits(w.grad(), at::ones({64, 64})));
}

TEST(TorchBadInput, TensorsOfOtherKindsAreLeftAloneAndCounted) {
  auto session = make_session();
  session.begin_step();
  offload_guard const guard{session};
  struct keeper : ::torch::autograd::Function<keeper> {
    static at::Tensor forward(::torch::autograd::AutogradContext* context, at::Tensor const& x,
                              at::Tensor const& extra) {
      context->save_for_backward({extra});
      return x.clone();
    }
    static ::torch::autograd::tensor_list backward(::torch::autograd::AutogradContext* context,
                                                   ::torch::autograd::tensor_list gradients) {
      EXPECT_EQ(context->get_saved_variables().size(), 1U);
      return {gradients[0], at::Tensor()};
    }
  };
  auto const x = leaf({4});
  auto const quantized = at::quantize_per_tensor(at::randn({64, 64}), 0.1, 0, at::kQInt8);
  auto const meta = at::empty({64, 64}, at::TensorOptions(at::kMeta));
  keeper::apply(x, quantized).sum().backward();
  keeper::apply(x, meta).sum().backward();
  keeper::apply(x, at::empty({0, 64})).sum().backward();
  keeper::apply(x, at::ones({})).sum().backward();
  auto const did = session.adapter();
  EXPECT_EQ(did.count(left_alone::quantized), 1U);
  EXPECT_EQ(did.count(left_alone::no_storage), 1U);
  EXPECT_EQ(did.count(left_alone::small), 2U);
  EXPECT_EQ(did.seen, 4U);
  EXPECT_EQ(did.stored, 0U);
}

TEST(TorchBadInput, OutsideAStepNothingIsStored) {
  auto session = make_session({.policy = "offload"});
  offload_guard const guard{session};
  auto const w = leaf({64, 64});
  (w * 1).exp().sum().backward();
  EXPECT_EQ(session.adapter().count(left_alone::outside_step), 1U);
  session.begin_step();
  (w * 1).exp().sum().backward();
  EXPECT_EQ(session.adapter().stored, 1U) << "a guard may stand around many steps";
  session.end_step();
}

TEST(TorchBadInput, AStepThatIsLeftByAnExceptionIsAbandoned) {
  auto session = make_session({.policy = "offload"});
  auto const w = leaf({64, 64});
  auto const step = [&](bool fails) {
    session::step_scope scope(session);
    at::Tensor loss;
    {
      offload_guard const guard{session};
      loss = (w * 1).exp().sum();
    }
    if (fails) throw std::runtime_error("the loss is no number");
    loss.backward();
    scope.end();
  };
  EXPECT_THROW(step(true), std::runtime_error);
  EXPECT_NO_THROW(step(false)) << "the session goes on";
  EXPECT_EQ(session.adapter().stored, 2U);
}

TEST(TorchBadInput, BackwardAfterTheStepSaysWhatToDo) {
  for (std::string const policy : {"keep", "offload"}) {
    auto session = make_session({.policy = policy});
    auto const w = leaf({64, 64});
    session.begin_step();
    at::Tensor loss;
    {
      offload_guard const guard{session};
      loss = (w * 1).exp().sum();
    }
    session.end_step();
    EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("run backward before end_step"));
    session.begin_step();  // the same names are given again, to others
    {
      offload_guard const guard{session};
      auto const other = (w * 2).exp().sum();
      EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("has ended"));
      other.backward();
    }
    session.end_step();
  }
}

TEST(TorchBadInput, ATensorThatCameBackOutlivesStepAndSession) {
  auto const w = leaf({64, 64});
  at::Tensor back;
  at::Tensor expected;
  {
    auto session = make_session({.policy = "offload"});
    session.begin_step();
    at::Tensor kept;
    {
      offload_guard const guard{session};
      auto const h = (w * 1).exp();
      expected = h.detach().clone();
      kept = h * w;  // saves h
    }
    settle(session);
    // The gradient for w is h times ones: with create_graph it saves h again, as it came back.
    auto const gradient = ::torch::autograd::grad({kept.sum()}, {w}, {}, true, true)[0];
    struct peek : ::torch::autograd::Function<peek> {
      static at::Tensor forward(::torch::autograd::AutogradContext* context, at::Tensor const& x) {
        context->save_for_backward({x});
        return x.clone();
      }
      static ::torch::autograd::tensor_list backward(::torch::autograd::AutogradContext* context,
                                                     ::torch::autograd::tensor_list gradients) {
        held() = context->get_saved_variables()[0].detach();
        return gradients;
      }
      static at::Tensor& held() {
        static at::Tensor tensor;
        return tensor;
      }
    };
    at::Tensor loss;
    {
      offload_guard const guard{session};
      auto const h = (w * 1).exp();
      loss = peek::apply(h).sum();
    }
    settle(session);
    loss.backward();
    back = std::exchange(peek::held(), {});
    session.end_step();
    session.begin_step();
    session.end_step();
  }
  EXPECT_TRUE(same_bits(back, expected));
}

TEST(TorchBadInput, BackwardGoesOnWhenTheSessionHasGone) {
  auto const w = leaf({64, 64});
  auto const forward = [&] { return ((w * 1).exp() * w).sum(); };
  forward().backward();
  auto const plain = take_gradients({w});
  at::Tensor loss;
  {
    auto session = make_session({.policy = "offload"});
    session.begin_step();
    offload_guard const guard{session};
    loss = forward();
    settle(session);
  }
  loss.backward();
  EXPECT_TRUE(same_bits(plain, take_gradients({w})));
}

TEST(TorchBadInput, ABudgetTooSmallIsNamed) {
  auto session = make_session({.policy = "keep", .budget_bytes = 20 << 10});
  session.begin_step();
  offload_guard const guard{session};
  auto const h = (leaf({64, 64}) * 1).exp();  // 16 KiB
  EXPECT_THAT(message_of([&] { static_cast<void>(h.sin().exp()); }), HasSubstr("FERRY_BUDGET"));
}

TEST(TorchBadInput, ArgumentsAreChecked) {
  EXPECT_THROW(session(std::shared_ptr<device>(), config{}), invalid_argument);
  auto session = make_session();
  EXPECT_THROW(offload_guard(session, {.least_share = 2}), invalid_argument);
  EXPECT_THROW(static_cast<void>(checkpoint(tensor_function(), tensor_list{})), invalid_argument);
  EXPECT_THROW(session.end_step(), error);
  session.leave_alone(at::Tensor());
  session.leave_alone(at::eye(3).to_sparse());
  EXPECT_THAT(message_of([] { ferry::torch::session on_addresses_only(make_sim_device(), config{}); }),
              HasSubstr("FERRY_DEVICE=host"));
}

/// What Python's interpreter puts in force.
struct foreign_engine final : ::torch::autograd::Engine {
  static ::torch::autograd::Engine& instance() {
    static auto* const only = new foreign_engine;
    return *only;
  }
};

TEST(TorchBadInput, AnotherEngineIsFoundOut) {
  auto session = make_session();
  { offload_guard const guard{session}; }
  auto& before = ::torch::autograd::Engine::get_default_engine();
  static ::torch::autograd::Engine* original;
  original = &before;
  ::torch::autograd::set_default_engine_stub(&foreign_engine::instance);
  EXPECT_THAT(message_of([&] { offload_guard const guard{session}; }), HasSubstr("Python"));
  ::torch::autograd::set_default_engine_stub([]() -> ::torch::autograd::Engine& { return *original; });
  EXPECT_NO_THROW(offload_guard{session});
}

}  // namespace
}  // namespace ferry::torch::testing
