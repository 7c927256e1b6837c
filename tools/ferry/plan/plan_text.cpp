#include "plan_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "common/printable.hpp"
#include "common/table.hpp"
#include "common/terminal.hpp"
#include "common/timeline.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

char letter_of(placement where) {
  switch (where) {
    case placement::keep:
      return 'K';
    case placement::offload:
      return 'F';
    case placement::recompute:
      return 'R';
  }
  return '?';
}

using items = std::span<plan_item const>;

/// Of each segment that has any. Items stand in the order of segments.
std::vector<items> by_segment(plan const& planned) {
  std::vector<items> segments;
  for (std::size_t begin = 0; begin < planned.items.size();) {
    std::size_t end = begin;
    while (end < planned.items.size() && planned.items[end].item.segment == planned.items[begin].item.segment) ++end;
    segments.push_back(items(planned.items).subspan(begin, end - begin));
    begin = end;
  }
  return segments;
}

bool same_fate(items a, items b) {
  return std::ranges::equal(a, b, [](plan_item const& x, plan_item const& y) {
    return x.item.name == y.item.name && x.where == y.where && x.bytes == y.bytes;
  });
}

std::vector<std::string> all_names(plan const& planned) {
  std::vector<std::string> names;
  for (auto const& one : planned.items) {
    if (std::ranges::find(names, one.item.name) == names.end()) names.push_back(one.item.name);
    constexpr std::size_t far_too_many = 1000;
    if (names.size() > far_too_many) break;
  }
  return names;
}

/// One column per name as long as they fit beside the bytes, otherwise the letters of a segment side by side.
class letter_columns {
 public:
  explicit letter_columns(plan const& planned) : names_(all_names(planned)) {
    constexpr std::size_t widest = 80;
    constexpr std::size_t beside = 10;
    std::size_t const room = terminal_columns() - std::min(terminal_columns(), beside);
    std::size_t width = 0;
    for (auto const& name : names_) width += name.size() + 2;
    if (width <= std::min(widest, room)) {
      width_ = width;
      return;
    }
    names_.clear();
    for (auto const& segment : by_segment(planned)) width_ = std::max(width_, segment.size() + 2);
    width_ = std::max(width_, header().size() + 2);
  }

  [[nodiscard]] std::string header() const {
    if (names_.empty()) return "in order of saving";
    return fmt::format("{}", fmt::join(names_, "  "));
  }

  [[nodiscard]] std::string row(items of) const {
    std::string text;
    if (names_.empty()) {
      for (auto const& one : of) text += letter_of(one.where);
      return text;
    }
    for (auto const& name : names_) {
      auto const found = std::ranges::find(of, name, [](plan_item const& one) { return one.item.name; });
      text += fmt::format("{:<{}}", found == of.end() ? ' ' : letter_of(found->where), name.size() + 2);
    }
    return text;
  }

  [[nodiscard]] std::size_t width() const noexcept { return width_; }

 private:
  std::vector<std::string> names_;
  std::size_t width_ = 0;
};

std::string words_of_bytes(items of, placement where) {
  std::size_t bytes = 0;
  for (auto const& one : of) bytes += one.where == where ? one.bytes : 0;
  return bytes == 0 ? "-" : format_bytes(bytes);
}

std::string words_of(planned_bytes const& tier) {
  return fmt::format("peak {} of {}, average {}", format_bytes(tier.peak), format_bytes(tier.limit),
                     format_bytes(static_cast<std::size_t>(std::max(tier.average, 0.0))));
}

nlohmann::ordered_json json_of(planned_bytes const& tier) {
  return {{"limit_bytes", tier.limit}, {"peak_bytes", tier.peak}, {"average_bytes", tier.average}};
}

}  // namespace

double gap(plan const& planned) noexcept {
  return planned.lower_bound_us > 0 ? std::max(planned.step_us / planned.lower_bound_us - 1, 0.0) : 0;
}

double recompute_flops(plan const& planned) noexcept {
  double flops = 0;
  for (auto const& one : planned.recomputed) flops += one.flops;
  return flops;
}

