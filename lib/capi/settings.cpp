// Settings through the C interface: by the names of their environment variables.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "capi/objects.hpp"
#include "ferry/config.hpp"
#include "support/parse.hpp"
#include "support/text.hpp"

namespace ferry::capi {

namespace {

/// The table, which never changes while the process runs. Never destroyed, because callers keep its names.
std::vector<setting_description> const& table() {
  static auto const& only = *new std::vector<setting_description>(describe_settings(config{}));
  return only;
}

setting_description const& find(std::vector<setting_description> const& in, std::string_view variable) {
  auto const found =
      std::find_if(in.begin(), in.end(), [&](setting_description const& row) { return row.variable == variable; });
  if (found != in.end()) return *found;
  config{}.set(variable, "");  // throws, and suggests a name
  throw internal_error(fmt::format("{} is a setting that is not in the table", support::quoted(variable)));
}

ferry_settings* make(config value) {
  return publish<ferry_settings>(std::make_unique<settings_object>(std::move(value)));
}

}  // namespace

}  // namespace ferry::capi

using namespace ferry;
using namespace ferry::capi;

ferry_status ferry_settings_create(ferry_settings** settings) {
  return guarded(__func__, [&] { result(settings, "settings") = make(config{}); });
}

ferry_status ferry_settings_from_env(ferry_settings** settings) {
  return guarded(__func__, [&] {
    auto*& made = result(settings, "settings");
    made = make(config::from_env());
  });
}

ferry_status ferry_settings_set(ferry_settings* settings, char const* variable, char const* value) {
  return guarded(__func__, [&] {
    exclusive<settings_object> const into(settings, "settings");
    auto const name = required_text(variable, "variable");
    into->value.set(name, required_text(value, "value"));
  });
}

ferry_status ferry_settings_get(ferry_settings* settings, char const* variable, char** value) {
  return guarded(__func__, [&] {
    auto*& given = result(value, "value");
    exclusive<settings_object> const from(settings, "settings");
    auto const name = required_text(variable, "variable");
    given = give_text(find(describe_settings(from->value), name).value);
  });
}

ferry_status ferry_settings_to_text(ferry_settings* settings, char** text) {
  return guarded(__func__, [&] {
    auto*& given = result(text, "text");
    exclusive<settings_object> const from(settings, "settings");
    std::string lines;
    for (auto const& row : describe_settings(from->value)) lines += fmt::format("{}={}\n", row.variable, row.value);
    given = give_text(lines);
  });
}

ferry_status ferry_settings_destroy(ferry_settings* settings) {
  return guarded(__func__, [&] {
    in_use<settings_object> gone(settings, "settings");
    auto const freed = take_apart(gone, "settings");
  });
}

size_t ferry_setting_count(void) {
  std::size_t count = 0;
  return guarded(__func__, [&] { count = table().size(); }) == FERRY_OK ? count : 0;
}

char const* ferry_setting_name(size_t index) {
  char const* name = nullptr;
  auto const status = guarded(__func__, [&] {
    if (index < table().size()) name = table()[index].variable.c_str();
  });
  return status == FERRY_OK ? name : nullptr;
}

ferry_status ferry_setting_describe(char const* variable, char** text) {
  return guarded(__func__, [&] {
    auto*& given = result(text, "text");
    auto const& row = find(table(), required_text(variable, "variable"));
    given = give_text(fmt::format("{}\naccepted: {}\ndefault: {}\n", row.meaning, row.accepted, row.initial));
  });
}
