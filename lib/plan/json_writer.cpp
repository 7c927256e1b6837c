#include "plan/json_writer.hpp"

#include <nlohmann/json.hpp>

#include "plan/json_reader.hpp"
#include "support/text.hpp"

namespace ferry::planning {

std::string json_text(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (nlohmann::json::type_error const&) {
    throw bad_field("", "the name " + support::quoted(text) + " is not UTF-8", "JSON holds nothing else: rename it");
  }
}

}  // namespace ferry::planning
