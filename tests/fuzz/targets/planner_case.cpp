// Chains from files, as `ferry plan --case` reads them.
#include "ferry/error.hpp"
#include "fuzz.hpp"
#include "plan/chain_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  std::istringstream in(fuzz::text_of(data, size));
  try {
    auto const read = planning::parse_chain(in, "case.json");
    fuzz::require(read.forward_s.size() + 1 == read.boundary_bytes.size(), "the lists have the lengths of the chain");
  } catch (format_error const& refusal) {
    fuzz::require(*refusal.what() != '\0', "a refusal says why");
  }
  return 0;
}
