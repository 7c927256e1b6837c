// Parsing JSON that is large and that anybody may have written: it comes in portions, and neither the whole nor what is
// held of it at once grows beyond limits. Arrays may be handed over row by row and are not kept then. What may stand
// where, and what becomes of it, is a reader's business: `planning::read_rows` is strict about one format,
// `ferry report` takes whatever it knows. Threads: values; any thread.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/error.hpp"

namespace ferry::support {

/// What is wrong, where, and what to do about it. The place is that inside a file or a value; whoever knows what it is
/// inside of puts that in front.
class bad_field : public format_error {
 public:
  bad_field(std::string place, std::string problem, std::string fix);
  /// The same, seen from outside: "items[2]" inside "segments[3]" is "segments[3].items[2]".
  [[nodiscard]] bad_field inside(std::string_view outer) const;

 private:
  std::string place_;
  std::string problem_;
  std::string fix_;
};

/// Bytes of a text that a parser may read without a value beginning or ending.
inline constexpr std::size_t most_token_bytes = std::size_t{1} << 20;

class bounded_source final : public std::streambuf {
 public:
  /// `from` is lent. `fix` is what to do about a file of more than `most_bytes`. Reading throws: `bad_field`.
  bounded_source(std::streambuf& from, std::size_t most_bytes, std::string fix);

  /// The parser got somewhere: what it held of the text is done with.
  void progress() noexcept { done_bytes_ = read_bytes_; }
  [[nodiscard]] std::size_t read_bytes() const noexcept { return read_bytes_; }

 private:
  int_type underflow() override;

  std::streambuf& from_;
  std::size_t most_bytes_;
  std::string fix_;
  std::array<char, std::size_t{1} << 16> buffer_{};
  std::size_t read_bytes_ = 0;
  std::size_t done_bytes_ = 0;
};

/// An array or object that has begun.
struct json_frame {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  nlohmann::json value;
  std::string where;               ///< the keys that lead to it: "segments.items"
  std::string key;                 ///< of the member under way
  std::size_t index = 0;           ///< of the element under way
  std::size_t kind = none;         ///< a note of the reader's, about an object
  std::size_t rows = none;         ///< a note of the reader's, about an array whose elements are rows
  std::size_t values_outside = 0;  ///< held before this began

  [[nodiscard]] bool has_rows() const noexcept { return rows != none; }
};

/// The parser's listener: builds values, counts what is held, and asks the reader that derives from it.
class bounded_json : public nlohmann::json_sax<nlohmann::json> {
 public:
  using json = nlohmann::json;

  bool null() final { return add(nullptr); }
  bool boolean(bool value) final { return add(value); }
  bool number_integer(number_integer_t value) final { return add(value); }
  bool number_unsigned(number_unsigned_t value) final { return add(value); }
  bool number_float(number_float_t value, string_t const& /*text*/) final { return add(value); }
  bool string(string_t& value) final { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) final { return false; }  // not in text
  bool start_object(std::size_t /*unknown*/) final { return begin(json::object()); }
  bool start_array(std::size_t /*unknown*/) final { return begin(json::array()); }
  bool end_object() final { return end(); }
  bool end_array() final { return end(); }
  bool key(string_t& name) final;

 protected:
  /// `source` is lent.
  bounded_json(bounded_source& source, std::size_t most_depth, std::size_t most_values)
      : source_(source), most_depth_(most_depth), most_values_(most_values) {}

  // What a reader decides. All but `row` and `document` are asked before the value is taken, and may throw to refuse.

  /// A frame is about to begin; the reader may note its kind or that it has rows.
  virtual void begins(json_frame& next) = 0;
  /// The innermost object is about to get a member; its key is in the frame.
  virtual void named(json_frame const& /*object*/) {}
  virtual void member(json_frame const& /*object*/, json const& /*value*/) {}
  /// An element of an array that has rows.
  virtual void row(json_frame const& array, json const& value) = 0;
  /// The outermost value has ended; its rows are not in it.
  virtual void document(json&& value) = 0;
  [[noreturn]] virtual void too_deep() const = 0;
  [[noreturn]] virtual void too_many() const = 0;

  [[nodiscard]] std::vector<json_frame> const& frames() const noexcept { return frames_; }
  /// Of the value under way: "segments[3].items[2].bytes".
  [[nodiscard]] std::string path() const { return path_of(frames_.size()); }
  [[nodiscard]] std::string path_to_container() const { return path_of(frames_.size() - 1); }
  /// What the parser says of text that is no JSON, without what is its own.
  [[nodiscard]] static std::string_view words_of(nlohmann::detail::exception const& problem);

 private:
  bool begin(json empty);
  bool end();
  bool put(json&& value);
  void count_value();
  [[nodiscard]] std::string path_of(std::size_t frames) const;

  template <typename Value>
  bool add(Value&& value) {
    if (frames_.empty() || !frames_.back().has_rows()) count_value();
    return put(json(std::forward<Value>(value)));
  }

  bounded_source& source_;
  std::size_t most_depth_;
  std::size_t most_values_;
  std::vector<json_frame> frames_;
  std::size_t values_ = 0;  // held in the frames
};

}  // namespace ferry::support