std::string words_of_range(std::size_t first, std::size_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

std::string placement_table(plan const& planned) {
  letter_columns const columns(planned);
  auto const segments = by_segment(planned);
  using side = table::side;
  table made({{.width = 10, .at = side::left},
              {.width = columns.width(), .at = side::left, .gap = 0},
              {.width = 10, .gap = 0},
              {.width = 10, .gap = 0},
              {.width = 10, .gap = 0}});
  made.row({"segments", columns.header(), "kept", "ferried", "rebuilt"});
  for (std::size_t i = 0; i < segments.size();) {
    std::size_t last = i;
    while (last + 1 < segments.size() && same_fate(segments[i], segments[last + 1])) ++last;
    auto const range = words_of_range(segments[i].front().item.segment, segments[last].front().item.segment);
    made.row({range, columns.row(segments[i]), words_of_bytes(segments[i], placement::keep),
              words_of_bytes(segments[i], placement::offload), words_of_bytes(segments[i], placement::recompute)});
    i = last + 1;
  }
  return printable(made.text()) + "K keep, F ferry, R recompute; bytes are each segment's\n";
}

std::string forecast(plan const& planned) {
  std::string text;
  auto const line = [&text](char const* name, std::string const& words) {
    text += fmt::format("{:<12}{}\n", name, words);
  };
  line("step", fmt::format("{}, {} with unlimited memory: overhead {:.2f}%", words_of_time(planned.step_us),
                           words_of_time(planned.unlimited_us), 100 * std::max(planned.overhead(), 0.0)));
  line("bound", fmt::format("no schedule is faster than {}; this one is at most {:.2f}% slower",
                            words_of_time(planned.lower_bound_us), 100 * gap(planned)));
  line("waiting", words_of_time(planned.waiting_us));
  line("recompute",
       fmt::format("{}, {}", words_of_time(planned.recompute_us), words_of_flops(recompute_flops(planned))));
  auto shares = planned.recomputed;
  std::ranges::stable_sort(shares, std::greater{}, &recompute_share::us);
  constexpr std::size_t most_shown = 12;
  for (auto const& one : std::span(shares).first(std::min(shares.size(), most_shown))) {
    line("", fmt::format("{:<8} {:>4} x  {:>8}  {:>11}", printable(one.operation), one.runs, words_of_time(one.us),
                         words_of_flops(one.flops)));
  }
  if (shares.size() > most_shown) line("", fmt::format("and {} more", shares.size() - most_shown));
  line("link",
       fmt::format("{} out, {} in", format_bytes(planned.offloaded_bytes), format_bytes(planned.fetched_bytes)));
  line("device", words_of(planned.device));
  line("host", words_of(planned.host));
  line("insured", planned.insured ? "yes: what is ferried can be rebuilt from something that stays"
                                  : "no: what is ferried has to come back over the link");
  return text;
}

std::string timeline(plan const& planned) {
  using kind = plan_operation::kind;
  auto lanes = three_lanes();
  for (auto const& op : planned.operations) {
    auto const add = [&](std::size_t lane, char letter) {
      lanes[lane].spans.push_back({op.start_us, op.end_us, letter});
    };
    switch (op.what) {
      case kind::forward:
        add(0, 'F');
        break;
      case kind::backward:
        add(0, 'B');
        break;
      case kind::rebuild:
        add(0, 'R');
        break;
      case kind::offload:
        add(1, '>');
        break;
      case kind::fetch:
        add(2, '<');
        break;
      case kind::drop:
        break;
    }
  }
  return draw(lanes, planned.step_us) + "F forward, B backward, R rebuild, > out, < in, . idle\n";
}

std::string reasons(plan const& planned, std::string const& of) {
  auto const names = all_names(planned);
  bool const by_name = std::ranges::find(names, of) != names.end();
  std::uint32_t segment = 0;
  auto const [stop, status] = std::from_chars(of.data(), of.data() + of.size(), segment);
  bool const by_segment = !by_name && !of.empty() && status == std::errc{} && stop == of.data() + of.size();
  std::string text;
  for (auto const& name : names) {
    if (by_name && name != of) continue;
    plan_item const* first = nullptr;
    plan_item const* last = nullptr;
    auto const tell = [&] {
      if (first == nullptr) return;
      text +=
          fmt::format("{:<10}{:<8} {}\n", words_of_range(first->item.segment, last->item.segment), name, first->reason);
    };
    for (auto const& one : planned.items) {
      if (one.item.name != name || (by_segment && one.item.segment != segment)) continue;
      bool const goes_on =
          first != nullptr && one.reason == first->reason && one.item.segment == last->item.segment + 1;
      if (!goes_on) {
        tell();
        first = &one;
      }
      last = &one;
    }
    tell();
  }
  return printable(text);
}

nlohmann::ordered_json report(plan const& planned, given_step const& given) {
  auto items = nlohmann::ordered_json::array();
  for (auto const& one : planned.items) {
    items.push_back({{"segment", one.item.segment},
                     {"name", one.item.name},
                     {"bytes", one.bytes},
                     {"placement", to_string(one.where)},
                     {"reason", one.reason}});
  }
  auto recomputed = nlohmann::ordered_json::array();
  for (auto const& one : planned.recomputed) {
    recomputed.push_back({{"operation", one.operation}, {"runs", one.runs}, {"us", one.us}, {"flops", one.flops}});
  }
  return {{"profile", planned.profile_name},
          {"hardware", planned.hardware_name},
          {"keep_all_bytes", given.keep_all_bytes},
          {"budget_bytes", planned.budget_bytes},
          {"insured", planned.insured},
          {"step_us", planned.step_us},
          {"unlimited_us", planned.unlimited_us},
          {"overhead", planned.overhead()},
          {"lower_bound_us", planned.lower_bound_us},
          {"gap", gap(planned)},
          {"waiting_us", planned.waiting_us},
          {"recompute_us", planned.recompute_us},
          {"recompute_flops", recompute_flops(planned)},
          {"recomputed", std::move(recomputed)},
          {"offloaded_bytes", planned.offloaded_bytes},
          {"fetched_bytes", planned.fetched_bytes},
          {"device", json_of(planned.device)},
          {"host", json_of(planned.host)},
          {"items", std::move(items)}};
}

}  // namespace ferry::command
