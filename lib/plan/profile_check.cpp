// The rules of a profile: numbers within their limits, names unique, recipes that read what exists by then and never
// themselves. Everything is linear in the profile's size but for sorting names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/contention_json.hpp"
#include "plan/formats.hpp"
#include "plan/item_index.hpp"
#include "plan/json_reader.hpp"
#include "plan/limits.hpp"
#include "support/text.hpp"

namespace ferry::planning {

namespace {

class profile_checker {
 public:
  profile_checker(profile const& step, std::span<std::uint32_t const> rows) : step_(step), rows_(rows) {}

  void run() {
    check_text(step_.name, "name");
    count();
    for (std::size_t s = 0; s < step_.segments.size(); ++s) check_numbers(s);
    if (total_inputs_ > limits::all_inputs) {
      throw bad_field("segments", fmt::format("have more than {} inputs of recipes", limits::all_inputs), "join some");
    }
    if (!limits::within(total_us_, limits::all_us)) {
      throw bad_field("segments", "all times together exceed 1e15 microseconds", "correct them");
    }
    index_items();
    for (std::size_t s = 0; s < step_.segments.size(); ++s) check_recipes(s);
    check_need_order();
    check_contention(step_.beside, "contention");
  }

 private:
  /// "segments[3].items[2].bytes"; for a segment that a file has only by repetition, its number as well.
  [[nodiscard]] std::string place(std::size_t segment, std::string_view rest) const {
    std::size_t const row = rows_.empty() ? segment : rows_[segment];
    std::string text = fmt::format("segments[{}].{}", row, rest);
    if (row != segment) text += fmt::format(" (segment {})", segment);
    return text;
  }
  [[nodiscard]] std::string place(std::size_t segment, std::size_t item, std::string_view rest) const {
    return place(segment, fmt::format("items[{}].{}", item, rest));
  }

  void count() const {
    if (step_.segments.empty()) throw bad_field("segments", "is empty", "a step has at least one");
    if (step_.segments.size() > limits::segments) {
      throw bad_field("segments", fmt::format("has more than {}", limits::segments), "join some");
    }
    std::size_t items = 0;
    for (auto const& segment : step_.segments) items += segment.items.size();
    if (items > limits::items) {
      throw bad_field("segments", fmt::format("have more than {} items together", limits::items), "join some");
    }
  }

  template <typename Place>
  void check_us(double value, Place const& where) {
    if (!limits::within(value, limits::us)) {
      throw bad_field(where(), fmt::format("is {}", value), "give microseconds from 0 to 1e12");
    }
    total_us_ += value;
  }

  template <typename Place>
  static void check_bytes(std::size_t value, Place const& where) {
    if (value > limits::bytes) throw bad_field(where(), fmt::format("is {}", value), "give bytes from 0 to 2^50");
  }

  void check_numbers(std::size_t s) {
    profile_segment const& segment = step_.segments[s];
    check_us(segment.forward_us, [&] { return place(s, "forward_us"); });
    check_us(segment.backward_us, [&] { return place(s, "backward_us"); });
    check_bytes(segment.forward_scratch_bytes, [&] { return place(s, "forward_scratch_bytes"); });
    check_bytes(segment.backward_scratch_bytes, [&] { return place(s, "backward_scratch_bytes"); });
    for (std::size_t i = 0; i < segment.items.size(); ++i) {
      profile_item const& item = segment.items[i];
      if (item.name.empty() || item.name.size() > limits::name_chars) {
        check_name(item.name, place(s, i, "name"));
      }
      check_bytes(item.bytes, [&] { return place(s, i, "bytes"); });
      total_bytes_ += item.bytes;
      if (total_bytes_ > limits::all_bytes) {
        throw bad_field(place(s, i, "bytes"), "makes all items together exceed 2^53 bytes", "correct them");
      }
      total_inputs_ += item.inputs.size();
      if (item.recipe_us) check_us(*item.recipe_us, [&] { return place(s, i, "recipe_us"); });
      if (!limits::within(item.recipe_flops, limits::flops)) {
        throw bad_field(place(s, i, "flops"), fmt::format("is {}", item.recipe_flops), "give FLOPs from 0 to 1e24");
      }
      if (!item.recipe_us && (!item.inputs.empty() || item.recipe_flops > 0)) {
        throw bad_field(place(s, i, item.inputs.empty() ? "flops" : "inputs"), "belongs to a recipe, and there is none",
                        "give recipe_us as well, or leave it out");
      }
      if (item.inputs.size() > limits::inputs) {
        throw bad_field(place(s, i, "inputs"), fmt::format("are {}", item.inputs.size()),
                        fmt::format("a recipe reads at most {} items", limits::inputs));
      }
    }
  }

