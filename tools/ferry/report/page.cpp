#include "report/page.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "commands.hpp"
#include "common/svg.hpp"
#include "embedded/report_charts_js.hpp"
#include "embedded/report_items_js.hpp"
#include "embedded/report_lanes_js.hpp"
#include "embedded/report_page_css.hpp"
#include "embedded/report_page_html.hpp"
#include "embedded/report_page_js.hpp"
#include "embedded/report_pareto_js.hpp"
#include "report/page_data.hpp"

namespace ferry::command {

namespace {

using part = std::pair<std::string_view, std::string_view>;

/// The template with every mark replaced once, from its beginning to its end: what is put in is not looked at again.
std::string filled(std::string_view text, std::initializer_list<part> parts) {
  std::string page;
  for (auto const& [mark, what] : parts) {
    auto const at = text.find(mark);
    page.append(text.substr(0, at)).append(what);
    text.remove_prefix(at + mark.size());
  }
  return page.append(text);
}

std::string title_of(run_data const& all) {
  for (auto const& one : all.runs) return one.label;
  for (auto const& one : all.benches) return one.label;
  for (auto const& one : all.comparisons) return one.label;
  return all.tables.empty() ? "nothing" : all.tables.front().label;
}

}  // namespace

std::string script_text(nlohmann::ordered_json const& value) {
  auto const text = value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (char const c : text) {  // all three occur in texts only, where an escape means the same
    if (c == '<') {
      safe += "\\u003c";
    } else if (c == '>') {
      safe += "\\u003e";
    } else if (c == '&') {
      safe += "\\u0026";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string make_page(run_data const& all) {
  auto const style = page_palette() + std::string(embedded::report_page_css);
  auto const title = "Ferry report: " + markup_text(title_of(all));
  std::string script;
  for (auto const text : {embedded::report_charts_js, embedded::report_lanes_js, embedded::report_items_js,
                          embedded::report_pareto_js, embedded::report_page_js}) {
    script += text;
  }
  for (std::size_t parts = 1;; parts *= 2) {
    auto const data = script_text(page_data(all, page_limits{}.divided_by(parts)));
    auto page = filled(embedded::report_page_html,
                       {{"<!--title-->", title}, {"/*style*/", style}, {"/*data*/", data}, {"/*script*/", script}});
    constexpr std::size_t enough = 1024;  // what is left then does not depend on limits any more
    if (page.size() <= most_page_bytes) return page;
    if (parts >= enough) {
      throw failed(fmt::format("the page would take {} MiB, more than the {} MiB of a report; give fewer files",
                               page.size() >> 20, most_page_bytes >> 20));
    }
  }
}

}  // namespace ferry::command
