#include "plan/json_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "support/bounded_json.hpp"
#include "support/text.hpp"

namespace ferry::planning {

namespace {

using nlohmann::json;

std::string shown(json const& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  return support::one_line(value.dump(), 40);
}

// A place is put together only for messages: rows are read by the million.
template <typename Place>
std::string checked_text(json const& value, std::size_t most, Place const& place) {
  if (!value.is_string()) throw bad_field(place(), fmt::format("is {}", shown(value)), "give a text in quotes");
  auto const& text = value.get_ref<std::string const&>();
  if (text.size() > most) {
    throw bad_field(place(), fmt::format("{} is too long", support::quoted(text)),
                    fmt::format("give at most {} characters", most));
  }
  return text;
}

template <typename Place>
std::uint32_t checked_index(json const& value, Place const& place) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
    throw bad_field(place(), fmt::format("is {}", shown(value)), "give a whole number from 0 to 4294967295");
  }
  return value.get<std::uint32_t>();
}

template <typename Format>
std::size_t find_format(std::vector<Format> const& all, std::string_view where) {
  auto const found = std::ranges::find(all, where, &Format::where);
  return found == all.end() ? support::json_frame::none : static_cast<std::size_t>(found - all.begin());
}

/// Refuses what is not in the format.
class row_parser final : public support::bounded_json {
 public:
  row_parser(file_format const& format, support::bounded_source& source)
      : bounded_json(source, limits::depth, limits::row_values),
        format_(format),
        version_key_(fmt::format("ferry_{}", format.kind)) {}

  json take_document() {
    if (!document_.contains(version_key_)) {
      throw bad_field("", fmt::format("has no \"{}\"", version_key_),
                      fmt::format("give the file of a {}", format_.kind));
    }
    return std::move(document_);
  }

  bool parse_error(std::size_t /*position*/, std::string const& /*token*/,
                   nlohmann::detail::exception const& problem) override {
    if (problem.id == number_overflow) throw bad_field(path(), "is a number beyond all bounds", "correct it");
    throw bad_field("", support::one_line(words_of(problem), 300), "the file is damaged or no JSON: write it again");
  }

 private:
  static constexpr int number_overflow = 406;  // nlohmann's

  void begins(support::json_frame& next) override {
    if (next.value.is_object()) {
      next.kind = find_format(format_.objects, next.where);
    } else if (frames().empty()) {
      refuse_document();
    } else if (frames().back().value.is_object()) {  // of an array in an array only the outer one has rows
      next.rows = find_format(format_.rows, next.where);
    }
  }

  void named(support::json_frame const& object) override {
    if (object.kind == support::json_frame::none) {
      throw bad_field(path_to_container(), "is an object", "give a single value");
    }
    auto const& known = format_.objects[object.kind].keys;
    if (std::ranges::find(known, std::string_view(object.key)) == known.end()) refuse_key(object.key, known);
    if (object.value.contains(object.key)) throw bad_field(path(), "stands there twice", "leave one of the two");
  }

  void member(support::json_frame const& object, json const& value) override {
    if (frames().size() != 1 || object.key != version_key_ || value == format_.version) return;
    throw bad_field(version_key_, fmt::format("is {}", shown(value)),
                    fmt::format("this Ferry reads version {}: write the file again with it", format_.version));
  }

  void row(support::json_frame const& array, json const& value) override {
    try {
      format_.rows[array.rows].take(value);
    } catch (bad_field const& problem) {
      throw problem.inside(path());
    }
  }

  void document(json&& value) override {
    if (!value.is_object()) refuse_document();
    document_ = std::move(value);
  }

  [[noreturn]] static void refuse_document() { throw bad_field("", "is no object", "begin the file with {"); }

  [[noreturn]] void refuse_key(std::string const& name, std::vector<std::string_view> const& known) const {
    bool const outermost = frames().size() == 1;
    if (outermost && name.starts_with("ferry_")) {
      throw bad_field("", fmt::format("is no {}: it says {}", format_.kind, support::quoted(name)),
                      fmt::format("give the file of a {}", format_.kind));
    }
    throw bad_field(outermost ? "" : path_to_container(), fmt::format("has an unknown key {}", support::quoted(name)),
                    fmt::format("known are {}", fmt::join(known, ", ")));
  }

