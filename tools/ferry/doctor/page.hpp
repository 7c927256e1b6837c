// The doctor's page: lines, headings, and sentences at the width of a terminal.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "common/terminal.hpp"

namespace ferry::command {

class page {
 public:
  template <typename... Values>
  void line(fmt::format_string<Values...> text, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), text, std::forward<Values>(values)...);
    text_ += '\n';
  }
  void heading(std::string_view words, std::string_view aside = {}) {
    text_ += fmt::format("\n{}{}\n", in(colour::strong, words),
                         aside.empty() ? "" : in(colour::faint, fmt::format("  {}", aside)));
  }
  /// Sentences of any length, under a mark, at the width of a terminal.
  void item(std::string_view mark, std::string_view words) {
    constexpr std::size_t widest = 112;
    std::size_t const width = std::min(widest, terminal_columns());
    std::string row(mark);
    std::size_t const indent = mark.size();
    while (!words.empty()) {
      std::size_t const end = std::min(words.find(' '), words.size());
      if (row.size() + end > width && row.size() > indent) {
        end_row(row);
        row.assign(indent, ' ');
      }
      row.append(words.substr(0, end)).append(" ");
      words.remove_prefix(std::min(end + 1, words.size()));
    }
    end_row(row);
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  void end_row(std::string& row) {
    while (row.ends_with(' ')) row.pop_back();
    text_ += row + '\n';
  }

  std::string text_;
};

}  // namespace ferry::command
