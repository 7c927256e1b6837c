#include "report/step_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/svg.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

namespace {

using point = svg::point;
using anchor = svg::anchor;

constexpr double picture_width = 1120;
constexpr double left = 96;
constexpr double right = 16;
constexpr double plot_width = picture_width - left - right;
constexpr double lanes_top = 58;
constexpr double lane_height = 34;
constexpr double lane_gap = 8;
constexpr double marks_height = 16;
constexpr double names_height = 20;
constexpr double curves_height = 92;
constexpr double axis_height = 16;
constexpr double line_height = 17;
constexpr double letter_width = 6.2;  // of the texts' font, about
constexpr std::size_t most_marks = 12;

struct time_span {
  double from_us = 0;
  double to_us = 0;
};

/// From the step's first computation to its last; nothing if none was measured.
std::optional<time_span> computation_of(traced_step const& step) {
  std::optional<time_span> whole;
  for (auto const& one : step.slices) {
    if (!is_stretch(one)) continue;
    if (!whole) whole = {one.from_us, one.to_us};
    whole->from_us = std::min(whole->from_us, one.from_us);
    whole->to_us = std::max(whole->to_us, one.to_us);
  }
  return whole;
}

std::string milliseconds(double us) { return fmt::format("{:.2f} ms", us / 1000); }
std::string mebibytes(double bytes) { return fmt::format("{:.1f} MiB", bytes / (1 << 20)); }

class picture {
 public:
  picture(run const& of, traced_step const& step, time_span shown)
      : run_(of), trace_(*of.trace), step_(step), shown_(shown) {
    for (std::size_t i = 0; i < trace_.lanes.size(); ++i) {
      auto slices = slices_of(i);
      if (!slices.empty() || !is_host(i)) lanes_.push_back({i, std::move(slices)});
    }
    marks_ = weighed();
  }

  [[nodiscard]] std::string draw(std::string const& title) {
    svg on(picture_width, height(), title);
    on.text({left, 22}, title, anchor::start, "strong");
    legend(on, 44);
    double y = lanes_top;
    for (auto const& one : lanes_) {
      lane(on, one, y);
      y += lane_height + lane_gap;
    }
    double free_from = 0;
    for (std::size_t i = 0; i < marks_.size(); ++i) free_from = mark(on, i, y, free_from);
    if (!marks_.empty()) y += marks_height;
    y += names_height;
    curves(on, y);
    y += curves_height + axis_height;
    axis(on, y);
    y += line_height + 8;
    for (std::size_t i = 0; i < marks_.size(); ++i, y += line_height) words(on, i, y);
    return std::move(on).finish();
  }

 private:
  struct drawn_lane {
    std::size_t index;
    std::vector<traced_slice const*> slices;
  };

  [[nodiscard]] double height() const {
    auto const words = static_cast<double>(marks_.size());
    return lanes_top + static_cast<double>(lanes_.size()) * (lane_height + lane_gap) +
           (marks_.empty() ? 0 : marks_height) + names_height + curves_height + axis_height + words * line_height + 22;
  }

  [[nodiscard]] double x(double us) const {
    double const share = (us - shown_.from_us) / std::max(shown_.to_us - shown_.from_us, 1e-9);
    return left + std::clamp(share, 0.0, 1.0) * plot_width;
  }

  [[nodiscard]] bool is_host(std::size_t lane) const { return trace_.lanes[lane].starts_with("host"); }
  [[nodiscard]] std::string name_of(std::uint32_t index) const {
    return index < trace_.names.size() ? trace_.names[index] : std::string();
  }
  [[nodiscard]] item_row const* item_of(std::uint32_t index) const {
    return index < run_.items.size() ? &run_.items[index] : nullptr;
  }

  /// The longest first, so that what is inside another is drawn over it.
  [[nodiscard]] std::vector<traced_slice const*> slices_of(std::size_t lane) const {
    std::vector<traced_slice const*> inside;
    for (auto const& one : step_.slices) {
      bool const shown = one.lane == lane && one.what != span_kind::step && one.what != span_kind::run_ahead &&
                         one.to_us > one.from_us && one.from_us < shown_.to_us && one.to_us > shown_.from_us;
      if (shown) inside.push_back(&one);
    }
    std::ranges::stable_sort(inside, std::greater{}, [](auto const* one) { return one->to_us - one->from_us; });
    return inside;
  }

  void lane(svg& on, drawn_lane const& one, double y) const {
    auto const& name = trace_.lanes[one.index];
    on.text({left - 8, y + lane_height / 2 + 4}, name.substr(0, name.find(':')), anchor::end);
    on.rect(left, y, plot_width, lane_height, "lane");
    for (auto const* slice : one.slices) draw_slice(on, *slice, y);
  }

