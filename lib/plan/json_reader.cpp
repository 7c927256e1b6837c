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

#include "plan/bounded_source.hpp"

namespace ferry::planning {

namespace {

using nlohmann::json;

// What comes from outside must not break the line or talk to the terminal.
std::string one_line(std::string_view text, std::size_t longest) {
  std::string result(text.substr(0, longest));
  auto const is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_if(result.begin(), result.end(), is_control, '?');
  if (text.size() > longest) result += "...";
  return result;
}

std::string message_of(std::string_view place, std::string_view problem, std::string_view fix) {
  return fmt::format("{}{}{}; {}", place, place.empty() ? "" : ": ", problem, fix);
}

std::string shown(json const& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  return one_line(value.dump(), 40);
}

// A place is put together only for messages: rows are read by the million.
template <typename Place>
std::string checked_text(json const& value, std::size_t most, Place const& place) {
  if (!value.is_string()) throw misfit(place(), fmt::format("is {}", shown(value)), "give a text in quotes");
  auto const& text = value.get_ref<std::string const&>();
  if (text.size() > most) {
    throw misfit(place(), fmt::format("{} is too long", planning::shown(std::string_view(text))),
                 fmt::format("give at most {} characters", most));
  }
  return text;
}

template <typename Place>
std::uint32_t checked_index(json const& value, Place const& place) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
    throw misfit(place(), fmt::format("is {}", shown(value)), "give a whole number from 0 to 4294967295");
  }
  return value.get<std::uint32_t>();
}

/// An array or object that has begun.
struct frame {
  json value;
  std::string where;               // as in `object_format`
  std::string key;                 // of the member under way
  std::size_t index = 0;           // of the element under way
  object_format const* object{};   // what may be in it; null for arrays, and where no object belongs
  row_format const* rows{};        // whose elements are rows
  std::size_t values_outside = 0;  // held before this began
};

template <typename Format>
Format const* find_format(std::vector<Format> const& all, std::string_view where) {
  auto const found = std::ranges::find(all, where, &Format::where);
  return found == all.end() ? nullptr : &*found;
}

class row_parser final : public nlohmann::json_sax<json> {
 public:
  row_parser(file_format const& format, bounded_source& source)
      : format_(format), source_(source), version_key_(fmt::format("ferry_{}", format.kind)) {}

