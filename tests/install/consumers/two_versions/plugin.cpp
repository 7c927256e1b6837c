// A plugin over one version of Ferry: says which one its calls reach, after having used it. Compiled and linked once
// for each version.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include <ferry/ferry.h>
#include <ferry/ferry.hpp>

namespace {

/// A session saves and gives back, and the library's errors are caught: with parts of two versions neither would work.
void use() {
  ferry::config settings;
  settings.set("FERRY_DEVICE", "host");
  settings.set("FERRY_DEVICE_BYTES", "1MiB");
  settings.set("FERRY_PINNED_BYTES", "1MiB");
  auto const device = ferry::make_device(settings);
  ferry::stream const stream(*device, ferry::stream_kind::compute, "compute");
  ferry::session session(*device, settings);
  session.begin_step();
  session.save({0, 0, "h"}, session.allocate(4096, stream), stream);
  (void)session.restore({0, 0, "h"}, stream);
  try {
    (void)session.restore({0, 1, "h"}, stream);
  } catch (ferry::unknown_key const&) {
    session.end_step();
    return;
  }
  throw ferry::error("an item that was never saved came back");
}

}  // namespace

/// "9.1.0 libferry.so.9": the version that calls reach and the file that they reach it in.
extern "C" __attribute__((visibility("default"))) int plugin_report(char* text, std::size_t size) try {
  use();
  if (std::string(ferry_version()) != ferry::version()) throw ferry::error("C reaches another library than C++");
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(&ferry::version), &where) == 0) return 1;
  std::string file(where.dli_fname);
  file.erase(0, file.find_last_of('/') + 1);
  std::snprintf(text, size, "%d.%d headers, %s library, in %s", FERRY_VERSION_MAJOR, FERRY_VERSION_MINOR,
                ferry::version(), file.c_str());
  return 0;
} catch (std::exception const& error) {
  std::snprintf(text, size, "%s", error.what());
  return 1;
}
