#include "common/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

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

namespace {

struct colour {
  std::string_view name;
  std::string_view light;
  std::string_view dark;
};

constexpr std::array colours{
    colour{"ground", "#ffffff", "#16181c"},    colour{"ink", "#222222", "#e6e6e6"},
    colour{"faint", "#666666", "#9a9a9a"},     colour{"grid", "#e4e4e4", "#33363c"},
    colour{"lane", "#f6f6f6", "#1f2227"},      colour{"forward", "#9db8d9", "#4d6f99"},
    colour{"backward", "#b7cfae", "#5c7f50"},  colour{"rebuild", "#e8963c", "#c9772b"},
    colour{"wait", "#d9534f", "#d9534f"},      colour{"offload", "#7d9cc6", "#5a7fb5"},
    colour{"fetch", "#8fb37f", "#6b9a58"},     colour{"short", "#c2457f", "#d96aa0"},
    colour{"keep", "#4f7cac", "#6fa0d6"},      colour{"ferry", "#9467bd", "#b48ad9"},
    colour{"recompute", "#e8963c", "#e8963c"}, colour{"dropped", "#c9c9c9", "#55585e"},
    colour{"disk", "#8a8b1c", "#c5c653"},      colour{"s0", "#d62728", "#ff6b6b"},
    colour{"s1", "#1f77b4", "#5aa9e6"},        colour{"s2", "#2ca02c", "#5fcf6a"},
    colour{"s3", "#9467bd", "#b48ad9"},        colour{"s4", "#e8963c", "#f2ab5e"},
    colour{"s5", "#17808f", "#3fb8c8"},        colour{"s6", "#8c564b", "#b98a7f"},
    colour{"s7", "#e377c2", "#f0a3d8"},        colour{"s8", "#7f7f7f", "#a5a5a5"},
    colour{"s9", "#8a8b1c", "#c5c653"},        colour{"s10", "#3b4cc0", "#8d9bf0"},
    colour{"s11", "#5aa469", "#8fd19b"},       colour{"s12", "#b5651d", "#d9a066"},
};

constexpr colour const* find_colour(std::string_view name) {
  auto const found = std::ranges::find(colours, name, &colour::name);
  return found == colours.end() ? nullptr : &*found;
}

/// How shapes look; what stands later wins.
struct rule {
  std::string_view element;   ///< empty: any
  std::string_view of_class;  ///< empty: with or without
  std::string_view property;
  std::string_view value;  ///< or a colour's name
};

constexpr std::array rules{
    rule{"text", "", "fill", "ink"},
    rule{"polyline", "", "fill", "none"},
    rule{"polyline", "", "stroke-width", "2"},
    rule{"polyline", "", "stroke-linejoin", "round"},
    rule{"circle", "", "fill", "ground"},
    rule{"circle", "", "stroke-width", "2"},
    rule{"", "ground", "fill", "ground"},
    rule{"", "axis", "stroke", "faint"},
    rule{"", "grid", "stroke", "grid"},
    rule{"", "lane", "fill", "lane"},
    rule{"", "forward", "fill", "forward"},
    rule{"", "backward", "fill", "backward"},
    rule{"", "rebuild", "fill", "rebuild"},
    rule{"", "wait", "fill", "wait"},
    rule{"", "short", "fill", "short"},
    rule{"", "offload", "fill", "offload"},
    rule{"", "fetch", "fill", "fetch"},
    rule{"", "keep", "fill", "keep"},
    rule{"", "device", "fill", "keep"},
    rule{"", "ferry", "fill", "ferry"},
    rule{"", "host", "fill", "ferry"},
    rule{"", "recompute", "fill", "recompute"},
    rule{"", "dropped", "fill", "dropped"},
    rule{"", "disk", "fill", "disk"},
    rule{"", "device-line", "stroke", "keep"},
    rule{"", "host-line", "stroke", "ferry"},
    rule{"", "wait-line", "stroke", "wait"},
    rule{"", "gap", "stroke", "dropped"},
    rule{"", "gap", "stroke-width", "1.5"},
    rule{"", "gap", "stroke-dasharray", "2 3"},
    rule{"", "pale", "opacity", "0.35"},
    rule{"", "dashed", "stroke-dasharray", "5 4"},
    rule{"", "edged", "stroke", "ground"},
    rule{"", "edged", "stroke-width", "0.6"},
    rule{"", "given-up", "fill", "url(#given-up)"},
    rule{"", "given-up", "stroke", "wait"},
    rule{"", "given-up", "stroke-width", "1.2"},
    rule{"", "given-up", "stroke-dasharray", "3 2"},
    rule{"", "series-0", "stroke", "s0"},
    rule{"", "series-1", "stroke", "s1"},
    rule{"", "series-2", "stroke", "s2"},
    rule{"", "series-3", "stroke", "s3"},
    rule{"", "series-4", "stroke", "s4"},
    rule{"", "series-5", "stroke", "s5"},
    rule{"", "series-6", "stroke", "s6"},
    rule{"", "series-7", "stroke", "s7"},
    rule{"", "series-8", "stroke", "s8"},
    rule{"", "series-9", "stroke", "s9"},
    rule{"", "series-10", "stroke", "s10"},
    rule{"", "series-11", "stroke", "s11"},
    rule{"", "series-12", "stroke", "s12"},
    rule{"polyline", "thick", "stroke-width", "3.5"},
    rule{"", "unlimited", "stroke", "dropped"},
    rule{"line", "bar", "stroke-width", "15"},
    rule{"line", "error", "stroke", "ink"},
    rule{"text", "faint", "fill", "faint"},
    rule{"text", "faint", "font-size", "11px"},
    rule{"text", "strong", "font-size", "15px"},
    rule{"text", "strong", "font-weight", "600"},
    rule{"text", "small", "font-size", "10px"},
};

std::string selector_of(rule const& one) {
  return fmt::format("{}{}{}", one.element, one.of_class.empty() ? "" : ".", one.of_class);
}

bool has_class(std::string_view classes, std::string_view wanted) {
  for (auto at = classes.find(wanted); at != classes.npos; at = classes.find(wanted, at + 1)) {
    auto const end = at + wanted.size();
    if ((at == 0 || classes[at - 1] == ' ') && (end == classes.size() || classes[end] == ' ')) return true;
  }
  return false;
}

/// What the classes say on light ground, as attributes, which any style sheet overrides; and the classes.
std::string look(std::string_view element, std::string_view classes) {
  std::vector<std::pair<std::string_view, std::string_view>> said;
  for (auto const& one : rules) {
    bool const applies =
        (one.element.empty() || one.element == element) && (one.of_class.empty() || has_class(classes, one.of_class));
    if (!applies) continue;
    auto const* const known = find_colour(one.value);
    auto const value = known == nullptr ? one.value : known->light;
    auto const before = std::ranges::find(said, one.property, &decltype(said)::value_type::first);
    if (before == said.end()) {
      said.emplace_back(one.property, value);
    } else {
      before->second = value;
    }
  }
  std::string text;
  for (auto const& [property, value] : said) text += fmt::format("{}=\"{}\" ", property, value);
  return text + fmt::format("class=\"{}\"", classes);
}

/// Of a picture, which is light without it.
std::string_view dark_sheet() {
  static std::string const sheet = [] {
    std::string text = ":root { color-scheme: light dark; }\n@media (prefers-color-scheme: dark) {\n";
    for (auto const& one : rules) {
      if (one.property != "fill" && one.property != "stroke") continue;
      auto const* const known = find_colour(one.value);
      text +=
          fmt::format("{} {{ {}: {}; }}\n", selector_of(one), one.property, known == nullptr ? one.value : known->dark);
    }
    return text + "}\n";
  }();
  return sheet;
}

}  // namespace

