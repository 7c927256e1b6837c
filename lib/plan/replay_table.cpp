#include "plan/replay_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace ferry::planning {

namespace {

constexpr float never = std::numeric_limits<float>::infinity();

/// The largest grid unit of which every size is a multiple; 0 if sizes are not whole numbers.
double common_unit(chain const& c) {
  std::uint64_t unit = 0;
  for (auto const* sizes : {&c.boundary_bytes, &c.saved_bytes, &c.forward_scratch_bytes, &c.backward_scratch_bytes}) {
    for (double const size : *sizes) {
      if (size != std::floor(size) || size > 9e15) return 0;
      unit = std::gcd(unit, static_cast<std::uint64_t>(size));
    }
  }
  return static_cast<double>(unit);
}

}  // namespace

replay_table::replay_table(chain of) : chain_(std::move(of)) {
  find_equal_stages();
  choose_grid();
  nothing_.assign(width(), 0);
  for (double const bytes : chain_.boundary_bytes) boundary_slots_.push_back(slots_for(bytes));
  for (double const bytes : chain_.saved_bytes) saved_slots_.push_back(slots_for(bytes));
  forward_before_.resize(chain_.stages() + 1, 0);
  std::partial_sum(chain_.forward_s.begin(), chain_.forward_s.end(), forward_before_.begin() + 1);
  fill_all(run_kind::plain);
  fill_all(run_kind::leading);
}

/// A row for every run, one for all runs of equal stages; shorter runs first.
void replay_table::fill_all(run_kind kind) {
  auto const stages = static_cast<std::uint32_t>(kind_.size());
  auto& [row_of, rows] = tables_[static_cast<std::size_t>(kind)];
  std::uint32_t const ahead = kind == run_kind::leading ? 1 : 0;
  row_of.assign(std::size_t{stages} * longest_, 0);
  // A run is known by the kinds of its stages, one number per sequence: that of the run without its last stage, and
  // the last one's kind; and a leading run by the kind of the stage after it, too.
  using two_numbers = std::pair<std::uint32_t, std::uint32_t>;
  std::vector<std::uint32_t> sequence(stages, 0);
  std::uint32_t sequences = 0;
  std::uint32_t filled = 0;
  for (std::uint32_t length = 1; length <= longest_; ++length) {
    std::map<two_numbers, std::uint32_t> known;
    std::map<two_numbers, std::uint32_t> known_rows;
    for (std::uint32_t s = 0; s + length + ahead <= stages; ++s) {
      std::uint32_t const t = s + length - 1;
      auto const [place, is_new] = known.try_emplace({sequence[s], kind_[t]}, sequences);
      if (is_new) ++sequences;
      sequence[s] = place->second;
      auto const [row, is_new_row] = known_rows.try_emplace({sequence[s], ahead > 0 ? kind_[t + 1] : 0}, filled);
      row_of[std::size_t{s} * longest_ + (length - 1)] = row->second;
      if (!is_new_row) continue;
      rows.resize((std::size_t{filled} + 1) * width());
      fill(kind, s, t, rows.data() + filled * width());
      ++filled;
    }
  }
}

void replay_table::find_equal_stages() {
  auto const& c = chain_;
  using description = std::tuple<double, double, double, double, double, double, double, double, bool, bool>;
  std::map<description, std::uint32_t> known;
  for (std::size_t i = 0; i < c.stages(); ++i) {
    description const it{c.forward_s[i],
                         c.backward_s[i],
                         c.boundary_bytes[i],
                         c.boundary_bytes[i + 1],
                         c.saved_bytes[i],
                         c.forward_scratch_bytes[i],
                         c.backward_scratch_bytes[i],
                         c.passing_scratch(i),
                         c.may_replay(i),
                         i + 1 == c.stages()};
    kind_.push_back(known.try_emplace(it, static_cast<std::uint32_t>(known.size())).first->second);
  }
}

void replay_table::choose_grid() {
  auto const& c = chain_;
  auto const stages = static_cast<std::uint32_t>(c.stages());
  bool const uniform = *std::ranges::max_element(kind_) < 8;
  longest_ = std::min(stages, stages <= 64 ? stages : uniform ? 48U : 24U);
  // About four million steps in all, less where equal stages share rows.
  double const runs = uniform ? 64.0 * longest_ : static_cast<double>(stages) * longest_;
  double const affordable = 8e6 / (runs * longest_ * 0.5);
  auto const finest = static_cast<std::int32_t>(std::clamp(affordable, 200.0, 2000.0));
  double const common = common_unit(c);
  if (common > 0 && c.device_bytes / common <= std::max(finest, 1000)) {
    unit_bytes_ = common;
  } else {
    unit_bytes_ = std::max(c.device_bytes / finest, 1e-300);
  }
  slots_ = std::max(slots_in(c.device_bytes), 1);
}

