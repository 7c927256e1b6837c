// Descriptions of hardware, as --hardware FILE reads them.
#include "ferry/error.hpp"
#include "fuzz.hpp"
#include "plan/formats.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  fuzz::round_trip<format_error>(fuzz::text_of(data, size), planning::parse_hardware,
                                 [](auto const& value) { return to_json(value); });
  return 0;
}
