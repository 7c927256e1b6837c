#include "tape/tape_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "common/svg.hpp"
#include "common/timeline.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

using point = svg::point;
using anchor = svg::anchor;

constexpr double picture_width = 1060;
constexpr double left = 92;
constexpr double right = 140;
constexpr double plot_width = picture_width - left - right;
constexpr double title_height = 46;
constexpr double labels_height = 20;
constexpr double gap_height = 16;
constexpr double bytes_height = 96;
constexpr double axis_height = 34;
constexpr double legend_height = 30;
constexpr double letter_width = 6.0;  // of the texts' font, about

/// How much time and how many bytes the picture shows, the same for all panels.
struct scales {
  double most_us = 1;
  std::size_t most_bytes = 1;

  [[nodiscard]] double x(double us) const { return left + us / most_us * plot_width; }
  [[nodiscard]] double height(double bytes) const { return bytes / static_cast<double>(most_bytes) * bytes_height; }
};

double row_height(std::size_t items) {
  if (items <= 24) return 17;
  if (items <= 60) return 12;
  return items <= 130 ? 8 : std::max(3.0, 1000 / static_cast<double>(items));
}

double panel_height(tape const& of) {
  return title_height + labels_height + row_height(of.items.size()) * static_cast<double>(of.items.size()) +
         gap_height + bytes_height + axis_height;
}

