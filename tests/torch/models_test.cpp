// Models written by LibTorch's conventions, trained for a few steps with and without the guard, under every kind of
// policy and budgets far below what keeping all takes: outputs, gradients, parameters, buffers and the random stream
// have the same bits.
#include <torch/version.h>

#include "torch/support.hpp"

namespace ferry::torch::testing {
namespace {

namespace nn = ::torch::nn;

/// A model as its blocks, so that the same code runs with and without checkpoints.
struct subject : nn::Module {
  nn::ModuleList blocks;
  std::vector<std::function<at::Tensor(at::Tensor const&)>> forwards;
  at::Tensor input;

  subject() : blocks(register_module("blocks", nn::ModuleList())) {}

  template <typename Block>
  void add(Block block, std::function<at::Tensor(at::Tensor const&)> forward) {
    blocks->push_back(block);
    forwards.push_back(std::move(forward));
  }
  template <typename Block>
  void add(Block block) {
    add(block, [block](at::Tensor const& h) mutable { return block->forward(h); });
  }

  at::Tensor forward(bool checkpoints) {
    auto h = input;
    for (std::size_t i = 0; i < forwards.size(); ++i) {
      if (checkpoints) {
        auto const& of = forwards[i];
        tensor_function compute = [of](tensor_list const& in) { return tensor_list{of(in[0])}; };
        h = checkpoint(std::move(compute), {h}, {.buffers = blocks[i]->buffers()})[0];
      } else {
        segment_scope const scope(static_cast<std::uint32_t>(i));
        h = forwards[i](h);
      }
    }
    return h;
  }
};

std::shared_ptr<subject> mlp_with_dropout() {
  auto made = std::make_shared<subject>();
  for (int i = 0; i < 4; ++i) {
    made->add(nn::Sequential(nn::Linear(64, 128), nn::GELU(), nn::Dropout(0.3), nn::Linear(128, 64), nn::Dropout(0.1)));
  }
  made->input = at::randn({32, 64});
  return made;
}

std::shared_ptr<subject> cnn_with_batch_norm() {
  auto made = std::make_shared<subject>();
  int channels = 3;
  for (int const next : {8, 16, 16}) {
    made->add(nn::Sequential(nn::Conv2d(nn::Conv2dOptions(channels, next, 3).padding(1)), nn::BatchNorm2d(next),
                             nn::ReLU(nn::ReLUOptions().inplace(true)), nn::MaxPool2d(2)));
    channels = next;
  }
  nn::Linear head(16 * 4, 10);
  made->add(head, [head](at::Tensor const& h) mutable { return head->forward(h.flatten(1)); });
  made->input = at::randn({8, 3, 16, 16});
  return made;
}

std::shared_ptr<subject> lstm() {
  auto made = std::make_shared<subject>();
  nn::LSTM layers(nn::LSTMOptions(32, 48).num_layers(2).dropout(0.2).batch_first(true));
  made->add(layers, [layers](at::Tensor const& h) mutable { return std::get<0>(layers->forward(h)); });
  made->add(nn::Linear(48, 16));
  made->input = at::randn({8, 12, 32});
  return made;
}

std::shared_ptr<subject> transformer_encoder() {
  auto made = std::make_shared<subject>();
  for (int i = 0; i < 3; ++i) {
    nn::TransformerEncoderLayer layer(
        nn::TransformerEncoderLayerOptions(32, 4).dim_feedforward(64).dropout(0.1).activation(::torch::kGELU));
    made->add(layer, [layer](at::Tensor const& h) mutable { return layer->forward(h); });
  }
  made->input = at::randn({12, 8, 32});
  return made;
}

struct outcome {
  std::vector<at::Tensor> tensors;  ///< outputs and gradients of every step, then parameters and buffers
  at::Tensor random;
};

constexpr int steps = 3;

outcome train(std::function<std::shared_ptr<subject>()> const& make, session* with, bool checkpoints) {
  ::torch::manual_seed(11);
  auto const model = make();
  if (with != nullptr) with->leave_alone(*model);
  ::torch::optim::SGD optimizer(model->parameters(), 0.05);
  outcome all;
  for (int step = 0; step < steps; ++step) {
    if (with != nullptr) with->begin_step();
    optimizer.zero_grad();
    for (std::uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      at::Tensor out;
      {
        std::optional<offload_guard> guard;
        if (with != nullptr) guard.emplace(*with, guard_options{.micro_batch = micro_batch});
        out = model->forward(checkpoints);
      }
      out.pow(2).mean().backward();
      all.tensors.push_back(out.detach());
    }
    if (with != nullptr) with->end_step();
    for (auto const& parameter : model->parameters()) all.tensors.push_back(parameter.grad().clone());
    optimizer.step();
  }
  for (auto const& parameter : model->parameters()) all.tensors.push_back(parameter.detach().clone());
  for (auto const& buffer : model->buffers()) all.tensors.push_back(buffer.clone());
  all.random = random_state();
  return all;
}

struct model_case {
  char const* name;
  std::shared_ptr<subject> (*make)();
  std::size_t small_budget_bytes;
};

// From 2.0 on an LSTM's layer saves one workspace of 292 KiB.
constexpr std::size_t lstm_budget_bytes = (TORCH_VERSION_MAJOR >= 2 ? 512 : 128) << 10;

void PrintTo(model_case const& one, std::ostream* to) { *to << one.name; }

class TorchModels : public ::testing::TestWithParam<model_case> {
 protected:
  void expect_same(session_options const& options, bool checkpoints) {
    SCOPED_TRACE(options.policy + (checkpoints ? " with checkpoints" : ""));
    auto const plain = train(GetParam().make, nullptr, false);
    auto session = make_session(options);
    auto const other = train(GetParam().make, &session, checkpoints);
    EXPECT_TRUE(same_bits(plain.tensors, other.tensors));
    EXPECT_TRUE(same_bits(plain.random, other.random));
    stats_ = session.stats();
    did_ = session.adapter();
    EXPECT_LE(stats_.device.peak_bytes, options.budget_bytes);
    EXPECT_EQ(stats_.count(reason::unused_at_end_of_step), 0U);
  }
  session_stats stats_;
  adapter_stats did_;
};

TEST_P(TorchModels, KeepingAll) {
  expect_same({.policy = "keep"}, false);
  EXPECT_EQ(stats_.device_to_host.bytes, 0U);
  EXPECT_GT(did_.back_in_place, 0U);
  EXPECT_EQ(did_.back_from_ferry, 0U);
  EXPECT_GT(stats_.device.peak_bytes, GetParam().small_budget_bytes) << "which the other tests have to do with";
}

TEST_P(TorchModels, OffloadingUnderASmallBudget) {
  expect_same({.policy = "offload", .budget_bytes = GetParam().small_budget_bytes}, false);
  EXPECT_GT(did_.back_from_ferry, 0U);
}

TEST_P(TorchModels, OffloadingOverASlowLink) {
  expect_same({.policy = "offload",
               .budget_bytes = GetParam().small_budget_bytes,
               .device_to_host = {0.2, 20},
               .host_to_device = {0.2, 20}},
              false);
}

TEST_P(TorchModels, PlannedByTheSession) {
  expect_same({.policy = "auto", .budget_bytes = GetParam().small_budget_bytes}, false);
}

TEST_P(TorchModels, CheckpointedUnderEveryPolicy) {
  for (std::string const policy : {"keep", "recompute", "every=2", "offload", "auto"}) {
    expect_same({.policy = policy, .budget_bytes = GetParam().small_budget_bytes}, true);
    EXPECT_GT(did_.recomputations, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TorchModels,
                         ::testing::Values(model_case{"MlpWithDropout", &mlp_with_dropout, 64 << 10},
                                           model_case{"CnnWithBatchNorm", &cnn_with_batch_norm, 160 << 10},
                                           model_case{"Lstm", &lstm, lstm_budget_bytes},
                                           model_case{"TransformerEncoder", &transformer_encoder, 128 << 10}),
                         [](auto const& one) { return one.param.name; });

}  // namespace
}  // namespace ferry::torch::testing
