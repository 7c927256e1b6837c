#include "common/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ferry::command {

void table::row(std::vector<std::string> cells, std::optional<colour> in) {
  cells.resize(columns_.size());
  rows_.push_back({.cells = std::move(cells), .in = in});
}

void table::remark(std::string first_cell, std::string text) {
  rows_.push_back({.cells = {std::move(first_cell)}, .words = std::move(text), .once = true});
}

/// At least one column beside the first.
std::size_t table::end_of_block(std::size_t first, std::size_t most) const {
  std::size_t used = columns_.front().width;
  std::size_t end = first;
  while (end < columns_.size()) {
    used += columns_[end].gap + columns_[end].width;
    if (used > most && end > first) break;
    ++end;
  }
  return end;
}

std::string table::text_of(line const& one, std::size_t first, std::size_t end) const {
  if (one.cells.empty()) return one.words;
  std::string text;
  auto const add = [&](std::size_t i) {
    auto const& [width, at, gap] = columns_[i];
    text.append(text.empty() ? 0 : gap, ' ');
    text += at == side::left ? fmt::format("{:<{}}", one.cells[i], width) : fmt::format("{:>{}}", one.cells[i], width);
  };
  add(0);
  if (one.once) {
    text.append(columns_[1].gap, ' ').append(one.words);
  } else {
    for (std::size_t i = first; i < end; ++i) add(i);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return one.in ? in(*one.in, text) : text;
}

std::string table::text(std::size_t most) const {
  std::string all;
  for (std::size_t first = 1; first < columns_.size();) {
    std::size_t const end = end_of_block(first, most);
    if (first > 1) all += '\n';
    for (auto const& one : rows_) {
      if (one.once && first > 1) continue;
      all += text_of(one, first, end) + '\n';
    }
    first = end;
  }
  return all;
}

}  // namespace ferry::command
