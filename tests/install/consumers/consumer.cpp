// A stranger's program over the installed library: whatever crosses the library's boundary crosses it here. Bytes
// through a session, settings, plans and simulations; errors that the library throws and this program catches by type;
// devices that it makes and this program asks for their type. Prints one line; what is not as it should be ends it
// with 1.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <typeinfo>
#include <utility>

#include <ferry/ferry.hpp>
#include <ferry/model_profile.hpp>
#include <ferry/plan.hpp>
#include <ferry/simulate.hpp>

namespace {

void require(bool right, char const* what) {
  if (right) return;
  std::fprintf(stderr, "consumer: not as it should be: %s\n", what);
  std::exit(1);
}

template <typename Error, typename Function>
void expect_error(char const* what, Function&& call) {
  try {
    call();
  } catch (Error const& error) {
    require(typeid(error) == typeid(Error), what);
    require(std::string(error.what()).size() > 10, what);
    return;
  } catch (std::exception const& other) {
    std::fprintf(stderr, "consumer: %s: caught as %s: %s\n", what, typeid(other).name(), other.what());
  }
  require(false, what);
}

constexpr std::size_t bytes = 1 << 16;
constexpr unsigned segments = 8;

ferry::config small_settings() {
  ferry::config settings;
  settings.set("FERRY_DEVICE", "host");
  settings.set("FERRY_POLICY", "offload");
  settings.set("FERRY_LINK_GBPS", "0");
  settings.set("FERRY_DEVICE_BYTES", "4MiB");
  settings.set("FERRY_PINNED_BYTES", "4MiB");
  settings.budget = ferry::byte_amount::exactly(3 * bytes);
  return settings;
}

/// Eight items under a budget of three, one of them with a recipe of this program's.
void step(ferry::device& device, ferry::session& session, ferry::stream const& stream) {
  session.begin_step();
  for (unsigned s = 0; s < segments; ++s) {
    auto h = session.allocate(bytes, stream);
    auto const fill = [s](void* p) {
      std::fill_n(static_cast<unsigned char*>(p), bytes, static_cast<unsigned char>(s));
    };
    device.launch(stream, "forward", std::array{ferry::writes(h.data(), bytes)}, [p = h.data(), fill] { fill(p); });
    ferry::recipe how;
    if (s % 2 == 0) {
      how.enqueue = [&device, fill](ferry::recipe_context const& context) {
        device.launch(context.stream, "again", std::array{ferry::writes(context.output, context.bytes)},
                      [p = context.output, fill] { fill(p); });
      };
    }
    session.save({0, s, "h"}, std::move(h), stream, std::move(how));
  }
  unsigned wrong = 0;
  for (unsigned s = segments; s-- > 0;) {
    auto h = session.restore({0, s, "h"}, stream);
    device.launch(stream, "backward", std::array{ferry::reads(h.data(), bytes)},
                  [p = h.as<unsigned char>(), s, &wrong] {
                    wrong += std::any_of(p, p + bytes, [s](unsigned char x) { return x != s; }) ? 1U : 0U;
                  });
    h.end();
    session.release({0, s, "h"});
  }
  stream.synchronize();
  require(wrong == 0, "bytes after restore");
  session.end_step();
}

void check_session() {
  auto const settings = small_settings();
  auto const device = ferry::make_device(settings);
  require(dynamic_cast<ferry::host_device*>(device.get()) != nullptr, "the host device by its type");
  require(dynamic_cast<ferry::sim_device*>(device.get()) == nullptr, "the host device as a sim device");
  ferry::session session(*device, settings);
  ferry::stream const stream(*device, ferry::stream_kind::compute, "compute");
  step(*device, session, stream);
  auto const stats = session.stats();
  require(stats.saves == segments && stats.device.peak_bytes <= 3 * bytes, "statistics");
  require(ferry::to_json(stats).find("\"saves\"") != std::string::npos, "statistics as JSON");

  session.begin_step();
  expect_error<ferry::unknown_key>("unknown_key", [&] { (void)session.restore({0, 0, "none"}, stream); });
  expect_error<ferry::out_of_device_memory>("out_of_device_memory", [&] { (void)session.allocate(5 * bytes, stream); });
  session.end_step();
  try {
    (void)device->allocate(ferry::memory_space::pinned, std::size_t{1} << 40);
    require(false, "out_of_pinned_memory");
  } catch (ferry::out_of_device_memory const&) {
    require(false, "out_of_pinned_memory caught as out_of_device_memory");
  } catch (ferry::out_of_memory const& error) {
    require(error.needed_bytes() == std::size_t{1} << 40, "what out_of_memory says");
  }
}

void check_errors() {
  ferry::config settings;
  expect_error<ferry::setting_error>("setting_error", [&] { settings.set("FERRY_BUDGET", "much"); });
  expect_error<ferry::invalid_argument>("invalid_argument", [] { (void)ferry::named_hardware("abacus"); });
  expect_error<ferry::invalid_argument>("invalid_argument of a header",
                                        [] { ferry::label const l(std::string(99, 'x')); });
  expect_error<ferry::format_error>("format_error", [] { (void)ferry::read_profile("/nowhere/profile.json"); });
  if (ferry::find_cuda().devices.empty()) {
    expect_error<ferry::no_cuda>("no_cuda", [] { (void)ferry::make_cuda_device(); });
  }
}

void check_plan() {
  auto const on = ferry::named_hardware("a100-80");
  auto const profile = ferry::gpt_profile({.layers = 4, .batch = 2}, on);
  std::size_t all = 0;
  for (auto const& segment : profile.segments) {
    for (auto const& item : segment.items) all += item.bytes;
  }
  auto const plan = ferry::make_plan(profile, on, {.budget_bytes = all / 2, .time_limit_ms = 50});
  require(plan.device.peak <= all / 2 && !plan.items.empty(), "the plan");
  ferry::require_match(plan, profile);
  expect_error<ferry::infeasible_budget>("infeasible_budget",
                                         [&] { (void)ferry::make_plan(profile, on, {.budget_bytes = 1 << 20}); });

  ferry::simulation_options how;
  how.settings.budget = ferry::byte_amount::exactly(all / 2);
  how.planned = plan;
  how.steps = 2;
  auto const simulated = ferry::simulate(profile, on, how);
  require(simulated.step_us > 0 && simulated.stats.steps == 2, "the simulation");
  how.longest_step_us = 1;
  expect_error<ferry::step_too_long>("step_too_long", [&] { (void)ferry::simulate(profile, on, how); });
}

}  // namespace

int main() {
  check_session();
  check_errors();
  check_plan();
  std::printf("consumer: all is right with Ferry %s\n", ferry::version());
}
