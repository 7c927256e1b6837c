#include "doctor/optimizer.hpp"

#include <algorithm>
#include <array>

namespace ferry::command {

namespace {

struct named_optimizer {
  std::string_view name;
  optimizer_kind kind;
};

constexpr std::array optimizers{
    named_optimizer{"adamw", optimizer_kind::adamw},
    named_optimizer{"adamw-cpu", optimizer_kind::adamw_cpu},
    named_optimizer{"adamw-paged", optimizer_kind::adamw_paged},
    named_optimizer{"adamw8bit", optimizer_kind::adamw8bit},
    named_optimizer{"adamw8bit-paged", optimizer_kind::adamw8bit_paged},
    named_optimizer{"adafactor", optimizer_kind::adafactor},
    named_optimizer{"muon", optimizer_kind::muon},
    named_optimizer{"sgd", optimizer_kind::sgd},
    named_optimizer{"none", optimizer_kind::none},
};

}  // namespace

std::string_view to_string(optimizer_kind which) noexcept {
  return std::ranges::find(optimizers, which, &named_optimizer::kind)->name;
}

std::optional<optimizer_kind> optimizer_named(std::string_view name) noexcept {
  auto const found = std::ranges::find(optimizers, name, &named_optimizer::name);
  return found == optimizers.end() ? std::nullopt : std::optional(found->kind);
}

std::vector<std::string_view> optimizer_names() {
  std::vector<std::string_view> names;
  for (auto const& one : optimizers) names.push_back(one.name);
  return names;
}

bool moments_on_host(optimizer_kind which) noexcept {
  return steps_on_host(which) || which == optimizer_kind::adamw_paged || which == optimizer_kind::adamw8bit_paged;
}

bool steps_on_host(optimizer_kind which) noexcept { return which == optimizer_kind::adamw_cpu; }

double moment_bytes(optimizer_kind which, weight_group const& of, double element) noexcept {
  auto const numbers = static_cast<double>(of.numbers());
  constexpr double scales = 2 * 4.0 / 256;  // blocks of 256 share one, of each moment
  switch (which) {
    case optimizer_kind::adamw:
    case optimizer_kind::adamw_cpu:
    case optimizer_kind::adamw_paged:
      return 2 * element * numbers;
    case optimizer_kind::adamw8bit:
    case optimizer_kind::adamw8bit_paged:
      return (2 + scales) * numbers;
    case optimizer_kind::adafactor:  // the second moment alone, of a matrix by its rows and columns
      return of.matrices() ? element * static_cast<double>((of.rows + of.columns) * of.count) : element * numbers;
    case optimizer_kind::muon:  // one momentum for a block's matrices; the rest is left to AdamW
      return (of.place == weight_place::block && of.matrices() ? 1 : 2) * element * numbers;
    case optimizer_kind::sgd:
    case optimizer_kind::none:
      break;
  }
  return 0;
}

}  // namespace ferry::command
