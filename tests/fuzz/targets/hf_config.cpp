// Hugging Face's config.json, as `ferry doctor` reads it, and what it counts of the model.
#include "doctor/hf_config.hpp"
#include "doctor/memory.hpp"
#include "ferry/error.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  try {
    auto const of = command::completed(command::parse_hf_config(fuzz::text_of(data, size)));
    fuzz::require(command::parameters_of(of) > 0, "a model has weights");
    fuzz::require(command::active_hidden(of) > 0, "a token passes a hidden layer");
    auto const full = command::states_of(of, {});
    auto const adapted = command::states_of(of, {.lora = 8, .nf4 = true});
    fuzz::require(full.sum() > full.weights && adapted.sum() > adapted.weights, "what is trained has states");
    fuzz::require(full.sum() < std::size_t{1} << 56, "and they are bounded");
  } catch (format_error const& refusal) {
    fuzz::require(*refusal.what() != '\0', "a refusal says why");
  } catch (setting_error const& refusal) {
    fuzz::require(*refusal.what() != '\0', "a refusal says why");
  }
  return 0;
}
