// A stranger's program over the installed transformer core: a few steps of a tiny GPT, whose loss has to fall, and an
// error of the core's that this program catches by type.
#include <cstdio>
#include <memory>

#include <ferry/ferry.hpp>
#include <ferry/nn/checkpoint.hpp>
#include <ferry/nn/file_error.hpp>
#include <ferry/nn/trainer.hpp>

int main() try {
  ferry::config settings;
  settings.set("FERRY_DEVICE", "host");
  settings.set("FERRY_BUDGET", "1MiB");
  settings.set("FERRY_HOST_BUDGET", "4MiB");
  settings.set("FERRY_DEVICE_BYTES", "16MiB");
  settings.set("FERRY_PINNED_BYTES", "16MiB");
  auto const device = ferry::make_device(settings);
  ferry::stream const stream(*device, ferry::stream_kind::compute, "compute");
  auto const operations = ferry::nn::make_ops(*device);
  auto const data = ferry::nn::token_data::shipped();
  ferry::nn::gpt_shape const shape{.layers = 2, .width = 32, .heads = 2, .context = 32};
  ferry::nn::trainer trainer(*device, stream, *operations, shape, 4, {.steps = 20, .warmup = 2});
  ferry::session session(*device, settings);
  double const first = trainer.step(session, data).loss;
  double last = first;
  for (int i = 1; i < 20; ++i) last = trainer.step(session, data).loss;
  if (!(last < first)) {
    std::fprintf(stderr, "nn_consumer: the loss went from %g to %g\n", first, last);
    return 1;
  }
  try {
    (void)ferry::nn::shape_of_model("/nowhere/model.safetensors");
    return 1;
  } catch (ferry::nn::file_error const&) {
    std::printf("nn_consumer: the loss fell from %.3f to %.3f with Ferry %s\n", first, last, ferry::version());
  }
  return 0;
} catch (ferry::error const& error) {
  std::fprintf(stderr, "nn_consumer: %s\n", error.what());
  return 1;
}
