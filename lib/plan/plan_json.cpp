// Plans as files: an item or an operation a line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plan/formats.hpp"
#include "plan/json_reader.hpp"
#include "plan/json_writer.hpp"
#include "plan/limits.hpp"
#include "support/text.hpp"

namespace ferry::planning {

namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 6> operation_words{"forward", "backward", "rebuild", "offload", "fetch", "drop"};
static_assert(static_cast<std::size_t>(plan_operation::kind::drop) + 1 == operation_words.size());

constexpr std::array placements{placement::keep, placement::offload, placement::recompute};

placement placement_of(fields const& from) {
  std::string const word = from.text("placement");
  for (placement const one : placements) {
    if (word == to_string(one)) return one;
  }
  throw bad_field(from.place_of("placement"), fmt::format("is {}", support::quoted(word)),
                  "give keep, offload or recompute");
}

plan_operation::kind kind_of(fields const& from) {
  std::string const word = from.text("op");
  for (std::size_t i = 0; i < operation_words.size(); ++i) {
    if (word == operation_words[i]) return static_cast<plan_operation::kind>(i);
  }
  throw bad_field(from.place_of("op"), fmt::format("is {}", support::quoted(word)),
                  fmt::format("give one of {}", fmt::join(operation_words, ", ")));
}

planned_bytes tier_of(fields const& from) {
  return {
      .limit = from.whole("limit_bytes"), .peak = from.whole("peak_bytes"), .average = from.number("average_bytes")};
}

class plan_parser {
 public:
  plan parse(std::istream& in) {
    std::vector<std::string_view> const tier{"limit_bytes", "peak_bytes", "average_bytes"};
    file_format const format{
        .kind = "plan",
        .version = plan::version,
        .objects = {{"",
                     {"ferry_plan", "profile", "hardware", "budget_bytes", "insured", "step_us", "unlimited_us",
                      "lower_bound_us", "waiting_us", "slowed_us", "recompute_us", "device", "host", "offloaded_bytes",
                      "fetched_bytes", "recomputed", "items", "operations"}},
                    {"device", tier},
                    {"host", tier},
                    {"recomputed", {"operation", "runs", "us", "flops"}},
                    {"items", {"segment", "name", "bytes", "placement", "rebuild_us", "reason"}},
                    {"operations",
                     {"op", "segment", "item", "position", "after", "start_us", "end_us", "latest_start_us"}}},
        .rows = {{"recomputed", [this](json const& row) { take_recomputed(row); }},
                 {"items", [this](json const& row) { take_item(row); }},
                 {"operations", [this](json const& row) { take_operation(row); }}}};
    json const document = read_rows(in, format);
    take_summary(fields(document));
    check_plan(plan_);
    return std::move(plan_);
  }

 private:
  void take_summary(fields const& from) {
    plan_.profile_name = from.text("profile");
    plan_.hardware_name = from.text("hardware");
    plan_.budget_bytes = from.whole("budget_bytes");
    plan_.insured = from.flag("insured");
    plan_.step_us = from.number("step_us");
    plan_.unlimited_us = from.number("unlimited_us");
    plan_.lower_bound_us = from.number("lower_bound_us");
    plan_.waiting_us = from.number("waiting_us");
    plan_.slowed_us = from.number("slowed_us", 0);
    plan_.recompute_us = from.number("recompute_us");
    plan_.device = tier_of(from.object("device"));
    plan_.host = tier_of(from.object("host"));
    plan_.offloaded_bytes = from.whole("offloaded_bytes");
    plan_.fetched_bytes = from.whole("fetched_bytes");
    for (auto const* key : {"recomputed", "items", "operations"}) static_cast<void>(from.array(key));
  }

  static void require_room(std::size_t count, std::size_t most) {
    if (count < most) return;
    throw bad_field("", fmt::format("is one more than the {} that a plan may have", most), "plan a smaller step");
  }

  void take_recomputed(json const& row) {
    require_room(plan_.recomputed.size(), limits::recomputed);
    fields const from(row);
    plan_.recomputed.push_back({.operation = from.text("operation", limits::name_chars),
                                .runs = from.whole("runs"),
                                .us = from.number("us"),
                                .flops = from.number("flops", 0)});
  }

  void take_item(json const& row) {
    require_room(plan_.items.size(), limits::items);
    fields const from(row);
    plan_.items.push_back(
        {.item = {from.index("segment"), from.text("name", limits::name_chars)},
         .bytes = from.whole("bytes"),
         .where = placement_of(from),
         .rebuild_us = from.has("rebuild_us") ? std::optional(from.number("rebuild_us")) : std::nullopt,
         .reason = from.has("reason") ? from.text("reason") : ""});
  }