  void index_items() {
    std::size_t items = 0;
    for (auto const& segment : step_.segments) items += segment.items.size();
    index_.reserve(items);
    for (std::uint32_t s = 0; s < step_.segments.size(); ++s) {
      for (std::size_t i = 0; i < step_.segments[s].items.size(); ++i)
        index_.add(s, step_.segments[s].items[i].name, i);
    }
    if (auto const twice = index_.settle()) {
      throw bad_field(place(twice->segment, twice->position, "name"),
                      fmt::format("{} stands in this segment twice", support::quoted(twice->name)),
                      "rename one of the two");
    }
  }

  /// The inputs exist by the time the item does. What a recipe reads of its own segment is noted for `find_cycle`.
  void check_recipes(std::size_t s) {
    auto const& items = step_.segments[s].items;
    std::vector<std::vector<std::size_t>> reads(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      for (std::size_t k = 0; k < items[i].inputs.size(); ++k) {
        item_name const& input = items[i].inputs[k];
        auto const here = [&] { return place(s, i, fmt::format("inputs[{}]", k)); };
        if (input.segment > s) {
          throw bad_field(
              here(), fmt::format("{} is in segment {}, after this one", support::quoted(input.name), input.segment),
              "a recipe reads its own segment and those before it");
        }
        auto const found = index_.find(input.segment, input.name);
        if (!found) {
          throw bad_field(here(), fmt::format("segment {} has no item {}", input.segment, support::quoted(input.name)),
                          "name one that it has");
        }
        if (input.segment == s) reads[i].push_back(*found);
      }
    }
    find_cycle(s, reads);
  }

  /// Depth first, without recursion: a file may chain a million recipes. Cycles lie within a segment, because recipes
  /// read no later one.
  void find_cycle(std::size_t s, std::vector<std::vector<std::size_t>> const& reads) const {
    enum class visit : std::uint8_t { never, under_way, done };
    std::vector<visit> state(reads.size(), visit::never);
    std::vector<std::pair<std::size_t, std::size_t>> trail;  // item, and which of its inputs is next
    for (std::size_t start = 0; start < reads.size(); ++start) {
      if (state[start] == visit::never) trail.emplace_back(start, 0);
      while (!trail.empty()) {
        auto& [item, next] = trail.back();
        state[item] = visit::under_way;
        if (next == reads[item].size()) {
          state[item] = visit::done;
          trail.pop_back();
          continue;
        }
        std::size_t const input = reads[item][next++];
        if (state[input] == visit::under_way) refuse_cycle(s, trail, input);
        if (state[input] == visit::never) trail.emplace_back(input, 0);
      }
    }
  }

  [[noreturn]] void refuse_cycle(std::size_t s, std::vector<std::pair<std::size_t, std::size_t>> const& trail,
                                 std::size_t again) const {
    constexpr std::size_t most_names = 6;
    std::vector<std::string> names;
    std::size_t at = trail.size();
    while (trail[at - 1].first != again) --at;
    for (std::size_t i = at - 1; i < trail.size() && names.size() < most_names; ++i) {
      names.push_back(support::quoted(step_.segments[s].items[trail[i].first].name));
    }
    names.push_back(trail.size() - at + 1 > most_names ? "... itself"
                                                       : support::quoted(step_.segments[s].items[again].name));
    throw bad_field(place(s, again, "inputs"),
                    fmt::format("{}: a recipe that needs itself", fmt::join(names, " needs ")), "break the cycle");
  }

  void check_need_order() const {
    item_index seen;
    seen.reserve(step_.need_order.size());
    for (std::size_t i = 0; i < step_.need_order.size(); ++i) {
      item_name const& item = step_.need_order[i];
      if (!index_.find(item.segment, item.name)) {
        throw bad_field("need_order",
                        fmt::format("segment {} has no item {}", item.segment, support::quoted(item.name)),
                        "name one that it has");
      }
      seen.add(item.segment, item.name, i);
    }
    if (auto const twice = seen.settle()) {
      throw bad_field("need_order",
                      fmt::format("{} of segment {} stands there twice", support::quoted(twice->name), twice->segment),
                      "leave its first need");
    }
  }

  profile const& step_;
  std::span<std::uint32_t const> rows_;
  item_index index_;
  std::size_t total_bytes_ = 0;
  std::size_t total_inputs_ = 0;
  double total_us_ = 0;
};

}  // namespace

void check_name(std::string_view name, std::string const& place) {
  if (name.empty()) throw bad_field(place, "is empty", "give a name");
  if (name.size() <= limits::name_chars) return;
  throw bad_field(place, fmt::format("{} is too long", support::quoted(name)),
                  fmt::format("give at most {} characters", limits::name_chars));
}

void check_text(std::string_view text, std::string const& place) {
  if (text.size() <= limits::text_chars) return;
  throw bad_field(place, fmt::format("{} is too long", support::quoted(text)),
                  fmt::format("give at most {} characters", limits::text_chars));
}

void check_profile(profile const& step, std::span<std::uint32_t const> rows) { profile_checker(step, rows).run(); }

}  // namespace ferry::planning

namespace ferry {

void profile::check() const { planning::check_profile(*this); }

}  // namespace ferry
