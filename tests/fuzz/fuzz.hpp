// What fuzz targets share. A target hands its input to one parser and takes the errors that the parser promises; any
// other exception, a failed `require` and whatever a sanitizer finds end the program, which is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

namespace ferry::fuzz {

inline std::string text_of(std::uint8_t const* data, std::size_t size) {
  return {reinterpret_cast<char const*>(data), size};
}

inline void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

/// Parses `text`; what was taken is written and parsed again, and has to be the same.
template <typename Error, typename Parse, typename Write>
void round_trip(std::string const& text, Parse const& parse, Write const& write) {
  std::istringstream in(text);
  try {
    auto const value = parse(in);
    std::istringstream again(write(value));
    require(parse(again) == value, "what was parsed, written and parsed again is the same");
  } catch (Error const& refusal) {
    require(*refusal.what() != '\0', "a refusal says why");
  }
}

}  // namespace ferry::fuzz
