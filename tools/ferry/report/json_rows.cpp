#include "report/json_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/printable.hpp"
#include "plan/bounded_source.hpp"
#include "report/run_data.hpp"

namespace ferry::command {

namespace {

using nlohmann::json;
using planning::misfit;

constexpr std::size_t most_bytes = std::size_t{16} << 30;
constexpr std::size_t most_depth = 12;
constexpr std::size_t most_values = 1'000'000;  // held at once

class row_builder final : public nlohmann::json_sax<json> {
 public:
  row_builder(json_listener& to, planning::bounded_source& source) : to_(to), source_(source) {}

  [[nodiscard]] std::string const& problem() const { return problem_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, string_t const& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // not in text
  bool start_object(std::size_t /*unknown*/) override { return begin(json::object(), false); }
  bool start_array(std::size_t /*unknown*/) override { return begin(json::array(), to_.wants_rows_of(path())); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t& name) override {
    source_.progress();
    frames_.back().key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t /*position*/, std::string const& /*token*/,
                   nlohmann::detail::exception const& error) override {
    std::string_view text = error.what();
    constexpr std::string_view before_line = "parse error at ";
    if (auto const at = text.find(before_line); at != text.npos) text.remove_prefix(at + before_line.size());
    problem_ = clean(text, 160);
    return false;
  }

 private:
  struct frame {
    json value;
    std::string key;  // of the member under way
    bool rows = false;
    std::size_t values_outside = 0;
  };

  bool begin(json empty, bool rows) {
    source_.progress();
    if (frames_.size() == most_depth) {
      throw misfit("", fmt::format("is nested more than {} deep", most_depth), "give what a run of Ferry has written");
    }
    count();
    frames_.push_back({std::move(empty), {}, rows, values_});
    return true;
  }

  bool end() {
    json value = std::move(frames_.back().value);
    // What a row held is given back with it; what stays in the document counts on.
    if (frames_.size() > 1 && frames_[frames_.size() - 2].rows) values_ = frames_[frames_.size() - 2].values_outside;
    frames_.pop_back();
    return put(std::move(value));
  }

  template <typename Value>
  bool add(Value&& value) {
    if (frames_.empty() || !frames_.back().rows) count();
    return put(json(std::forward<Value>(value)));
  }

  bool put(json&& value) {
    source_.progress();
    if (frames_.empty()) {
      values_ = 0;
      to_.document(value);
    } else if (frame& top = frames_.back(); top.value.is_object()) {
      top.value.emplace(top.key, std::move(value));
    } else if (top.rows) {
      to_.row(path_to(frames_.size() - 1), value);
    } else {
      top.value.push_back(std::move(value));
    }
    return true;
  }

  void count() {
    if (++values_ > most_values) {
      throw misfit("", fmt::format("holds more than {} values together", most_values),
                   "give what a run of Ferry has written");
    }
  }

  [[nodiscard]] std::string path() const { return path_to(frames_.size()); }
  [[nodiscard]] std::string path_to(std::size_t frames) const {
    std::string text;
    for (std::size_t i = 0; i < frames; ++i) {
      if (frames_[i].value.is_array()) return "[]";  // nobody asks for what is inside of rows
      text.append(i == 0 ? "" : ".").append(frames_[i].key);
    }
    return text;
  }

  json_listener& to_;
  planning::bounded_source& source_;
  std::vector<frame> frames_;
  std::size_t values_ = 0;
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
  planning::bounded_source source(*in.rdbuf(), most_bytes, "trace fewer steps");
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
