#include "report/item_book.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace ferry::command {

namespace {

constexpr std::size_t most_items = 200'000;

/// Takes a number off the end of the text, and what stands before it.
bool take_number(std::string_view& text, std::string_view before, double& number) {
  auto const at = text.rfind(before);
  if (at == text.npos) return false;
  auto const digits = text.substr(at + before.size());
  std::uint32_t value = 0;
  auto const [stop, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status != std::errc{} || stop != digits.data() + digits.size()) return false;
  number = value;
  text.remove_suffix(text.size() - at);
  return true;
}

/// "h (segment 3, micro-batch 0)" taken apart; from the end, because a name may hold anything.
void read_key(item_row& into) {
  std::string_view text = into.label;
  double segment = 0;
  double micro_batch = 0;
  bool const closed = text.ends_with(')');
  if (closed) text.remove_suffix(1);
  if (closed && take_number(text, ", micro-batch ", micro_batch) && take_number(text, " (segment ", segment)) {
    into.name = text;
    into.segment = segment;
    into.micro_batch = micro_batch;
  } else {
    into.name = into.label;
  }
}

}  // namespace

std::uint32_t item_book::index_of(std::string const& label) {
  if (label.empty()) return no_index;
  if (auto const found = known_.find(label); found != known_.end()) return found->second;
  if (run_->items.size() == most_items) {
    ++left_out_;
    return no_index;
  }
  auto const index = static_cast<std::uint32_t>(run_->items.size());
  known_.emplace(label, index);
  item_row& row = run_->items.emplace_back();
  row.label = label;
  read_key(row);
  return index;
}

std::uint32_t item_book::index_of(std::string const& name, double segment, double micro_batch) {
  constexpr double most = no_index;
  if (!(segment < most && micro_batch < most)) return index_of(name);
  return index_of(fmt::format("{} (segment {:.0f}, micro-batch {:.0f})", name, segment, micro_batch));
}

}  // namespace ferry::command
