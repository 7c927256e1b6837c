// The smallest useful program: eight activations of 4 MiB under a budget of three. Forward saves them, Ferry
// carries them to pinned memory, backward asks for them in reverse order and finds every byte.
#include <algorithm>
#include <array>
#include <cstdio>

#include "ferry/ferry.hpp"

int main() try {
  constexpr std::size_t bytes = 4 << 20;
  constexpr std::size_t floats = bytes / sizeof(float);
  constexpr unsigned segments = 8;

  auto settings = ferry::config::from_env();  // FERRY_POLICY, FERRY_LINK_GBPS, ... apply
  settings.budget = ferry::byte_amount::exactly(3 * bytes);
  auto device = ferry::make_device(settings);
  ferry::session session(*device, settings);
  ferry::stream stream(*device, ferry::stream_kind::compute, "compute");

  ferry::session::step_scope step(session);
  for (unsigned s = 0; s < segments; ++s) {
    auto h = session.allocate(bytes, stream);
    std::array const accesses{ferry::writes(h.data(), bytes)};
    device->launch(stream, "forward", accesses, [p = h.as<float>(), s] { std::fill_n(p, floats, float(s)); });
    session.save({0, s, "h"}, std::move(h), stream);
  }
  bool intact = true;
  for (unsigned s = segments; s-- > 0;) {
    {
      auto h = session.restore({0, s, "h"}, stream);
      std::array const accesses{ferry::reads(h.data(), bytes)};
      device->launch(stream, "backward", accesses, [p = h.as<float>(), s, &intact] {
        intact = intact && std::all_of(p, p + floats, [s](float x) { return x == float(s); });
      });
    }
    session.release({0, s, "h"});
  }
  stream.synchronize();
  step.end();

  auto const stats = session.stats();
  std::printf("saved %u x %zu MiB under a budget of %zu MiB; peak %zu MiB; %llu MiB came back over the link; %s\n",
              segments, bytes >> 20, stats.device.limit_bytes >> 20, stats.device.peak_bytes >> 20,
              static_cast<unsigned long long>(stats.host_to_device.bytes >> 20),
              intact ? "every byte is right" : "WRONG");
  return intact ? 0 : 1;
} catch (ferry::error const& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
