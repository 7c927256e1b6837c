// Reading Ferry's JSON files, which anybody may have written: `read_rows` parses a file once, as it comes from the
// disk, and holds no more of it than one row at a time. Syntax, nesting, sizes, the version, unknown and repeated keys
// are checked on the way; `fields` then takes a row apart. Threads: values; any thread.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/error.hpp"
#include "plan/limits.hpp"
#include "support/bounded_json.hpp"

namespace ferry::planning {

using support::bad_field;

/// The kinds of objects of a format, by where they stand: the keys that lead to them, "segments.items".
struct object_format {
  std::string_view where;
  std::vector<std::string_view> keys;
};

/// An array whose elements are handed over one by one, as soon as each has ended, and not kept. Of rows inside rows the
/// inner ones come first.
struct row_format {
  std::string_view where;
  std::function<void(nlohmann::json const& row)> take;
};

struct file_format {
  std::string_view kind;  ///< "profile": the file says "ferry_profile": version
  int version;
  std::vector<object_format> objects;
  std::vector<row_format> rows;
};

/// Parses `in`; returns the outermost object, with empty arrays where rows were. Throws: `bad_field`.
[[nodiscard]] nlohmann::json read_rows(std::istream& in, file_format const& format);

/// Opens `file` and calls `read`. Throws: `format_error` that names the file.
void with_file(std::filesystem::path const& file, std::function<void(std::istream&)> const& read);

/// The members of an object. Those without a fallback must be there. Throws: `bad_field`, all functions.
class fields {
 public:
  /// The object is lent. `place` is put in front of keys in messages.
  explicit fields(nlohmann::json const& object, std::string place = {});

  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key, std::size_t most = limits::text_chars) const;
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] double number(std::string_view key, double fallback) const;
  [[nodiscard]] std::size_t whole(std::string_view key) const;
  [[nodiscard]] std::size_t whole(std::string_view key, std::size_t fallback) const;
  [[nodiscard]] std::uint32_t index(std::string_view key) const;
  [[nodiscard]] std::uint32_t index(std::string_view key, std::uint32_t fallback) const;
  [[nodiscard]] bool flag(std::string_view key) const;
  [[nodiscard]] nlohmann::json const& array(std::string_view key) const;
  [[nodiscard]] fields object(std::string_view key) const;
  [[nodiscard]] std::string place_of(std::string_view key) const;

 private:
  [[nodiscard]] nlohmann::json const& at(std::string_view key) const;

  nlohmann::json const* object_;
  std::string place_;
};

/// Element `i` of the row's `array`. Texts have at most `most` bytes: what is repeated stays small. Throws:
/// `bad_field`.
[[nodiscard]] std::string text_of(nlohmann::json const& element, std::string_view array, std::size_t i,
                                  std::size_t most);
[[nodiscard]] std::uint32_t index_of(nlohmann::json const& element, std::string_view array, std::size_t i);

}  // namespace ferry::planning