  json take_document() {
    if (!document_.contains(version_key_)) {
      throw misfit("", fmt::format("has no \"{}\"", version_key_), fmt::format("give the file of a {}", format_.kind));
    }
    return std::move(document_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, string_t const& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // not in text
  bool start_object(std::size_t /*unknown*/) override { return begin(json::object()); }
  bool start_array(std::size_t /*unknown*/) override { return begin(json::array()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t& name) override {
    source_.progress();
    frame& top = frames_.back();
    if (top.object == nullptr) throw misfit(path_to_container(), "is an object", "give a single value");
    if (std::ranges::find(top.object->keys, std::string_view(name)) == top.object->keys.end()) refuse_key(name);
    top.key = std::move(name);
    if (top.value.contains(top.key)) throw misfit(path(), "stands there twice", "leave one of the two");
    return true;
  }

  bool parse_error(std::size_t /*position*/, std::string const& /*token*/,
                   nlohmann::detail::exception const& problem) override {
    std::string_view text = problem.what();
    if (problem.id == number_overflow) throw misfit(path(), "is a number beyond all bounds", "correct it");
    constexpr std::string_view before_line = "parse error at ";
    if (auto const at = text.find(before_line); at != text.npos) text.remove_prefix(at + before_line.size());
    throw misfit("", one_line(text, 300), "the file is damaged or no JSON: write it again");
  }

 private:
  static constexpr int number_overflow = 406;  // nlohmann's

  [[noreturn]] void refuse_key(std::string const& name) const {
    auto const& known = frames_.back().object->keys;
    bool const outermost = frames_.size() == 1;
    if (outermost && name.starts_with("ferry_")) {
      throw misfit("", fmt::format("is no {}: it says {}", format_.kind, planning::shown(name)),
                   fmt::format("give the file of a {}", format_.kind));
    }
    throw misfit(outermost ? "" : path_to_container(), fmt::format("has an unknown key {}", planning::shown(name)),
                 fmt::format("known are {}", fmt::join(known, ", ")));
  }

  bool begin(json empty) {
    source_.progress();
    if (frames_.empty() && !empty.is_object()) throw misfit("", "is no object", "begin the file with {");
    if (frames_.size() == limits::depth) throw misfit(path(), "is nested too deeply", "give a single value");
    frame next{.value = std::move(empty), .where = {}, .key = {}, .values_outside = values_};
    if (!frames_.empty()) {
      frame const& outer = frames_.back();
      next.where = outer.where;
      if (outer.value.is_object()) next.where.append(next.where.empty() ? "" : ".").append(outer.key);
    }
    if (next.value.is_object()) next.object = find_format(format_.objects, next.where);
    // Of an array in an array only the outer one has rows.
    if (next.value.is_array() && frames_.back().value.is_object()) next.rows = find_format(format_.rows, next.where);
    count_value();
    frames_.push_back(std::move(next));
    return true;
  }

  bool end() {
    frame ended = std::move(frames_.back());
    frames_.pop_back();
    if (frames_.empty()) {
      document_ = std::move(ended.value);
      return true;
    }
    if (frames_.back().rows != nullptr) values_ = ended.values_outside;
    return put(std::move(ended.value));
  }

  template <typename Value>
  bool add(Value&& value) {
    if (frames_.empty()) throw misfit("", "is no object", "begin the file with {");
    if (frames_.back().rows == nullptr) count_value();
    return put(json(std::forward<Value>(value)));
  }

  bool put(json&& value) {
    source_.progress();
    frame& top = frames_.back();
    if (top.value.is_object()) {
      if (frames_.size() == 1 && top.key == version_key_) check_version(value);
      top.value.emplace(top.key, std::move(value));
    } else if (top.rows != nullptr) {
      hand_over(value);
      ++top.index;
    } else {
      top.value.push_back(std::move(value));
      ++top.index;
    }
    return true;
  }

  void hand_over(json const& row) const {
    try {
      frames_.back().rows->take(row);
    } catch (misfit const& problem) {
      throw problem.inside(path());
    }
  }

  void check_version(json const& value) const {
    if (value == format_.version) return;
    throw misfit(version_key_, fmt::format("is {}", shown(value)),
                 fmt::format("this Ferry reads version {}: write the file again with it", format_.version));
  }

  void count_value() {
    if (++values_ > limits::row_values) {
      throw misfit(path(), fmt::format("is more than the {} values that belong together", limits::row_values),
                   "it is no file of Ferry's: write it again");
    }
  }

  /// Of the value under way: "segments[3].items[2].bytes".
  [[nodiscard]] std::string path() const { return path_of(frames_.size()); }
  [[nodiscard]] std::string path_to_container() const { return path_of(frames_.size() - 1); }
  [[nodiscard]] std::string path_of(std::size_t frames) const {
    std::string text;
    for (std::size_t i = 0; i < frames; ++i) {
      if (frames_[i].value.is_array()) {
        text += fmt::format("[{}]", frames_[i].index);
      } else {
        text.append(text.empty() ? "" : ".").append(frames_[i].key);
      }
    }
    return text;
  }

  file_format const& format_;
  bounded_source& source_;
  std::string version_key_;
  std::vector<frame> frames_;
  std::size_t values_ = 0;  // held in the frames
  json document_;
};

}  // namespace

misfit::misfit(std::string place, std::string problem, std::string fix)
    : format_error(message_of(place, problem, fix)),
      place_(std::move(place)),
      problem_(std::move(problem)),
      fix_(std::move(fix)) {}

misfit misfit::inside(std::string_view outer) const {
  bool const joined = place_.empty() || place_.front() == '[';
  return {fmt::format("{}{}{}", outer, joined ? "" : ".", place_), problem_, fix_};
}

std::string shown(std::string_view text) { return fmt::format("'{}'", one_line(text, 80)); }

json read_rows(std::istream& in, file_format const& format) {
  bounded_source source(*in.rdbuf(), limits::file_bytes, "split the step into fewer segments or items");
  std::istream bounded(&source);
  row_parser parser(format, source);
  json::sax_parse(bounded, &parser);  // what it refuses, it throws
  return parser.take_document();
}

void with_file(std::filesystem::path const& file, std::function<void(std::istream&)> const& read) {
  auto const refuse = [&](std::string_view text) {
    throw format_error(fmt::format("'{}': {}", one_line(file.string(), 4096), text));
  };
  try {
    std::error_code problem;
    if (std::filesystem::is_directory(file, problem)) refuse("is a folder; give the file in it");
    std::ifstream in(file, std::ios::binary);
    if (!in) refuse(fmt::format("cannot be opened: {}; check the path", std::generic_category().message(errno)));
    read(in);
  } catch (misfit const& problem) {
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
  if (!object.is_object()) throw misfit(place_, fmt::format("is {}", shown(object)), "give an object");
}

bool fields::has(std::string_view key) const { return object_->find(key) != object_->end(); }

json const& fields::at(std::string_view key) const {
  auto const found = object_->find(key);
  if (found == object_->end()) throw misfit(place_, fmt::format("has no \"{}\"", key), "add it");
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
  if (!value.is_number()) throw misfit(place_of(key), fmt::format("is {}", shown(value)), "give a number");
  return value.get<double>();
}

double fields::number(std::string_view key, double fallback) const { return has(key) ? number(key) : fallback; }

std::size_t fields::whole(std::string_view key) const {
  json const& value = at(key);
  if (!value.is_number_unsigned()) {
    throw misfit(place_of(key), fmt::format("is {}", shown(value)), "give a whole number that is not negative");
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
  if (!value.is_boolean()) throw misfit(place_of(key), fmt::format("is {}", shown(value)), "give true or false");
  return value.get<bool>();
}

json const& fields::array(std::string_view key) const {
  json const& value = at(key);
  if (!value.is_array()) throw misfit(place_of(key), fmt::format("is {}", shown(value)), "give an array");
  return value;
}

fields fields::object(std::string_view key) const { return fields(at(key), place_of(key)); }

}  // namespace ferry::planning
