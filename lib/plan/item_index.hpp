// Finds items by segment and name. Sorted, not hashed: names come from files, and no choice of names may make this
// slow.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

namespace ferry::planning {

class item_index {  // names are lent
 public:
  struct entry {
    std::uint32_t segment = 0;
    std::string_view name;
    std::size_t position = 0;  ///< whatever the user counts
  };

  void reserve(std::size_t items) { entries_.reserve(items); }
  void add(std::uint32_t segment, std::string_view name, std::size_t position) {
    entries_.push_back({segment, name, position});
  }

  /// After the last `add`. Returns the first item whose name stood there before.
  std::optional<entry> settle() {
    std::ranges::sort(entries_, {}, [](entry const& e) { return std::tuple(e.segment, e.name, e.position); });
    std::optional<entry> first;
    for (std::size_t i = 1; i < entries_.size(); ++i) {
      entry const& e = entries_[i];
      if (e.segment != entries_[i - 1].segment || e.name != entries_[i - 1].name) continue;
      if (!first || std::tuple(e.segment, e.position) < std::tuple(first->segment, first->position)) first = e;
    }
    return first;
  }

  [[nodiscard]] std::optional<std::size_t> find(std::uint32_t segment, std::string_view name) const {
    auto const key = [](entry const& e) { return std::tuple(e.segment, e.name); };
    auto const found = std::ranges::lower_bound(entries_, std::tuple(segment, name), {}, key);
    if (found == entries_.end() || found->segment != segment || found->name != name) return std::nullopt;
    return found->position;
  }

 private:
  std::vector<entry> entries_;
};

}  // namespace ferry::planning
