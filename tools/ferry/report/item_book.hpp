// The items of a run by their labels, while its files are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "report/run_data.hpp"

namespace ferry::command {

class item_book {
 public:
  /// `of` is lent.
  explicit item_book(run& of) : run_(&of) {}

  /// The item of that label, a new one if need be; `no_index` where there is no label, or no room for more.
  std::uint32_t index_of(std::string const& label);
  /// The same by the parts of its key.
  std::uint32_t index_of(std::string const& name, double segment, double micro_batch);
  [[nodiscard]] item_row& at(std::uint32_t index) { return run_->items[index]; }
  [[nodiscard]] std::size_t left_out() const { return left_out_; }

 private:
  run* run_;
  std::unordered_map<std::string, std::uint32_t> known_;
  std::size_t left_out_ = 0;
};

}  // namespace ferry::command
