#include "plan/replay_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

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

replay_table::replay_table(chain const& of) : chain_(&of) {
  auto const stages = static_cast<std::uint32_t>(of.stages());
  find_equal_stages();
  choose_grid();
  boundary_slots_.reserve(stages + 1);
  for (double const bytes : of.boundary_bytes) boundary_slots_.push_back(slots_for(bytes));
  for (double const bytes : of.saved_bytes) saved_slots_.push_back(slots_for(bytes));
  forward_before_.resize(stages + 1, 0);
  std::partial_sum(of.forward_s.begin(), of.forward_s.end(), forward_before_.begin() + 1);

  fill_rows(row_of_, rows_, 0, [this](std::uint32_t s, std::uint32_t t, float* out) { fill(s, t, out); });
  fill_rows(leading_row_of_, leading_rows_, 1,
            [this](std::uint32_t s, std::uint32_t t, float* out) { fill_leading(s, t, out); });
}

/// Fills a row for every run, one for all runs of equal stages. `ahead`: how many stages after a run it depends on.
template <typename Fill>
void replay_table::fill_rows(std::vector<std::uint32_t>& row_of, std::vector<float>& rows, std::uint32_t ahead,
                             Fill fill) {
  auto const stages = static_cast<std::uint32_t>(kind_.size());
  auto const width = static_cast<std::size_t>(slots_) + 1;
  row_of.assign(std::size_t{stages} * longest_, 0);
  // A run is known by the kinds of its stages, one number per sequence: that of the run without its last stage, and
  // the last one's kind.
  std::vector<std::uint32_t> sequence(stages, 0);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;
  std::uint32_t sequences = 0;
  std::uint32_t filled = 0;
  for (std::uint32_t length = 1; length <= longest_; ++length) {
    known.clear();
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> row_known;
    for (std::uint32_t s = 0; s + length + ahead <= stages; ++s) {
      std::uint32_t const t = s + length - 1;
      auto const [place, is_new] = known.try_emplace({sequence[s], kind_[t]}, sequences);
      if (is_new) ++sequences;
      sequence[s] = place->second;
      auto const [row, is_new_row] = row_known.try_emplace({sequence[s], ahead > 0 ? kind_[t + 1] : 0}, filled);
      row_of[std::size_t{s} * longest_ + (length - 1)] = row->second;
      if (!is_new_row) continue;
      rows.resize((std::size_t{filled} + 1) * width);
      fill(s, t, rows.data() + std::size_t{filled} * width);
      ++filled;
    }
  }
}