  void draw_slice(svg& on, traced_slice const& one, double y) const {
    double const from = x(one.from_us);
    double const width = std::max(x(one.to_us) - from, 0.8);
    bool const inner =
        (one.what == span_kind::rebuild || one.what == span_kind::wait || one.what == span_kind::shortage) &&
        !is_host(one.lane);
    double const lowered = inner ? 9 : 0;
    bool const given_up = one.outcome != no_index;
    auto const kind = one.what == span_kind::other ? "dropped" : span_kind_names[static_cast<std::size_t>(one.what)];
    on.rect(from, y + lowered, width, lane_height - lowered,
            fmt::format("{} {}", kind, given_up ? "given-up" : "edged"), tip_of(one));
    auto const text = label_of(one);
    double const needed = letter_width * static_cast<double>(text.size()) + 4;
    if (width > needed) {
      double const middle = place_between_marks(from, from + width, needed);
      on.text({middle, y + lowered + (lane_height - lowered) / 2 + 4}, text, anchor::middle);
    }
  }

  /// The middle of the widest part that no mark's line crosses; of all of it where words of that width fit in none.
  [[nodiscard]] double place_between_marks(double from, double to, double needed) const {
    double begin = from;
    double widest = needed;
    double middle = (from + to) / 2;
    auto const part_ends = [&](double end) {
      if (end - begin >= widest) {
        widest = end - begin;
        middle = (begin + end) / 2;
      }
      begin = end;
    };
    for (auto const* mark : marks_) {
      double const at = x(mark->at_us);
      if (at > begin && at < to) part_ends(at);
    }
    part_ends(to);
    return middle;
  }

  [[nodiscard]] std::string tip_of(traced_slice const& one) const {
    auto const name = name_of(one.name);
    auto const* const item = item_of(one.item);
    auto tip =
        fmt::format("{}; {}, {}", item == nullptr ? name : item->label, name, milliseconds(one.to_us - one.from_us));
    if (one.outcome == no_index) return tip;
    tip += "; " + name_of(one.outcome);
    if (is_known(one.arrived_bytes)) tip += fmt::format(" after {}", mebibytes(one.arrived_bytes));
    return tip;
  }

  /// "F3" of forward 3, "h3" of what happens to h of segment 3.
  [[nodiscard]] std::string label_of(traced_slice const& one) const {
    auto name = name_of(one.name);
    switch (one.what) {
      case span_kind::forward:
      case span_kind::backward: {
        auto const kind = span_kind_names[static_cast<std::size_t>(one.what)];
        if (!name.starts_with(kind) || name.size() < kind.size() + 2) return name;
        return fmt::format("{}{}", one.what == span_kind::forward ? 'F' : 'B', name.substr(kind.size() + 1));
      }
      case span_kind::offload:
      case span_kind::fetch:
      case span_kind::rebuild: {
        auto const* const item = item_of(one.item);
        return item == nullptr || !is_known(item->segment) ? std::string()
                                                           : fmt::format("{}{:.0f}", item->name, item->segment);
      }
      case span_kind::wait:
      case span_kind::shortage:
        return name;
      default:
        return {};
    }
  }

  /// Where a transfer stood against a recipe: those that would have waited longest, in their order.
  [[nodiscard]] std::vector<traced_decision const*> weighed() const {
    std::vector<traced_decision const*> found;
    for (auto const& one : step_.decisions) {
      bool const inside = one.at_us >= shown_.from_us && one.at_us <= shown_.to_us;
      if (inside && one.transfer_us > 0 && one.recipe_us > 0) found.push_back(&one);
    }
    std::ranges::stable_sort(found, std::greater{}, &traced_decision::transfer_us);
    if (found.size() > most_marks) found.resize(most_marks);
    std::ranges::stable_sort(found, {}, &traced_decision::at_us);
    return found;
  }

  /// Returns where the next number may stand: two moments may be one.
  [[nodiscard]] double mark(svg& on, std::size_t index, double y, double free_from) const {
    double const at = x(marks_[index]->at_us);
    double const number_at = std::max(at, free_from);
    on.line({at, lanes_top - 4}, {at, y}, "axis dashed");
    on.text({number_at, y + 10}, fmt::format("{}", index + 1), anchor::middle);
    return number_at + 16;
  }

  void words(svg& on, std::size_t index, double y) const {
    auto const& one = *marks_[index];
    auto const* const item = item_of(one.item);
    on.text({left, y}, fmt::format("{}  {}  {}: {}", index + 1, milliseconds(one.at_us - shown_.from_us),
                                   item == nullptr ? "an item" : item->label, one.words));
  }

