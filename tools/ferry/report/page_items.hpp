// The items of a run for the page.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "report/run_data.hpp"

namespace ferry::command {

/// Texts that occur many times, each once.
class label_book {
 public:
  std::size_t index_of(std::string const& text);
  [[nodiscard]] std::vector<std::string> const& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::size_t> known_;
};

/// What mostly became of it: "keep", "ferry", "recompute" or "mixed".
[[nodiscard]] std::string_view decision_of(item_row const& item, std::size_t steps);

/// The dearest, as columns.
[[nodiscard]] nlohmann::ordered_json items_json(run const& of, label_book& labels, std::size_t limit);

}  // namespace ferry::command
