#include "common/svg.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "common/printable.hpp"

namespace ferry::command {

std::string markup_text(std::string_view text) {
  std::string safe;
  for (char const c : printable(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string_view light_colours() {
  return R"(--ground: #ffffff; --ink: #222222; --faint: #666666; --grid: #e4e4e4; --lane: #f6f6f6;
  --forward: #9db8d9; --backward: #b7cfae; --rebuild: #e8963c; --wait: #d9534f; --offload: #7d9cc6; --fetch: #8fb37f;
  --short: #c2457f; --keep: #4f7cac; --ferry: #9467bd; --recompute: #e8963c; --dropped: #c9c9c9; --disk: #8a8b1c;
  --s0: #d62728; --s1: #1f77b4; --s2: #2ca02c; --s3: #9467bd; --s4: #e8963c; --s5: #17808f;
  --s6: #8c564b; --s7: #e377c2; --s8: #7f7f7f; --s9: #8a8b1c; --s10: #3b4cc0; --s11: #5aa469; --s12: #b5651d;)";
}

std::string_view dark_colours() {
  return R"(--ground: #16181c; --ink: #e6e6e6; --faint: #9a9a9a; --grid: #33363c; --lane: #1f2227;
  --forward: #4d6f99; --backward: #5c7f50; --rebuild: #c9772b; --wait: #d9534f; --offload: #5a7fb5; --fetch: #6b9a58;
  --short: #d96aa0; --keep: #6fa0d6; --ferry: #b48ad9; --recompute: #e8963c; --dropped: #55585e; --disk: #c5c653;
  --s0: #ff6b6b; --s1: #5aa9e6; --s2: #5fcf6a; --s3: #b48ad9; --s4: #f2ab5e; --s5: #3fb8c8;
  --s6: #b98a7f; --s7: #f0a3d8; --s8: #a5a5a5; --s9: #c5c653; --s10: #8d9bf0; --s11: #8fd19b; --s12: #d9a066;)";
}

namespace {

std::string_view classes() {
  return R"(.ground { fill: var(--ground); } .axis { stroke: var(--faint); } .grid { stroke: var(--grid); } .lane { fill: var(--lane); }
.forward { fill: var(--forward); } .backward { fill: var(--backward); } .rebuild { fill: var(--rebuild); }
.wait { fill: var(--wait); } .short { fill: var(--short); } .offload { fill: var(--offload); } .fetch { fill: var(--fetch); }
.keep, .device { fill: var(--keep); } .ferry, .host { fill: var(--ferry); } .recompute { fill: var(--recompute); }
.dropped { fill: var(--dropped); } .disk { fill: var(--disk); }
.device-line { stroke: var(--keep); } .host-line { stroke: var(--ferry); } .wait-line { stroke: var(--wait); }
.gap { stroke: var(--dropped); stroke-width: 1.5; stroke-dasharray: 2 3; } .pale { opacity: 0.35; }
text { font: 12px system-ui, sans-serif; fill: var(--ink); } text.faint { fill: var(--faint); font-size: 11px; }
text.strong { font-size: 15px; font-weight: 600; } text.small { font-size: 10px; }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; } polyline.thick { stroke-width: 3.5; }
.dashed { stroke-dasharray: 5 4; }
.series-0 { stroke: var(--s0); } .series-1 { stroke: var(--s1); } .series-2 { stroke: var(--s2); }
.series-3 { stroke: var(--s3); } .series-4 { stroke: var(--s4); } .series-5 { stroke: var(--s5); }
.series-6 { stroke: var(--s6); } .series-7 { stroke: var(--s7); } .series-8 { stroke: var(--s8); }
.series-9 { stroke: var(--s9); } .series-10 { stroke: var(--s10); } .series-11 { stroke: var(--s11); }
.series-12 { stroke: var(--s12); }
circle { fill: var(--ground); stroke-width: 2; }
)";
}

}  // namespace

std::string_view palette() {
  static std::string const sheet = fmt::format(
      ":root {{ color-scheme: light dark;\n  {} }}\n@media (prefers-color-scheme: dark) {{ :root {{\n  {} }} }}\n{}",
      light_colours(), dark_colours(), classes());
  return sheet;
}

std::string page_palette() {
  return fmt::format(
      ":root {{ color-scheme: light;\n  {0} }}\n"
      "@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ color-scheme: dark;\n  {1} }} }}\n"
      ":root[data-theme=dark] {{ color-scheme: dark;\n  {1} }}\n{2}",
      light_colours(), dark_colours(), classes());
}

std::string series_class(std::size_t index) { return fmt::format("series-{}", index % palette_series); }

namespace {

void close(std::string& body, char const* element, std::string_view tip) {
  if (tip.empty()) {
    body += "/>\n";
  } else {
    fmt::format_to(std::back_inserter(body), "><title>{}</title></{}>\n", markup_text(tip), element);
  }
}

}  // namespace

svg::svg(double width, double height, std::string_view title) {
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n",
      width, height, markup_text(title), palette());
  rect(0, 0, width, height, "ground");
}

void svg::rect(double x, double y, double width, double height, std::string_view classes, std::string_view tip) {
  fmt::format_to(std::back_inserter(body_),
                 "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" class=\"{}\"", x, y, width, height,
                 classes);
  close(body_, "rect", tip);
}

void svg::line(point from, point to, std::string_view classes) {
  fmt::format_to(std::back_inserter(body_),
                 "<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" class=\"{}\"/>\n", from.x, from.y, to.x,
                 to.y, classes);
}

void svg::curve(std::span<point const> through, std::string_view classes) {
  fmt::format_to(std::back_inserter(body_), "<polyline class=\"{}\" points=\"", classes);
  for (auto const& one : through) fmt::format_to(std::back_inserter(body_), "{:.2f},{:.2f} ", one.x, one.y);
  body_ += "\"/>\n";
}

void svg::area(std::span<point const> corners, std::string_view classes, std::string_view tip) {
  fmt::format_to(std::back_inserter(body_), "<polygon class=\"{}\" points=\"", classes);
  for (auto const& one : corners) fmt::format_to(std::back_inserter(body_), "{:.2f},{:.2f} ", one.x, one.y);
  body_ += '"';
  close(body_, "polygon", tip);
}

void svg::dot(point at, double radius, std::string_view classes, std::string_view tip) {
  fmt::format_to(std::back_inserter(body_), "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:.2f}\" class=\"{}\"", at.x, at.y,
                 radius, classes);
  close(body_, "circle", tip);
}

void svg::text(point at, std::string_view words, anchor where, std::string_view classes) {
  constexpr std::string_view names[] = {"start", "middle", "end"};
  fmt::format_to(std::back_inserter(body_),
                 "<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", at.x, at.y,
                 names[static_cast<std::size_t>(where)], classes, markup_text(words));
}

std::string svg::finish() && { return std::move(body_) + "</svg>\n"; }

}  // namespace ferry::command
