// The link's speeds as a table and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/link.hpp"
#include "common/printable.hpp"
#include "common/table.hpp"

namespace ferry::command {

namespace {

std::string speed_or_none(double gbps) { return gbps > 0 ? fmt::format("{:.2f}", gbps) : "-"; }

}  // namespace

std::string table_of(link_result const& all) {
  std::string text = fmt::format("link of {}, GB/s\n", printable(all.device));
  if (!all.paced_words.empty()) text.append(all.paced_words).append("\n");
  table sizes({{.width = 10},
               {.width = 9},
               {.width = 9},
               {.width = 9},
               {.width = 9},
               {.width = 9},
               {.width = 14},
               {.width = 14},
               {.width = 9}});
  sizes.row({"copy of", "out", "in", "both", "its out", "its in", "pageable out", "pageable in", "limit"});
  auto const speed = [](double gbps) { return fmt::format("{:.2f}", gbps); };
  for (auto const& row : all.sizes) {
    sizes.row({format_bytes(row.bytes), speed(row.out), speed(row.in), speed(row.both), speed_or_none(row.both_out),
               speed_or_none(row.both_in), speed(row.pageable_out), speed(row.pageable_in), speed(row.limit)});
  }
  text.append("\n").append(sizes.text());
  text +=
      fmt::format("both: the sum of both directions at once, and each of them while the other is at work; limit: {}\n",
                  all.limit_words);
  text += fmt::format("\n{:>10} {:>9} {:>9}   {} in chunks\n", "chunk", "out", "in", format_bytes(all.moved_bytes));
  auto const good = all.good_chunk();
  for (auto const& row : all.chunks) {
    text += fmt::format("{:>10} {:>9.2f} {:>9.2f}{}\n", format_bytes(row.chunk_bytes), row.out, row.in,
                        good == row.chunk_bytes ? "   the smallest within 5% of the best" : "");
  }
  if (all.beside.copied_bytes > 0) text += fmt::format("\n{}", table_of(all.beside));
  return text;
}

nlohmann::ordered_json json_of(link_result const& all) {
  auto sizes = nlohmann::ordered_json::array();
  for (auto const& row : all.sizes) {
    sizes.push_back({{"bytes", row.bytes},
                     {"out_gbps", row.out},
                     {"in_gbps", row.in},
                     {"both_gbps", row.both},
                     {"both_out_gbps", row.both_out},
                     {"both_in_gbps", row.both_in},
                     {"pageable_out_gbps", row.pageable_out},
                     {"pageable_in_gbps", row.pageable_in},
                     {"limit_gbps", row.limit}});
  }
  auto chunks = nlohmann::ordered_json::array();
  for (auto const& row : all.chunks) {
    chunks.push_back({{"chunk_bytes", row.chunk_bytes}, {"out_gbps", row.out}, {"in_gbps", row.in}});
  }
  nlohmann::ordered_json json{{"ferry_bench", 1},           {"what", "link"},
                              {"device", all.device},       {"limit", all.limit_words},
                              {"sizes", std::move(sizes)},  {"moved_bytes", all.moved_bytes},
                              {"chunks", std::move(chunks)}};
  if (all.beside.copied_bytes > 0) json["beside"] = json_of(all.beside);
  json["interrupted"] = all.interrupted;
  return json;
}

}  // namespace ferry::command
