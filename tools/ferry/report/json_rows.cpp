#include "report/json_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/printable.hpp"
#include "report/run_data.hpp"
#include "support/bounded_json.hpp"

namespace ferry::command {

namespace {

using nlohmann::json;
using support::bad_field;

constexpr std::size_t most_bytes = std::size_t{16} << 30;
constexpr std::size_t most_depth = 12;
constexpr std::size_t most_values = 1'000'000;  // held at once

/// Hands over what the listener asks for, takes everything else as it is, and stops where the text is no JSON.
class row_builder final : public support::bounded_json {
 public:
  row_builder(json_listener& to, support::bounded_source& source)
      : bounded_json(source, most_depth, most_values), to_(to) {}

  [[nodiscard]] std::string const& problem() const { return problem_; }

  bool parse_error(std::size_t /*position*/, std::string const& /*token*/,
                   nlohmann::detail::exception const& error) override {
    problem_ = clean(words_of(error), 160);
    return false;
  }

 private:
  void begins(support::json_frame& next) override {
    // Nobody asks for what is inside of rows.
    bool const asked = next.value.is_array() && std::ranges::all_of(frames(), [](support::json_frame const& one) {
                         return one.value.is_object();
                       });
    if (asked && to_.wants_rows_of(next.where)) next.rows = 0;
  }

  void row(support::json_frame const& array, json const& value) override { to_.row(array.where, value); }
  void document(json&& value) override { to_.document(value); }

  [[noreturn]] void too_deep() const override {
    throw bad_field("", fmt::format("is nested more than {} deep", most_depth), "give what a run of Ferry has written");
  }
  [[noreturn]] void too_many() const override {
    throw bad_field("", fmt::format("holds more than {} values together", most_values),
                    "give what a run of Ferry has written");
  }

  json_listener& to_;
  std::string problem_;
};

json const& member(json const& object, char const* key) {
  static json const nothing;
  if (!object.is_object()) return nothing;
  auto const found = object.find(key);
  return found == object.end() ? nothing : *found;
}

}  // namespace

json_ending read_documents(std::istream& in, json_listener& to) {
  support::bounded_source source(*in.rdbuf(), most_bytes, "trace fewer steps");
  std::istream bounded(&source);
  bounded.exceptions(std::ios::badbit);  // what the source throws, goes through
  json_ending ending;
  while ((bounded >> std::ws) && bounded.peek() != std::istream::traits_type::eof()) {
    source.progress();
    row_builder builder(to, source);
    if (json::sax_parse(bounded, &builder, json::input_format_t::json, false)) continue;
    ending.problem = builder.problem();
    ending.cut = bounded.peek() == std::istream::traits_type::eof();
    break;
  }
  ending.bytes = source.read_bytes();
  return ending;
}

std::string clean(std::string_view text, std::size_t most) {
  auto const part = text.substr(0, most);
  bool const harmless = std::ranges::all_of(part, [](char c) { return c >= ' ' && c <= '~'; });
  std::string shown = harmless ? std::string(part) : printable(part);  // nearly always, and there are millions
  for (char& c : shown) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text.size() > most ? shown + "..." : shown;
}

std::string text_at(json const& object, char const* key, std::size_t most) {
  json const& value = member(object, key);
  return value.is_string() ? clean(value.get_ref<std::string const&>(), most) : std::string();
}

double number_at(json const& object, char const* key, double most) {
  json const& value = member(object, key);
  if (!value.is_number()) return unknown;
  auto const number = value.get<double>();
  return number >= 0 && number <= most ? number : unknown;
}

json const& object_at(json const& object, char const* key) {
  static json const none = json::object();
  json const& value = member(object, key);
  return value.is_object() ? value : none;
}

json const& array_at(json const& object, char const* key) {
  static json const none = json::array();
  json const& value = member(object, key);
  return value.is_array() ? value : none;
}

}  // namespace ferry::command