std::string page_palette() {
  std::string light;
  std::string dark;
  for (auto const& one : colours) {
    light += fmt::format(" --{}: {};", one.name, one.light);
    dark += fmt::format(" --{}: {};", one.name, one.dark);
  }
  auto sheet = fmt::format(
      ":root {{ color-scheme: light;{0} }}\n"
      "@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ color-scheme: dark;{1} }} }}\n"
      ":root[data-theme=dark] {{ color-scheme: dark;{1} }}\ntext {{ font: 12px system-ui, sans-serif; }}\n",
      light, dark);
  for (auto const& one : rules) {
    auto const value = find_colour(one.value) == nullptr ? std::string(one.value) : fmt::format("var(--{})", one.value);
    sheet += fmt::format("{} {{ {}: {}; }}\n", selector_of(one), one.property, value);
  }
  return sheet;
}

std::string series_class(std::size_t index) { return fmt::format("series-{}", index % palette_series); }

std::size_t series_of(std::string_view system) {
  constexpr std::array<std::string_view, palette_series> known{
      "auto",        "keep",    "recompute", "every",  "sqrt",         "selective", "offload",
      "offload-all", "first-k", "groups",    "inputs", "rebuild-only", "dtr"};
  auto const found = std::ranges::find(known, system.substr(0, system.find('=')));
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  constexpr std::array others{8, 12, 11, 10};  // of what seldom stands beside these
  std::size_t letters = 0;
  for (char const c : system) letters += static_cast<unsigned char>(c);
  return others[letters % others.size()];
}

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
      "role=\"img\" font-family=\"system-ui, sans-serif\" "
      "font-size=\"12px\">\n<title>{2}</title>\n<style>{3}</style>\n",
      width, height, markup_text(title), dark_sheet());
  rect(0, 0, width, height, "ground");
}

