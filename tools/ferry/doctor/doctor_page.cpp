#include "doctor/doctor_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/svg.hpp"
#include "common/timeline.hpp"
#include "doctor/doctor_text.hpp"
#include "embedded/report_page_css.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

/// `inside` is markup already.
std::string section(std::string_view title, std::string_view about, std::string const& inside) {
  std::string const told = about.empty() ? "" : fmt::format("<p class=\"about\">{}</p>\n", markup_text(about));
  return fmt::format("<section>\n<h2>{}</h2>\n{}{}</section>\n", markup_text(title), told, inside);
}

std::string card(std::string_view name, std::string_view value, std::string_view more) {
  return fmt::format(
      "<div class=\"card\"><span class=\"name\">{}</span><b>{}</b><span class=\"more\">{}</span></div>\n",
      markup_text(name), markup_text(value), markup_text(more));
}

std::string cards_of(prescription const& made) {
  if (!made.advised) {
    return card("Prescription", "none",
                made.budget == 0 ? "nothing is left for activations" : "one sequence does not fit");
  }
  auto const& one = *made.advised;
  std::string cards = card("Policy", one.policy,
                           one.accumulate > 1 ? fmt::format("{} micro-batches of {}", one.accumulate, one.micro_batch)
                                              : fmt::format("the batch of {} at once", one.micro_batch));
  cards += card("Step", words_of_time(one.step_us),
                fmt::format("{} against unlimited memory", signed_percent(one.overhead())));
  cards += card("Activations", format_bytes(one.peak_bytes), fmt::format("of {}", format_bytes(made.budget)));
  cards += card("Recomputed", words_of_time(one.recompute_us),
                fmt::format("{:.1f}% of the step's FLOPs", 100 * one.recompute_flops_share));
  cards += card("Link", format_bytes(one.out_bytes), fmt::format("out, {} in", format_bytes(one.in_bytes)));
  cards += card("Pinned host memory", format_bytes(one.host_bytes), words_of_machine(made, one));
  if (one.exchanged_bytes > 0) {
    cards += card("Exchange", words_of_time(one.exchange_us),
                  fmt::format("{} each way over {}; {} not hidden", format_bytes(one.exchanged_bytes),
                              to_string(made.between.kind), words_of_time(one.exposed_exchange_us)));
  }
  return cards;
}

std::string bar_row(std::string_view name, std::size_t bytes, std::size_t of, std::string_view colour) {
  double const share = of > 0 ? 100 * static_cast<double>(bytes) / static_cast<double>(of) : 0;
  return fmt::format(
      "<div class=\"bar-row\"><span>{}</span><span class=\"track\"><span "
      "style=\"width:{:.1f}%;background:var(--{})\"></span>"
      "</span><b>{}</b></div>\n",
      markup_text(name), std::min(share, 100.0), colour, format_bytes(bytes));
}

std::string memory_of(prescription const& made) {
  auto const& memory = made.memory;
  auto const& states = memory.states;
  std::size_t const most = std::max(memory.needed(), memory.device_bytes);
  std::string rows = bar_row("weights", states.weights, most, "keep");
  rows += bar_row("gradients", states.gradients, most, "keep");
  rows += bar_row("optimizer", states.optimizer, most, "keep");
  if (states.gathered > 0) rows += bar_row("gathered weights", states.gathered, most, "keep");
  rows += bar_row("activations", memory.activations.saved, most, "ferry");
  for (auto const& one : memory.activations.operations) {
    rows +=
        bar_row(fmt::format("· {}, {} x {}", one.name, one.count, format_bytes(one.each)), one.sum(), most, "ferry");
  }
  rows += bar_row("workspace", memory.activations.scratch, most, "ferry");
  rows += bar_row("reserve", memory.reserve, most, "rebuild");
  rows += bar_row("sum", memory.needed(), most, memory.fits() ? "s2" : "wait");
  rows += bar_row("the GPU has", memory.device_bytes, most, "s2");
  return "<div class=\"bars\">\n" + rows + "</div>\n";
}

