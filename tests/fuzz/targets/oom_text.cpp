// Out-of-memory messages, and logs around them, as `ferry doctor --oom` reads them.
#include "doctor/oom_text.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  auto const text = fuzz::text_of(data, size);
  auto const found = command::parse_oom(text);
  fuzz::require(!found || !text.empty(), "what is found stands in the text");
  return 0;
}
