// Hugging Face's config.json, as `ferry doctor` reads it.
#include "doctor/hf_config.hpp"
#include "ferry/error.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  try {
    static_cast<void>(command::parse_hf_config(fuzz::text_of(data, size)));
  } catch (format_error const& refusal) {
    fuzz::require(*refusal.what() != '\0', "a refusal says why");
  }
  return 0;
}
