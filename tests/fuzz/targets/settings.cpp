// Values of FERRY_ variables, which anybody may type. The first byte chooses the variable, the rest is its value.
#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  if (size == 0) return 0;
  static auto const rows = describe_settings(config{});
  std::size_t const index = data[0] % rows.size();
  auto const& variable = rows[index].variable;
  try {
    config first;
    first.set(variable, fuzz::text_of(data + 1, size - 1));
    auto const shown = describe_settings(first)[index].value;
    config second;
    second.set(variable, shown);
    fuzz::require(describe_settings(second)[index].value == shown, "what is shown means the same when it is typed");
  } catch (setting_error const& refusal) {
    fuzz::require(*refusal.what() != '\0', "a refusal says why");
  }
  return 0;
}
