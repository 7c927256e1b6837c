// A table of text that is no wider than the terminal: columns that have no room follow below, beside the first one
// again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/terminal.hpp"

namespace ferry::command {

class table {
 public:
  enum class side : std::uint8_t { left, right };
  struct column {
    std::size_t width = 0;  ///< at least
    side at = side::right;
    std::size_t gap = 1;  ///< before it
  };

  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

  /// Cells that are left out are empty.
  void row(std::vector<std::string> cells, std::optional<colour> in = std::nullopt);
  /// A line of its own wherever rows stand.
  void heading(std::string text) { rows_.push_back({.words = std::move(text)}); }
  /// A row that has words in place of its cells: said once.
  void remark(std::string first_cell, std::string text);

  /// `most`: columns of the terminal.
  [[nodiscard]] std::string text(std::size_t most = terminal_columns()) const;

 private:
  struct line {
    std::vector<std::string> cells{};
    std::string words{};
    bool once = false;
    std::optional<colour> in{};
  };

  [[nodiscard]] std::size_t end_of_block(std::size_t first, std::size_t most) const;
  [[nodiscard]] std::string text_of(line const& one, std::size_t first, std::size_t end) const;

  std::vector<column> columns_;
  std::vector<line> rows_;
};

}  // namespace ferry::command