void replay_table::find_equal_stages() {
  auto const& c = *chain_;
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
  auto const& c = *chain_;
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

/// What saving S[s] with the rest of s..t to come needs at once.
std::int32_t replay_table::saving_slots(std::uint32_t s, std::uint32_t t) const noexcept {
  auto const& c = *chain_;
  double const forward = c.saved_bytes[s] + c.forward_scratch_bytes[s] + waiting_gradient(t);
  double const backward =
      c.saved_bytes[s] + c.boundary_bytes[s] + c.boundary_bytes[s + 1] + c.backward_scratch_bytes[s];
  return slots_for(std::max(forward, backward));
}

void replay_table::fill(std::uint32_t s, std::uint32_t t, float* out) const {
  auto const& c = *chain_;
  std::fill(out, out + slots_ + 1, never);
  if (!c.may_replay(s) || !c.may_replay(t)) return;
  std::int32_t const needed = saving_slots(s, t);
  auto const both = static_cast<float>(c.forward_s[s] + c.backward_s[s]);
  if (s == t) {
    for (std::int32_t m = needed; m <= slots_; ++m) out[m] = both;
    return;
  }
  std::int32_t const held = saved_slots_[s];
  float const* const rest = row(s + 1, t);
  for (std::int32_t m = std::max(needed, held); m <= slots_; ++m) out[m] = both + rest[m - held];
  double pass = 0;
  for (std::uint32_t k = s + 1; k <= t; ++k) {
    double const input = k - 1 == s ? 0 : c.boundary_bytes[k - 1];
    pass = std::max(pass, input + c.boundary_bytes[k] + c.passing_scratch(k - 1) + waiting_gradient(t));
    std::int32_t const kept = boundary_slots_[k];
    auto const forward = static_cast<float>(forward_before_[k] - forward_before_[s]);
    float const* const after = row(k, t);
    float const* const before = row(s, k - 1);
    for (std::int32_t m = std::max(slots_for(pass), kept); m <= slots_; ++m) {
      float const total = forward + after[m - kept] + before[m];
      out[m] = std::min(out[m], total);
    }
  }
}

/// What the backward of a stage needs beside its X and S.
double replay_table::backward_bytes(std::uint32_t i) const noexcept {
  return chain_->boundary_bytes[i] + chain_->boundary_bytes[i + 1] + chain_->backward_scratch_bytes[i];
}

std::int32_t replay_table::saving_slots_leading(std::uint32_t s, std::uint32_t t) const noexcept {
  auto const& c = *chain_;
  double needed = c.saved_bytes[s] + c.forward_scratch_bytes[s] + waiting_gradient(t + 1);
  needed = std::max(needed, c.saved_bytes[s] + backward_bytes(s) - c.saved_bytes[t + 1]);
  if (s == t) needed = std::max(needed, c.saved_bytes[s] + backward_bytes(t + 1));
  return slots_for(needed);
}

void replay_table::fill_leading(std::uint32_t s, std::uint32_t t, float* out) const {
  auto const& c = *chain_;
  std::fill(out, out + slots_ + 1, never);
  if (!c.may_replay(s) || !c.may_replay(t)) return;
  auto const both = static_cast<float>(c.forward_s[s] + c.backward_s[s]);
  auto const led = static_cast<float>(c.backward_s[t + 1]);
  std::int32_t const held = saved_slots_[s];
  std::int32_t const needed = std::max(saving_slots_leading(s, t), held);
  if (s == t) {
    for (std::int32_t m = needed; m <= slots_; ++m) out[m] = both + led;
  } else {
    float const* const rest = row_leading(s + 1, t);
    for (std::int32_t m = needed; m <= slots_; ++m) out[m] = both + rest[m - held];
  }
  std::int32_t const freed = slots_in(c.saved_bytes[t + 1]);
  double pass = 0;
  for (std::uint32_t k = s + 1; k <= t + 1; ++k) {
    double const input = k - 1 == s ? 0 : c.boundary_bytes[k - 1];
    pass = std::max(pass, input + c.boundary_bytes[k] + c.passing_scratch(k - 1) + waiting_gradient(t + 1));
    bool const through = k == t + 1;
    if (through) pass = std::max(pass, c.boundary_bytes[k] + backward_bytes(k));
    std::int32_t const kept = boundary_slots_[k];
    auto const forward = static_cast<float>(forward_before_[k] - forward_before_[s]);
    float const* const after = through ? nullptr : row_leading(k, t);
    float const* const before = row(s, k - 1);
    for (std::int32_t m = std::max(slots_for(pass), kept); m <= slots_; ++m) {
      float const first = through ? led : after[m - kept];
      out[m] = std::min(out[m], forward + first + before[std::min(m + freed, slots_)]);
    }
  }
}

double replay_table::seconds_leading(std::uint32_t s, std::uint32_t t, double bytes) const noexcept {
  if (t - s >= longest_ || bytes < 0) return never;
  return static_cast<double>(row_leading(s, t)[std::min(slots_in(bytes), slots_)]);
}

replay_table::choice replay_table::best_leading(std::uint32_t s, std::uint32_t t, double bytes) const noexcept {
  auto const& c = *chain_;
  if (t - s >= longest_ || bytes < 0) return {};
  std::int32_t const m = std::min(slots_in(bytes), slots_);
  auto const led = static_cast<float>(c.backward_s[t + 1]);
  float least = never;
  choice found;
  if (m >= std::max(saving_slots_leading(s, t), saved_slots_[s])) {
    least = static_cast<float>(c.forward_s[s] + c.backward_s[s]) +
            (s == t ? led : row_leading(s + 1, t)[m - saved_slots_[s]]);
    found.fits = least < never;
  }
  std::int32_t const freed = slots_in(c.saved_bytes[t + 1]);
  double pass = 0;
  for (std::uint32_t k = s + 1; k <= t + 1; ++k) {
    double const input = k - 1 == s ? 0 : c.boundary_bytes[k - 1];
    pass = std::max(pass, input + c.boundary_bytes[k] + c.passing_scratch(k - 1) + waiting_gradient(t + 1));
    bool const through = k == t + 1;
    if (through) pass = std::max(pass, c.boundary_bytes[k] + backward_bytes(k));
    std::int32_t const kept = boundary_slots_[k];
    if (m < std::max(slots_for(pass), kept)) break;
    float const first = through ? led : row_leading(k, t)[m - kept];
    float const total = static_cast<float>(forward_before_[k] - forward_before_[s]) + first +
                        row(s, k - 1)[std::min(m + freed, slots_)];
    if (total < least) {
      least = total;
      found = {k, true};
    }
  }
  return found;
}

double replay_table::seconds(std::uint32_t s, std::uint32_t t, double bytes) const noexcept {
  if (t - s >= longest_ || bytes < 0) return never;
  return static_cast<double>(row(s, t)[std::min(slots_in(bytes), slots_)]);
}

double replay_table::least_bytes(std::uint32_t s, std::uint32_t t) const noexcept {
  if (t - s >= longest_) return chain::unlimited;
  float const* const times = row(s, t);
  auto const* const first = std::find_if(times, times + slots_ + 1, [](float v) { return v < never; });
  return first == times + slots_ + 1 ? chain::unlimited : static_cast<double>(first - times) * unit_bytes_;
}

replay_table::choice replay_table::best(std::uint32_t s, std::uint32_t t, double bytes) const noexcept {
  auto const& c = *chain_;
  if (t - s >= longest_ || bytes < 0) return {};
  std::int32_t const m = std::min(slots_in(bytes), slots_);
  float least = never;
  choice found;
  if (m >= saving_slots(s, t)) {
    least = s == t ? 0.0F : static_cast<float>(c.forward_s[s] + c.backward_s[s]) + row(s + 1, t)[m - saved_slots_[s]];
    found.fits = least < never;
  }
  double pass = 0;
  for (std::uint32_t k = s + 1; k <= t; ++k) {
    double const input = k - 1 == s ? 0 : c.boundary_bytes[k - 1];
    pass = std::max(pass, input + c.boundary_bytes[k] + c.passing_scratch(k - 1) + waiting_gradient(t));
    std::int32_t const kept = boundary_slots_[k];
    if (m < std::max(slots_for(pass), kept)) break;
    float const total =
        static_cast<float>(forward_before_[k] - forward_before_[s]) + row(k, t)[m - kept] + row(s, k - 1)[m];
    if (total < least) {
      least = total;
      found = {k, true};
    }
  }
  return found;
}

}  // namespace ferry::planning
