// Out-of-memory messages, and logs around them, as `ferry doctor --oom` reads them.
#include "doctor/oom_text.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  auto const text = fuzz::text_of(data, size);
  auto const found = command::parse_oom(text);
  if (!found) return 0;
  constexpr std::size_t longest_line = 210;  // with the marks of what is left out
  constexpr std::size_t most_bytes = std::size_t{1} << 60;
  fuzz::require(!text.empty(), "what is found stands in the text");
  fuzz::require(found->number >= 1 && found->number <= found->of_messages,
                "the message is one of those that there are");
  fuzz::require(found->line.size() <= longest_line, "its line is short");
  fuzz::require(found->requested.value_or(0) <= most_bytes, "no amount is more than there can be");
  return 0;
}
