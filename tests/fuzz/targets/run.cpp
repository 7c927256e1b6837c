// Traces, statistics and the JSON of other commands, as `ferry report` reads them; and what it makes of two of one run.
#include "ferry/error.hpp"
#include "fuzz.hpp"
#include "report/run_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  std::istringstream in(fuzz::text_of(data, size));
  try {
    auto const read = command::read_runs(in, "run.json");
    static_cast<void>(command::join({read, read}));
  } catch (format_error const& refusal) {
    fuzz::require(*refusal.what() != '\0', "a refusal says why");
  }
  return 0;
}