  /// The tier's changes while the picture lasts, after what there was at its begin; nothing if there is nothing.
  [[nodiscard]] std::vector<point> bytes_over_time(tier_kind of) const {
    std::vector<traced_bytes const*> own;
    for (auto const& one : step_.bytes) {
      if (one.of == of && one.at_us < shown_.to_us) own.push_back(&one);
    }
    std::ranges::stable_sort(own, {}, &traced_bytes::at_us);
    std::vector<point> line{{shown_.from_us, 0}};
    for (auto const* one : own) {
      if (one->at_us < shown_.from_us) {
        line.front().y = one->bytes;
      } else {
        line.push_back({one->at_us, one->bytes});
      }
    }
    if (line.size() == 1 && line.front().y == 0) line.clear();
    return line;
  }

  void curves(svg& on, double y) const {
    struct tier {
      tier_kind which;
      std::string_view name;
      std::string_view text_class;
      std::string_view line_class;
      std::vector<point> line;
      double peak = 0;
    };
    std::array tiers{tier{tier_kind::device, "device bytes", "device", "device-line", {}, 0},
                     tier{tier_kind::host, "pinned bytes", "host", "host-line", {}, 0}};
    double most = 1;
    for (auto& one : tiers) {
      one.line = bytes_over_time(one.which);
      for (auto const& [us, bytes] : one.line) one.peak = std::max(one.peak, bytes);
      most = std::max(most, one.peak);
    }
    on.rect(left, y, plot_width, curves_height, "lane");
    on.text({left - 8, y + 12}, mebibytes(most), anchor::end, "faint");
    on.text({left - 8, y + curves_height}, "0", anchor::end, "faint");
    double name_at = left;  // above the curves, where none can cross it
    for (auto const& one : tiers) {
      if (one.line.empty()) continue;
      on.curve(stairs(one.line, y + curves_height, (curves_height - 4) / most), one.line_class);
      on.text({name_at, y - 6}, fmt::format("{}, at most {}", one.name, mebibytes(one.peak)), anchor::start,
              one.text_class);
      name_at += 220;
    }
  }

  [[nodiscard]] std::vector<point> stairs(std::vector<point> const& line, double zero, double per_byte) const {
    std::vector<point> path;
    for (auto const& [us, bytes] : line) {
      if (!path.empty()) path.push_back({x(us), path.back().y});
      path.push_back({x(us), zero - per_byte * bytes});
    }
    path.push_back({x(shown_.to_us), path.back().y});
    return path;
  }

  void axis(svg& on, double y) const {
    for (int quarter = 0; quarter <= 4; ++quarter) {
      double const us = quarter * (shown_.to_us - shown_.from_us) / 4;
      auto const where = quarter == 0 ? anchor::start : quarter == 4 ? anchor::end : anchor::middle;
      on.text({x(shown_.from_us + us), y}, milliseconds(us), where, "faint");
    }
  }

  static void legend(svg& on, double y) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 8> all{{{"forward", "forward"},
                                                                                {"backward", "backward"},
                                                                                {"rebuild", "rebuilt by its recipe"},
                                                                                {"wait", "standing still"},
                                                                                {"short", "short of bytes"},
                                                                                {"offload", "on its way out"},
                                                                                {"fetch", "on its way in"},
                                                                                {"given-up", "given up"}}};
    double at = left;
    for (auto const& [classes, meaning] : all) {
      on.rect(at, y - 10, 14, 11, classes);
      on.text({at + 19, y}, meaning);
      at += 34 + 7 * static_cast<double>(meaning.size());
    }
  }

  run const& run_;
  trace_data const& trace_;
  traced_step const& step_;
  time_span shown_;
  std::vector<drawn_lane> lanes_;
  std::vector<traced_decision const*> marks_;
};

}  // namespace

traced_step const& step_to_draw(run const& of, double number) {
  auto const& steps = of.trace->steps;
  if (!is_known(number)) {
    auto const last = std::ranges::find_if(steps.rbegin(), steps.rend(),
                                           [](traced_step const& one) { return computation_of(one).has_value(); });
    if (last != steps.rend()) return *last;
    throw setting_error(fmt::format("--svg: no step of '{}' was measured to its end", of.label));
  }
  auto const found = std::ranges::find(steps, number, &traced_step::number);
  if (found == steps.end()) {
    throw setting_error(fmt::format("--step {:.0f}: the trace has steps {:.0f} to {:.0f}", number, steps.front().number,
                                    steps.back().number));
  }
  if (!computation_of(*found)) {
    throw setting_error(fmt::format("--step {:.0f}: that step was not measured to its end", number));
  }
  return *found;
}

std::string step_svg(run const& of, traced_step const& step, std::string const& title) {
  auto const shown = computation_of(step).value_or(time_span{step.from_us, step.to_us});
  return picture(of, step, shown)
      .draw(title.empty() ? fmt::format("step {:.0f}: {}", step.number, milliseconds(shown.to_us - shown.from_us))
                          : title);
}

}  // namespace ferry::command
