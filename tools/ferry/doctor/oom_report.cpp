// A diagnosis as text and as JSON.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/printable.hpp"
#include "doctor/oom_advice.hpp"
#include "doctor/page.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

struct amount_name {
  char const* key;
  char const* words;
  std::optional<std::size_t> oom_message::*member;
};
constexpr std::array amounts{
    amount_name{"requested_bytes", "asked for", &oom_message::requested},
    amount_name{"capacity_bytes", "capacity", &oom_message::capacity},
    amount_name{"free_bytes", "free", &oom_message::free},
    amount_name{"allocated_bytes", "allocated", &oom_message::allocated},
    amount_name{"reserved_bytes", "reserved", &oom_message::reserved},
    amount_name{"process_bytes", "this process", &oom_message::process},
    amount_name{"other_processes_bytes", "others", &oom_message::others},
    amount_name{"in_use_bytes", "in use", &oom_message::in_use},
    amount_name{"kept_bytes", "kept", &oom_message::kept},
    amount_name{"smallest_bytes", "smallest", &oom_message::smallest},
    amount_name{"program_bytes", "program", &oom_message::program},
    amount_name{"temporaries_bytes", "temporaries", &oom_message::temporaries},
};

char const* name_of(oom_source source) {
  constexpr std::array names{"torch_device", "torch_plain", "host", "ferry_device", "ferry_pinned", "ferry_no_plan",
                             "xla",          "tensorflow",  "ggml", "nccl",         "cuda_trainer", "bitsandbytes"};
  return names[static_cast<std::size_t>(source)];
}

/// Which of several counts.
std::string words_of_number(oom_message const& message) {
  if (message.of_messages < 2) return {};
  std::string const line = message.line_number > 0 ? fmt::format(" (line {})", message.line_number) : "";
  return fmt::format("number {} of {}{}: the last that names an amount", message.number, message.of_messages, line);
}

void add_calibration(page& to, calibration const& found) {
  to.heading("Against the estimate", "if it is the same model, batch and context");
  auto const words =
      fmt::format("{} were allocated or asked for: {:.1f}% {} the {} that are estimated with everything kept",
                  format_bytes(found.measured), 100 * std::abs(found.off()), found.too_low() ? "above" : "below",
                  format_bytes(found.estimated));
  to.item("  - ", words + (found.too_low() ? ". The peak was that or more; the measured value is used below"
                                           : ", and the step was not over: that contradicts nothing"));
  if (found.beside) {
    to.item("  - ", fmt::format("{} of the GPU were in no tensor of this run: context, gaps, other processes. That is "
                                "used below as the reserve, unless --reserve is given",
                                format_bytes(*found.beside)));
  }
}

}  // namespace

std::string text_of_diagnosis(diagnosis const& made) {
  page to;
  to.heading("The message", words_of_number(made.message));
  to.item("  ", printable(made.message.line));
  for (auto const& one : amounts) {
    auto const& value = made.message.*one.member;
    if (value) to.line("  {:<14} {:>10}", one.words, format_bytes(*value));
  }
  if (!made.message.item.empty()) to.line("  {:<14} {:>10}", "item", printable(made.message.item));
  to.heading("What it means");
  for (auto const& one : made.findings) {
    to.item("  - ", one.words);
    to.item("    -> ", one.cure);
  }
  if (made.against) add_calibration(to, *made.against);
  if (!made.asks.empty()) {
    to.heading("For a prescription, also give");
    for (auto const& one : made.asks) to.item("  - ", one);
  }
  return std::move(to).take().substr(1);  // the first heading has no empty line before it
}

nlohmann::ordered_json json_of_diagnosis(diagnosis const& made) {
  nlohmann::ordered_json all;
  all["source"] = name_of(made.message.source);
  all["line"] = printable(made.message.line);
  if (made.message.line_number > 0) all["line_number"] = made.message.line_number;
  all["number"] = made.message.number;
  all["messages"] = made.message.of_messages;
  for (auto const& one : amounts) {
    auto const& value = made.message.*one.member;
    if (value) all[one.key] = *value;
  }
  if (!made.message.item.empty()) all["item"] = printable(made.message.item);
  all["findings"] = nlohmann::ordered_json::array();
  for (auto const& one : made.findings) {
    all["findings"].push_back({{"kind", one.kind}, {"meaning", one.words}, {"cure", one.cure}});
  }
  if (made.against) {
    all["calibration"] = {{"estimated_bytes", made.against->estimated},
                          {"measured_bytes", made.against->measured},
                          {"off", made.against->off()}};
    if (made.against->beside) all["calibration"]["reserve_bytes"] = *made.against->beside;
  }
  all["still_needed"] = made.asks;
  return all;
}

}  // namespace ferry::command