void svg::rect(double x, double y, double width, double height, std::string_view classes, std::string_view tip) {
  fmt::format_to(std::back_inserter(body_), "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}", x,
                 y, width, height, look("rect", classes));
  close(body_, "rect", tip);
}

void svg::line(point from, point to, std::string_view classes) {
  fmt::format_to(std::back_inserter(body_), "<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>\n",
                 from.x, from.y, to.x, to.y, look("line", classes));
}

void svg::curve(std::span<point const> through, std::string_view classes) {
  fmt::format_to(std::back_inserter(body_), R"(<polyline {} points=")", look("polyline", classes));
  for (auto const& one : through) fmt::format_to(std::back_inserter(body_), "{:.2f},{:.2f} ", one.x, one.y);
  body_ += "\"/>\n";
}

void svg::area(std::span<point const> corners, std::string_view classes, std::string_view tip) {
  fmt::format_to(std::back_inserter(body_), R"(<polygon {} points=")", look("polygon", classes));
  for (auto const& one : corners) fmt::format_to(std::back_inserter(body_), "{:.2f},{:.2f} ", one.x, one.y);
  body_ += '"';
  close(body_, "polygon", tip);
}

void svg::dot(point at, double radius, std::string_view classes, std::string_view tip) {
  fmt::format_to(std::back_inserter(body_), "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:.2f}\" {}", at.x, at.y, radius,
                 look("circle", classes));
  close(body_, "circle", tip);
}

void svg::text(point at, std::string_view words, anchor where, std::string_view classes) {
  constexpr std::string_view names[] = {"start", "middle", "end"};
  fmt::format_to(std::back_inserter(body_), "<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\" {}>{}</text>\n", at.x,
                 at.y, names[static_cast<std::size_t>(where)], look("text", classes), markup_text(words));
}

void svg::name_ends(double x, double top, std::vector<curve_end> ends) {
  constexpr double line_height = 15;
  std::ranges::sort(ends, {}, &curve_end::y);
  double free_from = top;
  for (auto const& one : ends) {
    double const at = std::max(one.y + 4, free_from);
    line({x, one.y}, {x + 12, at - 4}, one.classes);
    text({x + 16, at}, one.name);
    free_from = at + line_height;
  }
}

std::string svg::finish() && {
  constexpr std::string_view hatching =
      "<defs><pattern id=\"given-up\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fbe3e1\"/>"
      "<rect width=\"2\" height=\"6\" fill=\"#d9534f\"/></pattern></defs>\n";
  if (body_.find("\"url(#given-up)\"") != std::string::npos) body_ += hatching;
  return std::move(body_) + "</svg>\n";
}

}  // namespace ferry::command
