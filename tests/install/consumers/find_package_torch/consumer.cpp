// A stranger's LibTorch program over the installed adapter: a gradient with a guard has the bits of one without, and
// tensors went through Ferry.
#include <cstdio>

#include <torch/torch.h>
#include <ferry/ferry.hpp>
#include <ferry/torch.hpp>

int main() try {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(32, 256), torch::nn::GELU(), torch::nn::Linear(256, 32));
  auto const x = torch::randn({64, 32});
  model->forward(x).square().mean().backward();
  auto const plain = model->parameters().front().grad().clone();
  model->zero_grad();

  ferry::config settings;
  settings.set("FERRY_DEVICE", "host");
  settings.set("FERRY_BUDGET", "1MiB");
  settings.set("FERRY_DEVICE_BYTES", "4MiB");
  settings.set("FERRY_PINNED_BYTES", "4MiB");
  ferry::torch::session session(settings);
  session.leave_alone(*model);
  session.begin_step();
  torch::Tensor loss;
  {
    ferry::torch::offload_guard const guard{session};
    loss = model->forward(x).square().mean();
  }
  loss.backward();
  session.end_step();
  if (session.adapter().stored == 0 || !torch::equal(plain, model->parameters().front().grad())) {
    std::fprintf(stderr, "consumer: other gradients, or nothing went through Ferry\n");
    return 1;
  }
  std::printf("consumer: all is right with Ferry %s, in LibTorch\n", ferry::version());
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return 1;
}
