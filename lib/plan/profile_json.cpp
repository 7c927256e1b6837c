// Profiles as files. Segments that follow each other and are alike are written once: a recipe names what it reads of
// other segments by how far back they are, so that the blocks of a GPT are alike.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plan/contention_json.hpp"
#include "plan/formats.hpp"
#include "plan/json_reader.hpp"
#include "plan/json_writer.hpp"
#include "plan/limits.hpp"

namespace ferry::planning {

namespace {

using nlohmann::json;

constexpr std::size_t most_names_in_row = 1'000;  // of the order of need

/// A recipe's input before it is known which segment reads it.
struct relative_input {
  std::string name;
  std::uint32_t back = 0;
};

class profile_parser {
 public:
  profile parse(std::istream& in) {
    file_format const format{.kind = "profile",
                             .version = profile::version,
                             .objects = {{"", {"ferry_profile", "name", "segments", "need_order", "contention"}},
                                         {"contention", contention_keys()},
                                         {"segments",
                                          {"repeat", "forward_us", "backward_us", "forward_scratch_bytes",
                                           "backward_scratch_bytes", "items"}},
                                         {"segments.items", {"name", "bytes", "recipe_us", "flops", "inputs"}},
                                         {"segments.items.inputs", {"name", "back"}},
                                         {"need_order", {"from", "to", "items"}}},
                             .rows = {{"segments.items", [this](json const& row) { take_item(row); }},
                                      {"segments", [this](json const& row) { take_segment(row); }},
                                      {"need_order", [this](json const& row) { take_needs(row); }}}};
    json const document = read_rows(in, format);
    fields const all(document);
    step_.name = all.text("name");
    static_cast<void>(all.array("segments"));
    if (all.has("need_order")) static_cast<void>(all.array("need_order"));
    if (all.has("contention")) step_.beside = contention_of(all.object("contention"));
    check_profile(step_, rows_);
    return std::move(step_);
  }

 private:
  /// Items wait for the end of their segment, which may repeat them.
  void take_item(json const& row) {
    if (items_.size() + items_so_far_ == limits::items) {
      throw bad_field("", fmt::format("is one more than the {} items that a step may have", limits::items),
                      "join some");
    }
    fields const from(row);
    profile_item item;
    item.name = from.text("name", limits::name_chars);
    item.bytes = from.whole("bytes");
    if (from.has("recipe_us")) item.recipe_us = from.number("recipe_us");
    item.recipe_flops = from.number("flops", 0);
    items_.push_back(std::move(item));
    inputs_.push_back(inputs_of(from));
  }

  static std::vector<relative_input> inputs_of(fields const& item) {
    if (!item.has("inputs")) return {};
    json const& from = item.array("inputs");
    if (from.size() > limits::inputs) {
      throw bad_field("inputs", fmt::format("are {}", from.size()),
                      fmt::format("a recipe reads at most {} items", limits::inputs));
    }
    std::vector<relative_input> inputs;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i].is_object()) {
        fields const one(from[i], fmt::format("inputs[{}]", i));
        inputs.push_back({one.text("name", limits::name_chars), segments_back(one)});
      } else {
        inputs.push_back({text_of(from[i], "inputs", i, limits::name_chars), 0});
      }
    }
    return inputs;
  }

  static std::uint32_t segments_back(fields const& input) {
    if (input.number("back", 0) < 0) {
      throw bad_field(input.place_of("back"), "is negative: a later segment",
                      "a recipe reads its own segment and those before it");
    }
    return input.index("back", 0);
  }

  void take_segment(json const& row) {
    fields const from(row);
    profile_segment segment{.forward_us = from.number("forward_us"),
                            .backward_us = from.number("backward_us"),
                            .forward_scratch_bytes = from.whole("forward_scratch_bytes", 0),
                            .backward_scratch_bytes = from.whole("backward_scratch_bytes", 0),
                            .items = {}};
    static_cast<void>(from.array("items"));
    std::size_t const repeat = from.whole("repeat", 1);
    if (repeat < 1 || repeat > limits::segments - step_.segments.size()) {
      throw bad_field("repeat", fmt::format("is {}", repeat),
                      fmt::format("give at least 1, and at most {} segments in all", limits::segments));
    }
    if (repeat * items_.size() > limits::items - items_so_far_) {
      throw bad_field("repeat", fmt::format("makes more than {} items", limits::items), "give a smaller one");
    }
    std::size_t inputs = 0;
    for (auto const& of_item : inputs_) inputs += of_item.size();
    if (repeat * inputs > limits::all_inputs - inputs_so_far_) {
      throw bad_field("items", fmt::format("make more than {} inputs of recipes", limits::all_inputs), "join some");
    }
    inputs_so_far_ += repeat * inputs;
    segment.items = std::exchange(items_, {});
    items_so_far_ += repeat * segment.items.size();
    for (std::size_t i = 0; i < repeat; ++i) {
      resolve_inputs(segment);
      rows_.push_back(next_row_);
      step_.segments.push_back(segment);
    }
    inputs_.clear();
    ++next_row_;
  }

  /// For the segment that comes next.
  void resolve_inputs(profile_segment& segment) const {
    std::size_t const here = step_.segments.size();
    for (std::size_t i = 0; i < segment.items.size(); ++i) {
      segment.items[i].inputs.clear();
      for (std::size_t k = 0; k < inputs_[i].size(); ++k) {
        relative_input const& input = inputs_[i][k];
        if (input.back > here) {
          throw bad_field(fmt::format("items[{}].inputs[{}].back", i, k),
                          fmt::format("is {} in segment {}", input.back, here), "there is nothing before segment 0");
        }
        segment.items[i].inputs.push_back({static_cast<std::uint32_t>(here - input.back), input.name});
      }
    }
  }

  void take_needs(json const& row) {
    fields const from(row);
    std::uint32_t const first = from.index("from");
    std::uint32_t const last = from.index("to", first);
    if (first >= limits::segments || last > first) {
      throw bad_field("", fmt::format("goes from {} to {}", first, last), "backward goes down: give from >= to");
    }
    json const& names = from.array("items");
    if ((first - last + 1) * names.size() > limits::items - step_.need_order.size()) {
      throw bad_field("", fmt::format("makes more than {} needs", limits::items), "name each item once");
    }
    for (std::uint32_t segment = first + 1; segment-- > last;) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        step_.need_order.push_back({segment, text_of(names[i], "items", i, limits::name_chars)});
      }
    }
  }

  profile step_;
  std::vector<std::uint32_t> rows_;  // the row of each segment
  std::uint32_t next_row_ = 0;
  std::size_t inputs_so_far_ = 0;
  std::size_t items_so_far_ = 0;                     // in whole segments
  std::vector<profile_item> items_;                  // of the segment under way
  std::vector<std::vector<relative_input>> inputs_;  // of these
};

