// Files of GPUs, as --gpus FILE reads them, and the names that are then looked up.
#include <sstream>

#include "ferry/error.hpp"
#include "fuzz.hpp"
#include "plan/gpus.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  std::string const text(fuzz::text_of(data, size));
  planning::gpu_catalogue known;
  try {
    std::istringstream in(text);
    known.read(in);
    for (auto const& name : known.names()) static_cast<void>(hardware_of(known.find(name)));
  } catch (format_error const&) {
  }
  try {
    static_cast<void>(known.find(text.substr(0, 100)));
  } catch (invalid_argument const&) {
  }
  return 0;
}