  void take_operation(json const& row) {
    require_room(plan_.operations.size(), limits::operations);
    fields const from(row);
    plan_operation one{.what = kind_of(from),
                       .segment = from.index("segment"),
                       .item = from.has("item") ? from.text("item", limits::name_chars) : "",
                       .position = from.index("position"),
                       .after = {},
                       .start_us = from.number("start_us"),
                       .end_us = from.number("end_us"),
                       .latest_start_us = from.number("latest_start_us")};
    if (from.has("after")) {
      json const& after = from.array("after");
      waits_ += after.size();
      if (waits_ > limits::all_waits) {
        throw bad_field("after", fmt::format("makes more than {} waits in all", limits::all_waits),
                        "plan a smaller step");
      }
      one.after.reserve(after.size());
      for (std::size_t i = 0; i < after.size(); ++i) one.after.push_back(index_of(after[i], "after", i));
    }
    plan_.operations.push_back(std::move(one));
  }

  plan plan_;
  std::size_t waits_ = 0;
};

std::string json_of(planned_bytes const& tier) {
  return fmt::format(R"({{"limit_bytes": {}, "peak_bytes": {}, "average_bytes": {}}})", tier.limit, tier.peak,
                     tier.average);
}

std::string json_of(recompute_share const& share) {
  return fmt::format(R"({{"operation": {}, "runs": {}, "us": {}, "flops": {}}})", json_text(share.operation),
                     share.runs, share.us, share.flops);
}

std::string json_of(plan_item const& item) {
  std::string const reason = item.reason.empty() ? "" : fmt::format(R"(, "reason": {})", json_text(item.reason));
  std::string const rebuild = item.rebuild_us ? fmt::format(R"(, "rebuild_us": {})", *item.rebuild_us) : "";
  return fmt::format(R"({{"segment": {}, "name": {}, "bytes": {}, "placement": "{}"{}{}}})", item.item.segment,
                     json_text(item.item.name), item.bytes, to_string(item.where), rebuild, reason);
}

std::string json_of(plan_operation const& one) {
  std::string const item = one.item.empty() ? "" : fmt::format(R"(, "item": {})", json_text(one.item));
  std::string const after = one.after.empty() ? "" : fmt::format(R"(, "after": [{}])", fmt::join(one.after, ", "));
  return fmt::format(
      R"({{"op": "{}", "segment": {}{}, "position": {}{}, "start_us": {}, "end_us": {}, "latest_start_us": {}}})",
      operation_words[static_cast<std::size_t>(one.what)], one.segment, item, one.position, after, one.start_us,
      one.end_us, one.latest_start_us);
}

template <typename Row>
void write_rows(std::string& out, std::string_view key, std::vector<Row> const& all) {
  out += fmt::format(",\n  \"{}\": ", key);
  row_writer rows(out, "  ");
  for (Row const& row : all) rows.row(json_of(row));
  rows.end();
}

}  // namespace

plan parse_plan(std::istream& in) { return plan_parser().parse(in); }

}  // namespace ferry::planning

namespace ferry {

plan read_plan(std::filesystem::path const& file) {
  plan planned;
  planning::with_file(file, [&](std::istream& in) { planned = planning::parse_plan(in); });
  return planned;
}

std::string to_json(plan const& planned) {
  planning::check_plan(planned);
  std::string out =
      fmt::format(R"({{
  "ferry_plan": {},
  "profile": {},
  "hardware": {},
  "budget_bytes": {},
  "insured": {},
  "step_us": {},
  "unlimited_us": {},
  "lower_bound_us": {},
  "waiting_us": {},
  "slowed_us": {},
  "recompute_us": {},
  "device": {},
  "host": {},
  "offloaded_bytes": {},
  "fetched_bytes": {})",
                  plan::version, planning::json_text(planned.profile_name), planning::json_text(planned.hardware_name),
                  planned.budget_bytes, planned.insured, planned.step_us, planned.unlimited_us, planned.lower_bound_us,
                  planned.waiting_us, planned.slowed_us, planned.recompute_us, planning::json_of(planned.device),
                  planning::json_of(planned.host), planned.offloaded_bytes, planned.fetched_bytes);
  planning::write_rows(out, "recomputed", planned.recomputed);
  planning::write_rows(out, "items", planned.items);
  planning::write_rows(out, "operations", planned.operations);
  return out + "\n}\n";
}

}  // namespace ferry