std::string input_text(item_name const& input, std::size_t segment) {
  if (input.segment == segment) return json_text(input.name);
  return fmt::format(R"({{"name": {}, "back": {}}})", json_text(input.name), segment - input.segment);
}

std::string item_text(profile_item const& item, std::size_t segment) {
  std::string text = fmt::format(R"({{"name": {}, "bytes": {})", json_text(item.name), item.bytes);
  if (item.recipe_us) text += fmt::format(R"(, "recipe_us": {})", *item.recipe_us);
  if (item.recipe_flops > 0) text += fmt::format(R"(, "flops": {})", item.recipe_flops);
  if (!item.inputs.empty()) {
    text += R"(, "inputs": [)";
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      text.append(i == 0 ? "" : ", ").append(input_text(item.inputs[i], segment));
    }
    text += ']';
  }
  return text + '}';
}

/// Without the brace that opens it, so that a number of repetitions can be put in front.
std::string segment_text(profile_segment const& segment, std::size_t index) {
  std::string text = fmt::format(R"("forward_us": {}, "backward_us": {})", segment.forward_us, segment.backward_us);
  if (segment.forward_scratch_bytes > 0) {
    text += fmt::format(R"(, "forward_scratch_bytes": {})", segment.forward_scratch_bytes);
  }
  if (segment.backward_scratch_bytes > 0) {
    text += fmt::format(R"(, "backward_scratch_bytes": {})", segment.backward_scratch_bytes);
  }
  text += R"(, "items": )";
  row_writer rows(text, "    ");
  for (auto const& item : segment.items) rows.row(item_text(item, index));
  rows.end();
  return text + '}';
}

void write_segments(std::string& out, std::vector<profile_segment> const& segments) {
  row_writer rows(out, "  ");
  std::string previous;
  std::size_t repeat = 0;
  auto const flush = [&] {
    if (repeat == 1) rows.row("{" + previous);
    if (repeat > 1) rows.row(fmt::format(R"({{"repeat": {}, {})", repeat, previous));
  };
  for (std::size_t i = 0; i < segments.size(); ++i) {
    std::string text = segment_text(segments[i], i);
    if (text != previous) {
      flush();
      previous = std::move(text);
      repeat = 0;
    }
    ++repeat;
  }
  flush();
  rows.end();
}

/// Needs of one segment after another in `order`; those of segments further down that are alike share the row.
void write_needs(std::string& out, std::vector<item_name> const& order) {
  struct row {
    std::uint32_t from, to;
    std::string names;
  };
  row_writer rows(out, "  ");
  auto const write = [&](row const& r) {
    if (r.names.empty()) return;
    std::string const to = r.to == r.from ? "" : fmt::format(R"("to": {}, )", r.to);
    rows.row(fmt::format(R"({{"from": {}, {}"items": [{}]}})", r.from, to, r.names));
  };
  row held{};
  for (std::size_t i = 0; i < order.size();) {
    row next{order[i].segment, order[i].segment, {}};
    for (std::size_t n = 0; n < most_names_in_row && i < order.size() && order[i].segment == next.from; ++n, ++i) {
      next.names.append(n == 0 ? "" : ", ").append(json_text(order[i].name));
    }
    if (held.names == next.names && held.to == next.from + 1) {
      held.to = next.from;
    } else {
      write(held);
      held = std::move(next);
    }
  }
  write(held);
  rows.end();
}

}  // namespace

profile parse_profile(std::istream& in) { return profile_parser().parse(in); }

}  // namespace ferry::planning

namespace ferry {

profile read_profile(std::filesystem::path const& file) {
  profile step;
  planning::with_file(file, [&](std::istream& in) { step = planning::parse_profile(in); });
  return step;
}

std::string to_json(profile const& step) {
  step.check();
  std::string out = fmt::format("{{\n  \"ferry_profile\": {},\n  \"name\": {},\n  \"segments\": ", profile::version,
                                planning::json_text(step.name));
  planning::write_segments(out, step.segments);
  out += ",\n  \"need_order\": ";
  planning::write_needs(out, step.need_order);
  if (step.beside.any()) out += fmt::format(",\n  \"contention\": {}", planning::json_of(step.beside));
  return out + "\n}\n";
}

}  // namespace ferry
