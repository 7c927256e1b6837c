#include "report/page_items.hpp"

#include <algorithm>
#include <numeric>

#include "report/page_number.hpp"

namespace ferry::command {

namespace {

using json = nlohmann::ordered_json;

double cost_of(item_row const& item) {
  return item.exposed_us + item.recompute_us + (is_known(item.hidden_us) ? 1e-3 * item.hidden_us : 0);
}

/// Of those that place an item, the most frequent; else any.
std::string main_reason(item_row const& item) {
  std::string best;
  double most = 0;
  for (auto const& [reason, count] : item.reasons) {
    if (places_item(reason) && count > most) {
      best = reason;
      most = count;
    }
  }
  if (!best.empty()) return best;
  return item.last.empty() || places_item(item.last) ? item.last : "at last " + item.last;
}

}  // namespace

std::size_t label_book::index_of(std::string const& text) {
  auto const [place, is_new] = known_.emplace(text, texts_.size());
  if (is_new) texts_.push_back(text);
  return place->second;
}

std::string_view decision_of(item_row const& item, std::size_t steps) {
  double const saves = item.saves > 0 ? item.saves : static_cast<double>(std::max<std::size_t>(steps, 1));
  double const ferried = item.offloads / saves;
  double const rebuilt = item.recomputes / saves;
  constexpr double mostly = 0.5;
  if (rebuilt >= mostly && rebuilt >= ferried) return "recompute";
  if (ferried >= mostly) return "ferry";
  return item.offloads + item.recomputes > 0 ? "mixed" : "keep";
}

json items_json(run const& of, label_book& labels, std::size_t limit) {
  std::vector<std::size_t> order(of.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::size_t const shown = std::min(limit, order.size());
  auto const dearer = [&](std::size_t a, std::size_t b) {
    double const left = cost_of(of.items[a]);
    double const right = cost_of(of.items[b]);
    return left != right ? left > right : a < b;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(shown), dearer);
  order.resize(shown);
  json rows = json::array();
  for (std::size_t const index : order) {
    auto const& item = of.items[index];
    json reasons = json::array();
    for (auto const& [reason, count] : item.reasons) {
      reasons.push_back({labels.index_of(reason), short_number(count)});
    }
    rows.push_back({labels.index_of(item.label), labels.index_of(item.name), short_number(item.segment),
                    short_number(item.micro_batch), short_number(item.bytes), decision_of(item, of.steps.size()),
                    labels.index_of(main_reason(item)), labels.index_of(item.words), short_number(item.saves),
                    short_number(item.offloads), short_number(item.recomputes), short_number(item.exposed_us),
                    short_number(item.hidden_us), short_number(item.recompute_us), std::move(reasons)});
  }
  return {{"all", of.items.size()},
          {"columns",
           {"label", "name", "segment", "micro_batch", "bytes", "decision", "reason", "words", "saves", "offloads",
            "recomputes", "exposed_us", "hidden_us", "recompute_us", "reasons"}},
          {"rows", std::move(rows)}};
}

}  // namespace ferry::command