std::string table_row(std::string_view name, std::string_view more, forecast const& one) {
  std::string const parts =
      one.accumulate > 1 ? fmt::format(", {} micro-batches of {}", one.accumulate, one.micro_batch) : "";
  return fmt::format(
      "<tr><th>{}{}<br><small class=\"faint\">{}</small></th><td class=\"right\">{}</td><td class=\"right\">{}</td>"
      "<td class=\"right\">{}</td><td class=\"right\">{}</td><td class=\"right\">{}</td></tr>\n",
      markup_text(name), parts, markup_text(more), words_of_time(one.step_us), signed_percent(one.overhead()),
      format_bytes(one.peak_bytes), format_bytes(one.out_bytes), format_bytes(one.host_bytes));
}

std::string table_of_forecasts(prescription const& made) {
  std::string rows = table_row("FERRY_POLICY=" + made.advised->policy, "the prescription", *made.advised);
  for (auto const& one : made.alternatives) rows += table_row("FERRY_POLICY=" + one.policy, "", one);
  for (auto const& way : made.in_torch) {
    if (way.cost && !made.keeps_all()) rows += table_row(way.name, way.setting, *way.cost);
  }
  return "<div class=\"scroll\"><table><thead><tr><th>way</th><th class=\"right\">step</th><th "
         "class=\"right\">overhead</th>"
         "<th class=\"right\">peak</th><th class=\"right\">link, out</th><th "
         "class=\"right\">host</th></tr></thead>\n<tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string list_of(std::vector<std::string> const& sentences) {
  std::string items;
  for (auto const& one : sentences) items += fmt::format("<p>{}</p>\n", markup_text(one));
  return "<div class=\"notes\">\n" + items + "</div>\n";
}

std::string settings_of(prescription const& made) {
  std::string lines;
  for (auto const& [variable, value] : made.variables) {
    lines += fmt::format("<p><code>export {}={}</code></p>\n", markup_text(variable), markup_text(value));
  }
  return lines;
}

std::string body_of(prescription const& made) {
  auto const& of = made.asked.of;
  auto const about = fmt::format(
      "{} layers, width {}, context {}, batch {}, {}, {}{}; on {}: {}, {:g} TFLOP/s, link {:g} GB/s. Predicted, not "
      "measured.",
      of.layers, of.width, of.context, of.batch, to_string(of.numbers), to_string(made.asked.how.optimizer),
      made.asked.how.zero > 0 ? fmt::format(", ZeRO {} over {} GPUs", made.asked.how.zero, made.asked.how.ranks) : "",
      made.asked.on.name, format_bytes(made.asked.on.device_bytes), made.asked.on.tflops,
      made.asked.on.device_to_host.gbps);
  std::string body = section(of.name, about, "<div class=\"cards\">\n" + cards_of(made) + "</div>\n");
  if (auto const with = words_of_instead(made); !with.empty()) {
    body += section("It needs " + with, "weights, gradients and optimizer alone do not fit as asked", "");
  }
  if (made.advised) {
    body += section("What it costs, beside other ways", "in the same memory; the systems' settings without Ferry below",
                    table_of_forecasts(made));
  }
  body += section("Where memory goes", "", memory_of(made));
  if (!made.variables.empty()) body += section("Set", "", settings_of(made));
  if (!made.warnings.empty()) body += section("Beware", "", list_of(made.warnings));
  return body + section("What this assumes", "", list_of(made.assumptions));
}

}  // namespace

std::string page_of_prescription(prescription const& made) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\">\n"
      "<title>Ferry doctor: {} on {}</title>\n<link rel=\"icon\" "
      "href=\"data:,\">\n<style>\n{}{}</style>\n</head>\n<body>\n"
      "<header class=\"top\"><div class=\"brand\"><span class=\"mark\" aria-hidden=\"true\"></span><h1>Ferry "
      "doctor</h1></div>"
      "</header>\n<main id=\"main\">\n{}</main>\n</body>\n</html>\n",
      markup_text(made.asked.of.name), markup_text(made.asked.on.name), page_palette(), embedded::report_page_css,
      body_of(made));
}

}  // namespace ferry::command
