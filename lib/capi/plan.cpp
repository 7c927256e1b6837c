// Plans through the C interface: made from a profile's text, read, summarised.
#include "ferry/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "capi/objects.hpp"
#include "plan/formats.hpp"
#include "plan/json_reader.hpp"
#include "support/parse.hpp"
#include "support/text.hpp"

namespace ferry::capi {

namespace {

/// Reads a text of one of the formats. Throws: `format_error` that names the argument.
template <typename Read>
auto parse(std::string_view text, char const* argument, Read&& read) {
  std::istringstream in{std::string(text)};
  try {
    return read(in);
  } catch (support::bad_field const& problem) {
    throw format_error(fmt::format("'{}': {}", argument, problem.what()));
  }
}

profile read_profile_text(char const* text, char const* argument) {
  return parse(required_text(text, argument), argument, planning::parse_profile);
}

/// A name, or a description: no name begins with a brace.
hardware read_hardware_text(char const* given, char const* argument) {
  std::string_view const text = support::trimmed(required_text(given, argument));
  if (text.starts_with('{')) return parse(text, argument, planning::parse_hardware);
  return named_hardware(text);
}

std::size_t read_budget(char const* given, profile const& step) {
  std::string_view const text = required_text(given, "budget");
  std::size_t all_bytes = 0;
  for (auto const& segment : step.segments) {
    for (auto const& item : segment.items) all_bytes += item.bytes;
  }
  std::size_t bytes = 0;
  try {
    bytes = support::read_amount(text).of(all_bytes);
  } catch (support::bad_value const& problem) {
    throw setting_error(
        fmt::format("'budget' is {}: {}; accepted: bytes with an optional unit (12GiB), or a share of "
                    "what all items come to (20%)",
                    support::quoted(text), problem.what()));
  }
  if (bytes == 0) throw setting_error(fmt::format("'budget' is {}: no byte at all; raise it", support::quoted(text)));
  return bytes;
}

double share(double given, double otherwise, char const* member) {
  if (given == 0) return otherwise;
  if (given > 0 && given <= 1) return given;
  throw refusal(
      FERRY_ERROR_INVALID_ARGUMENT,
      fmt::format("'options.{}' is {}; pass a share above 0 and up to 1, or 0 for the default", member, given));
}

plan_options read_options(ferry_plan_options const* given) {
  plan_options options;
  if (given == nullptr) return options;
  auto const read = read_struct(given, "options");
  options.host_budget_bytes = read.host_budget_bytes;
  options.insured = read.uninsured == 0;
  options.link_derating = share(read.link_derating, options.link_derating, "link_derating");
  options.fragmentation_margin = read.fragmentation_margin;
  if (!(read.fragmentation_margin >= 0 && read.fragmentation_margin < 1)) {
    throw refusal(
        FERRY_ERROR_INVALID_ARGUMENT,
        fmt::format("'options.fragmentation_margin' is {}; pass a share from 0 to below 1", read.fragmentation_margin));
  }
  if (!(read.time_limit_ms >= 0)) {
    throw refusal(
        FERRY_ERROR_INVALID_ARGUMENT,
        fmt::format("'options.time_limit_ms' is {}; pass milliseconds, or 0 for the default", read.time_limit_ms));
  }
  if (read.time_limit_ms > 0) options.time_limit_ms = read.time_limit_ms;
  if (read.seed != 0) options.seed = read.seed;
  return options;
}

ferry_plan_summary summary_of(plan const& made) {
  auto const placed = [&](placement where) {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(made.items, [&](plan_item const& item) { return item.where == where; }));
  };
  return {.size = sizeof(ferry_plan_summary),
          .budget_bytes = made.budget_bytes,
          .items = made.items.size(),
          .kept_items = placed(placement::keep),
          .offloaded_items = placed(placement::offload),
          .recomputed_items = placed(placement::recompute),
          .insured = made.insured,
          .step_us = made.step_us,
          .unlimited_us = made.unlimited_us,
          .lower_bound_us = made.lower_bound_us,
          .overhead = made.overhead(),
          .waiting_us = made.waiting_us,
          .recompute_us = made.recompute_us,
          .device_peak_bytes = made.device.peak,
          .host_peak_bytes = made.host.peak,
          .offloaded_bytes = made.offloaded_bytes,
          .fetched_bytes = made.fetched_bytes};
}

ferry_plan* give_plan(plan made) { return publish<ferry_plan>(std::make_unique<plan_object>(std::move(made))); }

}  // namespace

}  // namespace ferry::capi

using namespace ferry;
using namespace ferry::capi;

ferry_status ferry_plan_make(char const* profile_json, char const* hardware, char const* budget,
                             ferry_plan_options const* options, ferry_plan** plan) {
  return guarded(__func__, [&] {
    auto*& given = result(plan, "plan");
    profile const step = read_profile_text(profile_json, "profile_json");
    auto const on = read_hardware_text(hardware, "hardware");
    plan_options how = read_options(options);
    how.budget_bytes = read_budget(budget, step);
    given = give_plan(make_plan(step, on, how));
  });
}

ferry_status ferry_plan_load(char const* file, ferry_plan** plan) {
  return guarded(__func__, [&] {
    auto*& given = result(plan, "plan");
    given = give_plan(read_plan(required_text(file, "file")));
  });
}

ferry_status ferry_plan_parse(char const* json, ferry_plan** plan) {
  return guarded(__func__, [&] {
    auto*& given = result(plan, "plan");
    given = give_plan(parse(required_text(json, "json"), "json", planning::parse_plan));
  });
}

ferry_status ferry_plan_to_json(ferry_plan* plan, char** json) {
  return guarded(__func__, [&] {
    auto*& given = result(json, "json");
    given = give_text(to_json(in_use<plan_object>(plan, "plan")->value));
  });
}

ferry_status ferry_plan_summarize(ferry_plan* plan, ferry_plan_summary* summary) {
  return guarded(__func__, [&] {
    in_use<plan_object> const of(plan, "plan");
    write_struct(summary, summary_of(of->value), "summary");
  });
}

ferry_status ferry_plan_require_match(ferry_plan* plan, char const* profile_json) {
  return guarded(__func__, [&] {
    in_use<plan_object> const of(plan, "plan");
    require_match(of->value, read_profile_text(profile_json, "profile_json"));
  });
}

ferry_status ferry_plan_destroy(ferry_plan* plan) {
  return guarded(__func__, [&] {
    in_use<plan_object> gone(plan, "plan");
    auto const freed = take_apart(gone, "plan");
  });
}

ferry_status ferry_hardware_names(char** names) {
  return guarded(__func__, [&] {
    auto*& given = result(names, "names");
    std::string lines;
    for (auto const& name : hardware_names()) lines += name + '\n';
    given = give_text(lines);
  });
}

ferry_status ferry_hardware_describe(char const* name, char** json) {
  return guarded(__func__, [&] {
    auto*& given = result(json, "json");
    given = give_text(to_json(named_hardware(required_text(name, "name"))));
  });
}
