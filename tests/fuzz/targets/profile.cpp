// Profiles, which `ferry plan`, `ferry simulate` and others read from files.
#include "ferry/error.hpp"
#include "fuzz.hpp"
#include "plan/formats.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  fuzz::round_trip<format_error>(fuzz::text_of(data, size), planning::parse_profile,
                                 [](auto const& value) { return to_json(value); });
  return 0;
}
