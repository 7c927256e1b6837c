// A diagnosis as text and as JSON.
#include <fmt/format.h>

#include <array>
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
};

char const* name_of(oom_source source) {
  constexpr std::array names{"torch_device", "torch_plain", "host", "ferry_device", "ferry_pinned", "ferry_no_plan"};
  return names[static_cast<std::size_t>(source)];
}

}  // namespace

std::string text_of_diagnosis(diagnosis const& made) {
  page to;
  to.line("{}", in(colour::strong, "The message"));
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
  if (!made.asks.empty()) {
    to.heading("For a prescription, also give");
    for (auto const& one : made.asks) to.item("  - ", one);
  }
  return std::move(to).take();
}

nlohmann::ordered_json json_of_diagnosis(diagnosis const& made) {
  nlohmann::ordered_json all;
  all["source"] = name_of(made.message.source);
  all["line"] = printable(made.message.line);
  for (auto const& one : amounts) {
    auto const& value = made.message.*one.member;
    if (value) all[one.key] = *value;
  }
  if (!made.message.item.empty()) all["item"] = printable(made.message.item);
  all["findings"] = nlohmann::ordered_json::array();
  for (auto const& one : made.findings) {
    all["findings"].push_back({{"kind", one.kind}, {"meaning", one.words}, {"cure", one.cure}});
  }
  all["still_needed"] = made.asks;
  return all;
}

}  // namespace ferry::command