/// 1, 2 or 5 times a power of ten, so that about `wanted` of them are `most`.
double round_step(double most, double wanted) {
  double const rough = most / wanted;
  double const power = std::pow(10, std::floor(std::log10(rough)));
  for (double const factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

/// One tape.
class panel {
 public:
  panel(svg& on, tape const& of, scales const& with, double top)
      : svg_(on),
        tape_(of),
        scales_(with),
        top_(top),
        row_(row_height(of.items.size())),
        rows_top_(top + title_height + labels_height),
        rows_bottom_(rows_top_ + row_ * static_cast<double>(of.items.size())),
        zero_(rows_bottom_ + gap_height + bytes_height) {}

  void draw() {
    title();
    steps();
    item_labels();
    for (auto const& one : tape_.spans) span(one);
    for (auto const& one : tape_.rebuilds) rebuild(one);
    bytes();
    levels();
    time_axis();
  }

 private:
  void title() {
    svg_.text({left, top_ + 20}, tape_.policy, anchor::start, "strong");
    auto const runs = tape_.recomputed_operations();
    auto words =
        fmt::format("peak {}, average {}; step {}", format_bytes(tape_.peak_bytes),
                    format_bytes(static_cast<std::size_t>(tape_.average_bytes + 0.5)), words_of_time(tape_.step_us));
    words += runs == 0 ? "; nothing rebuilt"
                       : fmt::format("; {} operations rebuilt beside forward's {}", runs, tape_.forward_operations);
    if (tape_.sent_bytes > 0) words += fmt::format("; {} to the host", format_bytes(tape_.sent_bytes));
    svg_.text({left, top_ + 38}, words, anchor::start, "faint");
  }

  /// Bands from the labels to the bytes; labels, above all bands, where there is room for them.
  void steps() {
    double const top = rows_top_ - labels_height;
    for (std::size_t i = 0; i < tape_.steps.size(); i += 2) {
      double const from = scales_.x(tape_.steps[i].start_us);
      svg_.rect(from, top, scales_.x(tape_.steps[i].end_us) - from, zero_ - top, "lane");
    }
    double free_from = 0;
    for (auto const& step : tape_.steps) {
      double const half = static_cast<double>(step.label.size()) * letter_width / 2;
      double const middle = (scales_.x(step.start_us) + scales_.x(step.end_us)) / 2;
      if (middle - half < free_from) continue;
      svg_.text({middle, rows_top_ - 6}, step.label, anchor::middle, "faint");
      free_from = middle + half + 5;
    }
    double const turn = scales_.x(tape_.steps[tape_.steps.size() / 2].start_us);
    svg_.line({turn, top}, {turn, zero_}, "axis dashed");
  }

  [[nodiscard]] double row_top(std::size_t item) const { return rows_top_ + row_ * static_cast<double>(item); }

  /// Each item's, or where rows are too low the segments'.
  void item_labels() {
    constexpr double lowest_row_with_label = 11;
    auto const& items = tape_.items;
    if (row_ >= lowest_row_with_label) {
      for (std::size_t k = 0; k < items.size(); ++k) {
        svg_.text({left - 8, row_top(k) + row_ / 2 + 4}, short_label(items[k].label), anchor::end);
      }
      return;
    }
    double free_from = 0;
    for (std::size_t first = 0; first < items.size();) {
      std::size_t next = first;
      while (next < items.size() && items[next].segment == items[first].segment) ++next;
      double const middle = (row_top(first) + row_top(next)) / 2;
      if (first > 0) svg_.line({left - 6, row_top(first)}, {left + plot_width, row_top(first)}, "grid");
      constexpr double line_height = 13;
      if (middle - line_height / 2 >= free_from) {
        svg_.text({left - 8, middle + 4}, group_label(items[first].segment), anchor::end, "faint");
        free_from = middle + line_height / 2;
      }
      first = next;
    }
  }

  /// By the number that its steps bear.
  [[nodiscard]] std::string group_label(std::uint32_t segment) const {
    return fmt::format("{} {}", tape_.first_number == 0 ? "segment" : "layer", segment + tape_.first_number);
  }

  static std::string short_label(std::string const& label) {
    constexpr std::size_t most = 12;
    return label.size() <= most ? label : label.substr(0, most - 2) + "..";
  }

  void span(tape_span const& one) {
    double const from = scales_.x(one.from_us);
    double const width = scales_.x(one.to_us) - from;
    double const edge = row_ > 6 ? 1.5 : 0.25;
    double const top = row_top(one.item) + edge;
    double const height = row_ - 2 * edge;
    auto const tip = fmt::format("{}: {} from {} to {}", tape_.items[one.item].label, words_of(one.where),
                                 words_of_time(one.from_us), words_of_time(one.to_us));
    auto const lower_half = [&] { svg_.rect(from, top + height / 2, width, height / 2, "host", tip); };
    switch (one.where) {
      case tape_place::absent:
        return;
      case tape_place::device:
        on_device(one, from, top, height, tip);
        return;
      case tape_place::leaving:
        svg_.rect(from, top, width, height, "device", tip);
        lower_half();
        return;
      case tape_place::host:
        lower_half();
        return;
      case tape_place::arriving:
        svg_.rect(from, top, width, height, "device pale", tip);
        lower_half();
        return;
      case tape_place::dropped:
        svg_.line({from, top + height / 2}, {from + width, top + height / 2}, "gap");
        return;
    }
  }

  /// Pale while its bytes are taken but its recipe has not begun.
  void on_device(tape_span const& one, double from, double top, double height, std::string const& tip) {
    double solid_us = one.from_us;
    for (auto const& run : tape_.rebuilds) {
      bool const of_this = run.item == one.item && run.from_us >= one.from_us && run.from_us < one.to_us;
      if (of_this) solid_us = run.from_us;
    }
    double const solid = scales_.x(solid_us);
    if (solid > from) svg_.rect(from, top, solid - from, height, "device pale", tip);
    svg_.rect(solid, top, scales_.x(one.to_us) - solid, height, "device", tip);
  }

  void rebuild(tape_rebuild const& one) {
    double const from = scales_.x(one.from_us);
    double const edge = row_ > 6 ? 1.5 : 0.25;
    auto const tip = fmt::format("{}: rebuilt from {} to {}", tape_.items[one.item].label, words_of_time(one.from_us),
                                 words_of_time(one.to_us));
    double const width = std::max(scales_.x(one.to_us) - from, 1.5);
    svg_.rect(from, row_top(one.item) + edge, width, row_ - 2 * edge, "rebuild", tip);
  }

  [[nodiscard]] double level(double bytes) const { return zero_ - scales_.height(bytes); }

  [[nodiscard]] std::vector<point> stairs(std::size_t tape_bytes::*tier) const {
    std::vector<point> through;
    for (std::size_t i = 0; i < tape_.curve.size(); ++i) {
      auto const& one = tape_.curve[i];
      bool const at_once_another = i + 1 < tape_.curve.size() && tape_.curve[i + 1].at_us == one.at_us;
      if (at_once_another) continue;
      double const y = level(static_cast<double>(one.*tier));
      double const x = scales_.x(one.at_us);
      if (!through.empty()) through.push_back({x, through.back().y});
      through.push_back({x, y});
    }
    if (!through.empty()) through.push_back({scales_.x(tape_.step_us), through.back().y});
    return through;
  }

  void bytes() {
    svg_.line({left, zero_}, {left + plot_width, zero_}, "axis");
    svg_.text({left - 8, zero_ + 4}, "0", anchor::end, "faint");
    auto const most = format_bytes(scales_.most_bytes);
    svg_.line({left - 4, zero_ - bytes_height}, {left + plot_width, zero_ - bytes_height}, "grid");
    svg_.text({left - 8, zero_ - bytes_height + 4}, most, anchor::end, "faint");
    auto curve = stairs(&tape_bytes::device);
    if (!curve.empty()) {
      auto surface = curve;
      surface.push_back({curve.back().x, zero_});
      surface.push_back({curve.front().x, zero_});
      svg_.area(surface, "device pale");
      svg_.curve(curve, "device-line");
    }
    if (tape_.host_peak_bytes > 0) svg_.curve(stairs(&tape_bytes::host), "host-line");
  }

  /// Peak, average and, if it is in sight, budget: lines, and words at the right that keep clear of each other.
  void levels() {
    struct named_level {
      double bytes;
      std::string words;
      std::string_view classes;
    };
    std::vector<named_level> all{
        {static_cast<double>(tape_.peak_bytes), fmt::format("peak {}", format_bytes(tape_.peak_bytes)), "device-line"},
        {tape_.average_bytes,
         fmt::format("average {}", format_bytes(static_cast<std::size_t>(tape_.average_bytes + 0.5))), "axis"}};
    if (tape_.budget_bytes <= scales_.most_bytes) {
      all.push_back({static_cast<double>(tape_.budget_bytes),
                     fmt::format("budget {}", format_bytes(tape_.budget_bytes)), "wait-line"});
    }
    if (tape_.host_peak_bytes > 0) {
      all.push_back({static_cast<double>(tape_.host_peak_bytes),
                     fmt::format("host {}", format_bytes(tape_.host_peak_bytes)), "host-line"});
    }
    std::ranges::stable_sort(all, std::greater{}, &named_level::bytes);
    // From the lowest upwards, each at its level or, where that is taken, right above the one before.
    double lowest_free = zero_ + 4;
    for (auto one = all.rbegin(); one != all.rend(); ++one) {
      constexpr double line_height = 13;
      double const y = level(one->bytes);
      double const words_y = std::min(y + 4, lowest_free);
      lowest_free = words_y - line_height;
      svg_.line({left, y}, {left + plot_width, y}, fmt::format("{} dashed", one->classes));
      svg_.line({left + plot_width, y}, {left + plot_width + 10, words_y - 4}, one->classes);
      svg_.text({left + plot_width + 14, words_y}, one->words, anchor::start, "faint");
    }
  }

  void time_axis() {
    double const tick_us = round_step(scales_.most_us, 8);
    for (double at = 0; at <= scales_.most_us * 1.0001; at += tick_us) {
      double const x = scales_.x(at);
      svg_.line({x, zero_}, {x, zero_ + 4}, "axis");
      svg_.text({x, zero_ + 17}, words_of_time(at), anchor::middle, "faint");
    }
  }

  svg& svg_;
  tape const& tape_;
  scales const& scales_;
  double top_;
  double row_;
  double rows_top_;
  double rows_bottom_;
  double zero_;  // of the bytes
};

bool occurs(std::span<tape const> tapes, tape_place where) {
  return std::ranges::any_of(tapes, [&](tape const& one) {
    return std::ranges::find(one.spans, where, &tape_span::where) != one.spans.end();
  });
}

/// Only what is in the picture.
void legend(svg& on, std::span<tape const> tapes, double top) {
  constexpr double box = 22;
  constexpr double height = 12;
  double x = left;
  auto const add = [&](std::string_view words, auto const& draw) {
    draw();
    on.text({x + box + 6, top + 10}, words, anchor::start, "faint");
    x += box + 6 + static_cast<double>(words.size()) * letter_width + 16;
  };
  auto const upper = [&](char const* classes) { on.rect(x, top, box, height, classes); };
  auto const lower_half = [&] { on.rect(x, top + height / 2, box, height / 2, "host"); };
  add("on the device", [&] { upper("device"); });
  if (occurs(tapes, tape_place::leaving)) {
    add("on its way out", [&] {
      upper("device");
      lower_half();
    });
  }
  if (occurs(tapes, tape_place::host)) add("on the host", lower_half);
  if (occurs(tapes, tape_place::arriving)) {
    add("on its way in", [&] {
      upper("device pale");
      lower_half();
    });
  }
  if (occurs(tapes, tape_place::dropped)) {
    add("dropped", [&] { on.line({x, top + height / 2}, {x + box, top + height / 2}, "gap"); });
  }
  bool const rebuilt = std::ranges::any_of(tapes, [](tape const& one) { return !one.rebuilds.empty(); });
  if (rebuilt) {
    add("bytes taken, not rebuilt yet", [&] { upper("device pale"); });
    add("being rebuilt", [&] { upper("rebuild"); });
  }
}

}  // namespace

std::string tape_svg(std::span<tape const> tapes) {
  scales shown;
  constexpr double heading = 30;
  double height = heading + legend_height;
  for (auto const& one : tapes) {
    shown.most_us = std::max(shown.most_us, one.step_us);
    shown.most_bytes = std::max({shown.most_bytes, one.peak_bytes, one.host_peak_bytes});
    height += panel_height(one);
  }
  svg picture(picture_width, height, fmt::format("tape of {}", tapes.front().net));
  picture.text({left, 22}, tapes.front().net, anchor::start);
  double top = heading;
  for (auto const& one : tapes) {
    panel(picture, one, shown, top).draw();
    top += panel_height(one);
  }
  legend(picture, tapes, top + 4);
  return std::move(picture).finish();
}

}  // namespace ferry::command