  [[noreturn]] void too_deep() const override {
    throw bad_field(path(), "is nested too deeply", "give a single value");
  }
  [[noreturn]] void too_many() const override {
    throw bad_field(path(), fmt::format("is more than the {} values that belong together", limits::row_values),
                    "it is no file of Ferry's: write it again");
  }

  file_format const& format_;
  std::string version_key_;
  json document_;
};

}  // namespace

json read_rows(std::istream& in, file_format const& format) {
  support::bounded_source source(*in.rdbuf(), limits::file_bytes, "split the step into fewer segments or items");
  std::istream bounded(&source);
  row_parser parser(format, source);
  json::sax_parse(bounded, &parser);  // what it refuses, it throws
  return parser.take_document();
}

void with_file(std::filesystem::path const& file, std::function<void(std::istream&)> const& read) {
  auto const refuse = [&](std::string_view text) {
    throw format_error(fmt::format("'{}': {}", support::one_line(file.string(), 4096), text));
  };
  try {
    std::error_code problem;
    if (std::filesystem::is_directory(file, problem)) refuse("is a folder; give the file in it");
    std::ifstream in(file, std::ios::binary);
    if (!in) refuse(fmt::format("cannot be opened: {}; check the path", std::generic_category().message(errno)));
    read(in);
  } catch (bad_field const& problem) {
    refuse(problem.what());
  } catch (std::ios_base::failure const& problem) {
    refuse(fmt::format("cannot be read: {}; check the disk", problem.what()));
  }
}

std::string text_of(json const& element, std::string_view array, std::size_t i, std::size_t most) {
  return checked_text(element, most, [&] { return fmt::format("{}[{}]", array, i); });
}

std::uint32_t index_of(json const& element, std::string_view array, std::size_t i) {
  return checked_index(element, [&] { return fmt::format("{}[{}]", array, i); });
}

fields::fields(json const& object, std::string place) : object_(&object), place_(std::move(place)) {
  if (!object.is_object()) throw bad_field(place_, fmt::format("is {}", shown(object)), "give an object");
}

bool fields::has(std::string_view key) const { return object_->find(key) != object_->end(); }

json const& fields::at(std::string_view key) const {
  auto const found = object_->find(key);
  if (found == object_->end()) throw bad_field(place_, fmt::format("has no \"{}\"", key), "add it");
  return *found;
}

std::string fields::place_of(std::string_view key) const {
  return fmt::format("{}{}{}", place_, place_.empty() ? "" : ".", key);
}

std::string fields::text(std::string_view key, std::size_t most) const {
  return checked_text(at(key), most, [&] { return place_of(key); });
}

double fields::number(std::string_view key) const {
  json const& value = at(key);
  if (!value.is_number()) throw bad_field(place_of(key), fmt::format("is {}", shown(value)), "give a number");
  return value.get<double>();
}

double fields::number(std::string_view key, double fallback) const { return has(key) ? number(key) : fallback; }

std::size_t fields::whole(std::string_view key) const {
  json const& value = at(key);
  if (!value.is_number_unsigned()) {
    throw bad_field(place_of(key), fmt::format("is {}", shown(value)), "give a whole number that is not negative");
  }
  return value.get<std::size_t>();
}

std::size_t fields::whole(std::string_view key, std::size_t fallback) const { return has(key) ? whole(key) : fallback; }

std::uint32_t fields::index(std::string_view key) const {
  return checked_index(at(key), [&] { return place_of(key); });
}

std::uint32_t fields::index(std::string_view key, std::uint32_t fallback) const {
  return has(key) ? index(key) : fallback;
}

bool fields::flag(std::string_view key) const {
  json const& value = at(key);
  if (!value.is_boolean()) throw bad_field(place_of(key), fmt::format("is {}", shown(value)), "give true or false");
  return value.get<bool>();
}

json const& fields::array(std::string_view key) const {
  json const& value = at(key);
  if (!value.is_array()) throw bad_field(place_of(key), fmt::format("is {}", shown(value)), "give an array");
  return value;
}

fields fields::object(std::string_view key) const { return fields(at(key), place_of(key)); }

}  // namespace ferry::planning
