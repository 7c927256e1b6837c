// The small change of writing JSON by hand, which keeps a row of a file on one line.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace ferry::planning {

/// Throws: `bad_field` if the text is not UTF-8.
[[nodiscard]] std::string json_text(std::string_view text);

/// Puts the rows of an array on lines of their own.
class row_writer {
 public:
  row_writer(std::string& out, std::string_view indent) : out_(out), indent_(indent) { out_ += '['; }

  void row(std::string_view text) {
    out_.append(first_ ? "\n" : ",\n").append(indent_).append("  ").append(text);
    first_ = false;
  }
  void end() {
    if (!first_) out_.append("\n").append(indent_);
    out_ += ']';
  }

 private:
  std::string& out_;
  std::string_view indent_;
  bool first_ = true;
};

}  // namespace ferry::planning
