// The guard: which saved tensors become items, how often, for how long; and that gradients do not notice.
#include <atomic>
#include <thread>

#include "torch/support.hpp"

namespace ferry::torch::testing {
namespace {

at::Tensor leaf(std::vector<std::int64_t> const& sizes) { return at::randn(sizes).set_requires_grad(true); }

TEST(TorchGuard, OffloadsAndGivesTheSameGradients) {
  ::torch::manual_seed(1);
  auto const w = leaf({64, 64});
  auto const x = at::randn({64, 64});
  auto const forward = [&] { return (x.mm(w).tanh().mm(w).sigmoid() * 2).sum(); };
  forward().backward();
  auto const plain = take_gradients({w});

  auto session = make_session({.policy = "offload", .budget_bytes = 256 << 10});
  session.begin_step();
  at::Tensor loss;
  {
    offload_guard const guard{session};
    loss = forward();
  }
  settle(session);
  loss.backward();
  EXPECT_TRUE(same_bits(plain, take_gradients({w})));
  auto const did = session.adapter();
  EXPECT_EQ(did.stored, 3U) << "x, and the results of tanh and sigmoid";
  EXPECT_GT(did.back_from_ferry, 0U);
  EXPECT_GT(did.count(left_alone::parameter), 0U);
  session.end_step();
  EXPECT_GT(session.stats().device_to_host.bytes, 0U);
  EXPECT_EQ(session.stats().count(reason::unused_at_end_of_step), 0U) << "every item was released as backward went on";
}

TEST(TorchGuard, TransposedWeightsAreRecognisedAsParameters) {
  auto const w = leaf({64, 64});
  auto session = make_session();
  session.begin_step();
  offload_guard const guard{session};
  auto const y = at::randn({64, 64}).set_requires_grad(true).mm(w.t());
  auto const did = session.adapter();
  EXPECT_EQ(did.stored, 0U) << "one operand is a leaf, the other a view of a parameter";
  EXPECT_EQ(did.count(left_alone::parameter), 2U);
}

TEST(TorchGuard, OneStorageIsStoredOnceHoweverItIsSaved) {
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  auto const base = leaf({64, 64}) * 1;
  at::Tensor loss;
  auto gradient_of = [&](at::Tensor const& h) {
    return (h * h.t() + h.view({64 * 64}).view({64, 64}).exp()).sum() + (h[0].expand({64, 64}) * h).sum();
  };
  auto const plain = ::torch::autograd::grad({gradient_of(base)}, {base});
  {
    offload_guard const guard{session, {.least_share = 0}};
    loss = gradient_of(base);
  }
  auto const did = session.adapter();
  EXPECT_EQ(did.stored, 2U) << "base, and exp's result";
  EXPECT_GE(did.deduplicated, 3U) << "its transpose, itself again, an expanded row";
  settle(session);
  EXPECT_TRUE(same_bits(plain, ::torch::autograd::grad({loss}, {base})));
}

TEST(TorchGuard, PartsThatAreNoViewsMayBeWrittenOneAfterTheOther) {
  ::torch::manual_seed(3);
  auto const x = leaf({64, 256});
  auto session = make_session({.policy = "offload"});
  // Each part is saved as soon as it is written, and versions of its own hide the writes from the others.
  auto const gates = [&](bool ferried) {
    std::vector<at::Tensor> parts = (x * 1).unsafe_chunk(4, 1);
    for (auto& part : parts) {
      part.sigmoid_();
      if (ferried) settle(session);
    }
    return (parts[0] * parts[1] + parts[2] * parts[3]).sum();
  };
  gates(false).backward();
  auto const plain = take_gradients({x});

  session.begin_step();
  at::Tensor loss;
  {
    offload_guard const guard{session};
    loss = gates(true);
  }
  settle(session);
  loss.backward();
  EXPECT_TRUE(same_bits(plain, take_gradients({x})));
  EXPECT_GT(session.adapter().count(left_alone::slice), 0U);
  session.end_step();
}

TEST(TorchGuard, AStorageThatHasLeftIsStillKnown) {
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  offload_guard const guard{session};
  auto const h = leaf({64, 64}) * 1;
  auto const a = h.exp();  // saves its result
  auto const b = a * a;
  settle(session);
  EXPECT_EQ(session.stats().pinned.now_bytes, 64U * 64 * 4);
  auto const c = a.sin();
  EXPECT_EQ(session.adapter().stored, 1U) << "saved again after its bytes had gone to the host";
}

TEST(TorchGuard, MemoryGoesWhenItHasLeftAndComesBackForBackward) {
  auto session = make_session({.policy = "offload"});
  auto const gone = std::make_shared<bool>(false);
  auto const w = leaf({64, 64});
  session.begin_step();
  at::Tensor loss;
  at::Tensor expected;
  {
    offload_guard const guard{session};
    auto const x = watched({64, 64}, gone);
    expected = x.clone();
    loss = (x * w).sum();
  }
  settle(session);
  EXPECT_TRUE(*gone) << "nobody but the host copy holds the bytes";
  loss.backward();
  EXPECT_TRUE(same_bits(w.grad(), expected));
  session.end_step();
}

TEST(TorchGuard, WhatIsNeverUsedIsReleasedWithItsGraph) {
  for (std::string const policy : {"keep", "offload"}) {
    auto session = make_session({.policy = policy});
    auto const gone = std::make_shared<bool>(false);
    session.begin_step();
    {
      offload_guard const guard{session};
      auto const y = watched({64, 64}, gone) * leaf({64, 64});
      EXPECT_EQ(session.adapter().stored, 1U);
    }
    settle(session);
    EXPECT_TRUE(*gone) << policy;
    EXPECT_EQ(session.stats().device.now_bytes, 0U) << policy;
    EXPECT_EQ(session.stats().pinned.now_bytes, 0U) << policy;
    session.end_step();
  }
}

TEST(TorchGuard, ChangesInPlaceRaiseAsWithoutIt) {
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  offload_guard const guard{session};
  auto const w = leaf({64, 64});
  auto h = w * 1;
  auto const stored = h.exp();
  auto const loss = (stored * h).sum();
  h.add_(1);
  EXPECT_THROW(loss.backward(), c10::Error);

  auto const small = leaf({2, 2});  // the same of one that is left alone
  auto g = small * 1;
  auto const other = (g * g).sum();
  g.add_(1);
  EXPECT_THROW(other.backward(), c10::Error);
}

TEST(TorchGuard, AChangedTensorIsStoredAnew) {
  auto const w = leaf({64, 64});
  auto const forward = [&] {
    auto h = w * 1;
    auto const a = h.sin().sum();
    h = h.detach();
    h.add_(1);
    return a + (h * w).sum();
  };
  // sin saved what was then overwritten: both ways say so.
  EXPECT_THROW(forward().backward(), c10::Error);
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  offload_guard const guard{session};
  auto const loss = forward();
  EXPECT_EQ(session.adapter().stored, 2U);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(TorchGuard, BuffersAreLeftAloneOnceNamed) {
  ::torch::nn::BatchNorm1d norm(2048);
  auto session = make_session();
  session.begin_step();
  {
    offload_guard const guard{session};
    auto const y = norm->forward(at::randn({4, 2048}));
  }
  auto const before = session.adapter();
  EXPECT_EQ(before.count(left_alone::excluded), 0U);
  session.leave_alone(*norm);
  {
    offload_guard const guard{session};
    auto const y = norm->forward(at::randn({4, 2048}));
  }
  auto const after = session.adapter();
  EXPECT_EQ(after.count(left_alone::excluded), 2U) << "running mean and variance";
  EXPECT_EQ(after.stored - before.stored, before.stored - 2);
}

TEST(TorchGuard, SlicesDoNotMoveTheirWholeStorage) {
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  offload_guard const guard{session};
  auto const data = at::randn({100, 64, 64});
  auto const w = leaf({64, 64});
  auto const y = data[3] * w;
  auto const did = session.adapter();
  EXPECT_EQ(did.count(left_alone::slice), 1U);
  EXPECT_EQ(did.stored, 0U);
}

TEST(TorchGuard, TheInnermostGuardIsInForceAndPausesAreRespected) {
  auto outer = make_session();
  auto inner = make_session();
  outer.begin_step();
  inner.begin_step();
  auto const h = leaf({64, 64}) * 1;
  offload_guard const around{outer};
  auto const a = h.sin();
  {
    offload_guard const within{inner};
    auto const b = h.sin();
    {
      pause_guard const pause;
      auto const c = h.sin();
    }
    EXPECT_EQ(inner.adapter().seen, 1U);
  }
  auto const d = h.cos();
  EXPECT_EQ(outer.adapter().seen, 2U);
  EXPECT_EQ(outer.adapter().deduplicated, 1U);
}

TEST(TorchGuard, DoubleBackwardGivesTheSameBits) {
  ::torch::manual_seed(2);
  auto const w = leaf({32, 32});
  auto const x = at::randn({32, 32});
  auto const second = [&] {
    auto const h = x.mm(w).tanh();
    auto const first = ::torch::autograd::grad({(h * h).sum()}, {w}, {}, true, true)[0];
    (first * first).sum().backward();
    return take_gradients({w});
  };
  auto const plain = second();
  auto session = make_session({.policy = "offload", .budget_bytes = 128 << 10});
  session.begin_step();
  {
    offload_guard const guard{session};
    EXPECT_TRUE(same_bits(plain, second()));
  }
  EXPECT_GT(session.adapter().stored, 2U);
  session.end_step();
  settle(session);
  EXPECT_EQ(session.stats().device.now_bytes, 0U);
}

TEST(TorchGuard, AKeptGraphCanBeGoneThroughTwice) {
  auto const w = leaf({64, 64});
  auto session = make_session({.policy = "offload"});
  session.begin_step();
  at::Tensor loss;
  {
    offload_guard const guard{session};
    loss = (w * 1).exp().sum();
  }
  settle(session);
  loss.backward({}, true);
  auto const once = take_gradients({w});
  loss.backward();
  EXPECT_TRUE(same_bits(once, take_gradients({w})));
  EXPECT_THROW(loss.backward(), c10::Error) << "freed, as LibTorch says itself";
}

TEST(TorchGuard, MicroBatchesAndSegmentsNameTheItems) {
  auto session = make_session();
  auto const w = leaf({64, 64});
  std::vector<std::vector<std::string>> names;
  for (int step = 0; step < 2; ++step) {
    session.begin_step();
    std::vector<at::Tensor> losses;
    for (std::uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      offload_guard guard{session, {.micro_batch = micro_batch}};
      auto h = w * 1;
      for (std::uint32_t block = 0; block < 2; ++block) {
        segment_scope const scope(block + 1);
        h = h.sin().exp();
      }
      guard.segment(7);
      losses.push_back(h.cos().sum());
    }
    auto& seen = names.emplace_back();
    session.with([&](ferry::session& core) {
      for (auto const& of : core.stats().items) seen.push_back(to_string(of.key));
    });
    std::ranges::sort(seen);
    for (auto const& loss : losses) loss.backward();  // the first of them last saved: they interleave
    session.end_step();
  }
  EXPECT_EQ(names[0], names[1]);
  auto const has = [&](std::string const& name) { return std::ranges::count(names[0], name) == 1; };
  EXPECT_TRUE(has("t0 (segment 1, micro-batch 0)"));
  EXPECT_TRUE(has("t1 (segment 1, micro-batch 1)"));
  EXPECT_TRUE(has("t0 (segment 2, micro-batch 1)"));
  EXPECT_EQ(names[0].size(), 6U) << "of each micro-batch the first sin's input, and what each exp made";
}

TEST(TorchGuard, ThreadsShareASession) {
  ::torch::manual_seed(3);
  auto session = make_session({.policy = "offload", .budget_bytes = 512 << 10});
  constexpr int threads = 4;
  std::vector<at::Tensor> weights;
  std::vector<std::vector<at::Tensor>> plain;
  auto const forward = [](at::Tensor const& w) {
    auto h = w;
    for (int i = 0; i < 6; ++i) h = h.mm(w).tanh();
    return h.sum();
  };
  for (int i = 0; i < threads; ++i) {
    weights.push_back(leaf({48, 48}));
    forward(weights.back()).backward();
    plain.push_back(take_gradients({weights.back()}));
  }
  session.begin_step();
  std::atomic<int> same{0};
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        for (int round = 0; round < 5; ++round) {
          at::Tensor loss;
          {
            offload_guard const guard{session, {.micro_batch = static_cast<std::uint32_t>(i)}};
            loss = forward(weights[i]);
          }
          std::jthread([&] { loss.backward(); }).join();  // on another thread than it was saved on
          same += same_bits(plain[i], take_gradients({weights[i]})) ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(same.load(), threads * 5);
  session.end_step();
  settle(session);
  EXPECT_EQ(session.stats().device.now_bytes, 0U);
}

}  // namespace
}  // namespace ferry::torch::testing
