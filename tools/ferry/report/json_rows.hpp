// Reading JSON that is large and that anybody may have written: one or several documents in a stream, of which no more
// is held than a row at a time. A stream that ends in the middle, as a killed run leaves it, is an expected end.
#pragma once

#include <cstddef>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ferry::command {

/// Whoever is told. Anything it throws goes through.
class json_listener {
 public:
  json_listener() = default;
  json_listener(json_listener const&) = delete;
  json_listener& operator=(json_listener const&) = delete;
  virtual ~json_listener() = default;

  /// Are the elements of the array at `where` handed over one by one? "" is an outermost array, "summary.session.items"
  /// one inside of objects.
  [[nodiscard]] virtual bool wants_rows_of(std::string_view where) const = 0;
  virtual void row(std::string_view where, nlohmann::json const& value) = 0;
  /// A document has ended; its rows are not in it.
  virtual void document(nlohmann::json const& value) = 0;
};

struct json_ending {
  bool cut = false;     ///< the text ended inside a document
  std::string problem;  ///< why reading stopped before the text's end; "" if it did not
  std::size_t bytes = 0;
};

/// Parses until the end, or until something is no JSON. Throws: `format_error` for what is too large or too deep.
[[nodiscard]] json_ending read_documents(std::istream& in, json_listener& to);

/// The text without control characters and of at most `most` bytes.
[[nodiscard]] std::string clean(std::string_view text, std::size_t most = 200);
/// A text member, cleaned; "" if there is none.
[[nodiscard]] std::string text_at(nlohmann::json const& object, char const* key, std::size_t most = 200);
/// A number member from 0 to `most`, or `unknown`.
[[nodiscard]] double number_at(nlohmann::json const& object, char const* key, double most = 1e18);
/// A member that is an object, or an empty one.
[[nodiscard]] nlohmann::json const& object_at(nlohmann::json const& object, char const* key);
/// A member that is an array, or an empty one.
[[nodiscard]] nlohmann::json const& array_at(nlohmann::json const& object, char const* key);

}  // namespace ferry::command
