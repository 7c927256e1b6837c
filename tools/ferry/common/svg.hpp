// Pictures as SVG: self-contained, readable on light and on dark ground, any text escaped.
//
// What a shape looks like is said by classes, whose colours are those of the traces: forward, backward, rebuild,
// offload, fetch, wait, short; for placements keep, ferry, recompute, and device, host, disk, dropped; for curves
// series-0 to series-12, unlimited, device-line, host-line and wait-line, and bar for one drawn as a line, error for
// how far off it may be; gap for a line where there is nothing; pale for what is
// not yet or half there, given-up for a copy that was; edged for what touches its neighbours; ground, lane, axis, grid
// and, for text, faint, strong and small. A picture has them as literal attributes, so that it looks right in viewers
// that know little of CSS, and a style sheet for dark ground on top; `page_palette` is a style sheet for HTML pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::command {

/// Text inside XML or HTML, and inside quoted attributes: markup is escaped, and what no document may hold (control
/// characters, bytes that are not UTF-8) is a '?'.
[[nodiscard]] std::string markup_text(std::string_view text);

/// Style sheet of a page whose readers may choose: `data-theme` of its root is "light" or "dark", or not there.
[[nodiscard]] std::string page_palette();

inline constexpr std::size_t palette_series = 13;
/// "series-3"; after the last comes the first again.
[[nodiscard]] std::string series_class(std::size_t index);
/// Of a policy or another system by its name, "every=2" or "dtr": it has the same colour in every picture.
[[nodiscard]] std::size_t series_of(std::string_view system);

class svg {
 public:
  enum class anchor : std::uint8_t { start, middle, end };
  struct point {
    double x = 0;
    double y = 0;
  };

  svg(double width, double height, std::string_view title);

  /// `tip` is shown when the mouse rests on the shape.
  void rect(double x, double y, double width, double height, std::string_view classes, std::string_view tip = {});
  void line(point from, point to, std::string_view classes);
  void curve(std::span<point const> through, std::string_view classes);
  /// The surface inside a closed line.
  void area(std::span<point const> corners, std::string_view classes, std::string_view tip = {});
  void dot(point at, double radius, std::string_view classes, std::string_view tip = {});
  void text(point at, std::string_view words, anchor where = anchor::start, std::string_view classes = {});

  struct curve_end {
    double y = 0;
    std::string name;
    std::string classes;  ///< of the curve
  };
  /// Names beside curves that end at `x`, kept apart, the first not above `top`; a short line leads to each.
  void name_ends(double x, double top, std::vector<curve_end> ends);

  /// The whole document, with a line end.
  [[nodiscard]] std::string finish() &&;

 private:
  std::string body_;
};

}  // namespace ferry::command
