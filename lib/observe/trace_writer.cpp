#include "observe/trace_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "observe/setting_effects.hpp"

namespace ferry::observe {

namespace {

constexpr int process = 1;
constexpr int compute_lane = 1;
constexpr int out_lane = 2;
constexpr int in_lane = 3;
constexpr int host_lane = 4;
constexpr int more_compute_lanes = 5;

constexpr std::array<std::string_view, tier_count> tier_names{"device", "pinned", "in flight"};

int lane_of(std::uint32_t stream) { return stream == 0 ? compute_lane : more_compute_lanes + static_cast<int>(stream); }
int lane_of(copy_direction direction) { return direction == copy_direction::device_to_host ? out_lane : in_lane; }

std::string_view word_of(store::transfer_phase outcome) {
  switch (outcome) {
    case store::transfer_phase::completed:
      return "completed";
    case store::transfer_phase::abandoned:
      return "abandoned";
    default:
      return "failed";
  }
}

}  // namespace

trace_writer::trace_writer(std::string const& path, support::logger const& log, std::string_view device,
                           double tolerance_us)
    : file_("FERRY_TRACE", path, log), tolerance_us_(tolerance_us) {
  text_ = "[\n";
  begin_event("process_name", "", 'M', 0, compute_lane);
  argument("name", fmt::format("ferry on {}", device));
  end_event();
  name_lane(compute_lane, "compute");
  name_lane(out_lane, "out: device to host");
  name_lane(in_lane, "in: host to device");
  name_lane(host_lane, "host: decisions and waits");
  lanes_ = 1;
  flush();
}

void trace_writer::begin_event(std::string_view name, std::string_view category, char phase, double at_us, int lane) {
  fmt::format_to(std::back_inserter(text_), R"({}{{"name":{},"ph":"{}","ts":{:.3f},"pid":{},"tid":{})",
                 first_ ? "" : ",\n", support::json_string(name), phase, at_us, process, lane);
  if (!category.empty()) fmt::format_to(std::back_inserter(text_), R"(,"cat":"{}")", category);
  first_ = false;
  has_arguments_ = false;
}

void trace_writer::end_event() { text_ += has_arguments_ ? "}}" : "}"; }

void trace_writer::argument(std::string_view name, std::string_view text) {
  fmt::format_to(std::back_inserter(text_), R"({}"{}":{})", has_arguments_ ? "," : ",\"args\":{", name,
                 support::json_string(text));
  has_arguments_ = true;
}

void trace_writer::argument(std::string_view name, double value) {
  fmt::format_to(std::back_inserter(text_), R"({}"{}":{})", has_arguments_ ? "," : ",\"args\":{", name, value);
  has_arguments_ = true;
}

void trace_writer::argument(std::string_view name, std::uint64_t value) {
  fmt::format_to(std::back_inserter(text_), R"({}"{}":{})", has_arguments_ ? "," : ",\"args\":{", name, value);
  has_arguments_ = true;
}

void trace_writer::item_arguments(item_line const& item) {
  argument("item", to_string(item.key));
  argument("bytes", std::uint64_t{item.bytes});
}

void trace_writer::slice(std::string_view name, std::string_view category, double from_us, double to_us, int lane) {
  begin_event(name, category, 'X', from_us, lane);
  fmt::format_to(std::back_inserter(text_), R"(,"dur":{:.3f})", std::max(to_us - from_us, 0.0));
}

void trace_writer::name_lane(int lane, std::string_view name) {
  begin_event("thread_name", "", 'M', 0, lane);
  argument("name", name);
  end_event();
  begin_event("thread_sort_index", "", 'M', 0, lane);
  argument("sort_index", static_cast<std::uint64_t>(lane));
  end_event();
}

/// Viewers pass over metadata that they do not know.
void trace_writer::settings(config const& in_force, std::array<store::budget const*, tier_count> const& budgets) {
  begin_event("ferry_settings", "", 'M', 0, compute_lane);
  for (auto const& one : used_settings(in_force)) {
    if (one.given) argument(one.variable, one.value);
  }
  for (std::size_t i = 0; i < tier_count; ++i) {
    argument(fmt::format("{} limit_bytes", tier_names[i]), std::uint64_t{budgets[i]->limit_bytes()});
  }
  end_event();
  flush();
}

void trace_writer::write(step_record const& book) {
  if (!file_.is_open()) return;
  compute(book);
  copies(book);
  host(book);
  tiers(book);
  flows(book);
  flush();
}

void trace_writer::compute(step_record const& book) {
  for (; lanes_ < book.streams.size(); ++lanes_) name_lane(lane_of(lanes_), fmt::format("compute {}", lanes_ + 1));
  for (auto const& one : book.stretches) {
    if (one.from_us < 0 || one.to_us < 0) continue;  // its work failed
    std::string_view const which = one.which == pass::forward ? "forward" : "backward";
    slice(fmt::format("{} {}", which, one.segment), which, one.from_us, one.to_us, lane_of(one.lane));
    argument("step", book.number);
    argument("segment", std::uint64_t{one.segment});
    argument("micro_batch", std::uint64_t{one.micro_batch});
    end_event();
  }
  for (auto const& one : book.compute) {
    if (one.what == compute_line::kind::short_of_bytes && one.to_us <= one.from_us) continue;
    auto const name = book.has(one.item) ? book.items[one.item].key.name.view() : std::string_view("an item");
    switch (one.what) {
      case compute_line::kind::standing_still:
        slice(fmt::format("waiting for {}", name), "wait", one.from_us, one.to_us, lane_of(one.lane));
        break;
      case compute_line::kind::short_of_bytes:
        slice(fmt::format("waiting for bytes of {}", name), "short", one.from_us, one.to_us, lane_of(one.lane));
        break;
      case compute_line::kind::recipe:
        slice(fmt::format("rebuild {}", name), "rebuild", one.from_us, one.to_us, lane_of(one.lane));
        break;
    }
    if (book.has(one.item)) item_arguments(book.items[one.item]);
    end_event();
  }
}

void trace_writer::copies(step_record const& book) {
  for (auto const& one : book.copies) {
    bool const out = one.direction == copy_direction::device_to_host;
    slice(one.name.view(), out ? "offload" : "fetch", one.from_us, one.to_us, lane_of(one.direction));
    if (book.has(one.item)) {
      item_arguments(book.items[one.item]);
    } else {
      argument("bytes", std::uint64_t{one.bytes});
    }
    argument("arrived_bytes", std::uint64_t{one.arrived_bytes});
    argument("outcome", word_of(one.outcome));
    end_event();
  }
}

void trace_writer::host(step_record const& book) {
  if (book.number > 0) {
    slice(fmt::format("step {}", book.number), "step", book.began_us, book.ended_us, host_lane);
    if (book.planned_us > 0) argument("planned_us", book.planned_us);
    end_event();
  }
  for (auto const& one : book.waits) {
    bool const bytes = one.what == host_line::kind::waiting_for_bytes;
    slice(bytes ? "waiting for bytes" : "held back by FERRY_RUN_AHEAD", bytes ? "wait" : "run_ahead", one.from_us,
          one.to_us, host_lane);
    if (book.has(one.item)) item_arguments(book.items[one.item]);
    end_event();
  }
  for (auto const& one : book.decisions) {
    auto const& what = one.record;
    begin_event(to_string(what.why), "decision", 'i', what.at_us, host_lane);
    text_ += R"(,"s":"t")";
    argument("item", to_string(what.key));
    argument("bytes", std::uint64_t{what.bytes});
    argument("reason", to_string(what.why));
    argument("transfer_us", what.seen.transfer_us);
    argument("recipe_us", what.seen.recipe_us);
    argument("tolerance_us", tolerance_us_);
    argument("took_us", what.took_us);
    argument("words", explain(what));
    end_event();
  }
}

void trace_writer::tiers(step_record const& book) {
  for (auto const& one : book.tiers) {
    auto const name = tier_names[static_cast<std::size_t>(one.of)];
    begin_event(fmt::format("{} bytes", name), "", 'C', one.at_us, compute_lane);
    argument("bytes", std::uint64_t{one.bytes});
    end_event();
  }
}

/// From an item's way out over its way back to the stretch that needed it.
void trace_writer::flows(step_record const& book) {
  for (auto const& item : book.items) {
    bool const came_back = item.offload_ended_us >= 0 && item.arrived_us >= 0 && item.needed_in < book.stretches.size();
    if (!came_back) continue;
    auto const& stretch = book.stretches[item.needed_in];
    if (stretch.to_us < item.arrived_us) continue;  // it came for a later use, or the stretch has no times
    std::uint64_t const id = ++flows_;
    flow('s', id, item, item.offload_began_us, out_lane);
    flow('t', id, item, item.fetch_began_us, in_lane);
    flow('f', id, item, std::max(stretch.from_us, item.arrived_us), lane_of(stretch.lane));
  }
}

void trace_writer::flow(char phase, std::uint64_t id, item_line const& item, double at_us, int lane) {
  begin_event(item.key.name.view(), "ferried", phase, at_us, lane);
  fmt::format_to(std::back_inserter(text_), R"(,"id":{}{})", id, phase == 'f' ? R"(,"bp":"e")" : "");
  end_event();
}

void trace_writer::flush() noexcept {
  file_.append(text_);
  text_.clear();
}

void trace_writer::finish() noexcept { file_.append("\n]\n"); }

}  // namespace ferry::observe