std::int32_t replay_table::slots_for(double bytes) const noexcept {
  return static_cast<std::int32_t>(std::min(std::ceil(bytes / unit_bytes_ - 1e-9), 1e9));
}

std::int32_t replay_table::slots_in(double bytes) const noexcept {
  return static_cast<std::int32_t>(std::min(std::floor(bytes / unit_bytes_ + 1e-9), 1e9));
}

/// What saving S[s] with the rest of the run to come needs at once.
double replay_table::saving_bytes(run_kind kind, std::uint32_t s, std::uint32_t t) const noexcept {
  auto const& c = chain_;
  bool const leads = kind == run_kind::leading;
  double const freed = leads ? c.saved_bytes[t + 1] : 0;  // before the backward of s
  double const forward = c.forward_scratch_bytes[s] + c.waiting_gradient(leads ? t + 1 : t);
  double beside = std::max(forward, c.backward_bytes(s) - freed);
  if (leads && s == t) beside = std::max(beside, c.backward_bytes(t + 1));
  return c.saved_bytes[s] + beside;
}

/// Every way to replay a run, first the one that saves S[s].
template <typename Visit>
void replay_table::visit_alternatives(run_kind kind, std::uint32_t s, std::uint32_t t, Visit visit) const {
  auto const& c = chain_;
  if (!c.may_replay(s) || !c.may_replay(t)) return;
  bool const leads = kind == run_kind::leading;
  auto const led = leads ? static_cast<float>(c.backward_s[t + 1]) : 0.0F;
  std::int32_t const freed = leads ? slots_in(c.saved_bytes[t + 1]) : 0;
  float const* const nothing = nothing_.data();

  bool const last = s == t;
  std::int32_t const held = last ? 0 : saved_slots_[s];
  auto const both = static_cast<float>(c.forward_s[s] + c.backward_s[s]);
  std::int32_t const saving = std::max(slots_for(saving_bytes(kind, s, t)), held);
  visit(alternative{0, saving, last ? both + led : both, last ? nothing : row(kind, s + 1, t), held, nothing, 0});

  double const gradient = c.waiting_gradient(leads ? t + 1 : t);
  double pass = 0;
  for (std::uint32_t k = s + 1; k <= (leads ? t + 1 : t); ++k) {
    double const input = k - 1 == s ? 0 : c.boundary_bytes[k - 1];
    pass = std::max(pass, input + c.boundary_bytes[k] + c.passing_scratch(k - 1) + gradient);
    bool const through = k == t + 1;
    if (through) pass = std::max(pass, c.boundary_bytes[k] + c.backward_bytes(k));
    std::int32_t const kept = boundary_slots_[k];
    auto const forward = static_cast<float>(forward_before_[k] - forward_before_[s]);
    visit(alternative{k, std::max(slots_for(pass), kept), through ? forward + led : forward,
                      through ? nothing : row(kind, k, t), through ? 0 : kept, row(run_kind::plain, s, k - 1), freed});
  }
}

void replay_table::fill(run_kind kind, std::uint32_t s, std::uint32_t t, float* out) const {
  std::fill(out, out + width(), never);
  visit_alternatives(kind, s, t, [&](alternative const& way) {
    float const* const first = way.first - way.held;
    float const* const then = way.then + way.freed;
    std::int32_t m = way.least_slots;
    for (; m <= slots_ - way.freed; ++m) out[m] = std::min(out[m], way.seconds + first[m] + then[m]);
    // More than all is no use.
    for (; m <= slots_; ++m) out[m] = std::min(out[m], way.seconds + first[m] + way.then[slots_]);
  });
}

double replay_table::seconds(run_kind kind, std::uint32_t s, std::uint32_t t, double free_bytes) const noexcept {
  if (t - s >= longest_ || free_bytes < 0) return never;
  return static_cast<double>(row(kind, s, t)[std::min(slots_in(free_bytes), slots_)]);
}

replay_table::choice replay_table::best(run_kind kind, std::uint32_t s, std::uint32_t t,
                                        double free_bytes) const noexcept {
  if (t - s >= longest_ || free_bytes < 0) return {};
  std::int32_t const m = std::min(slots_in(free_bytes), slots_);
  float least = never;
  choice found;
  visit_alternatives(kind, s, t, [&](alternative const& way) {
    if (m < way.least_slots) return;
    float const total = way.seconds + way.first[m - way.held] + way.then[std::min(m + way.freed, slots_)];
    if (total >= least) return;
    least = total;
    found = {way.keep_input_of, true};
  });
  return found;
}

}  // namespace ferry::planning
