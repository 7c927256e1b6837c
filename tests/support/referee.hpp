// The referee of timed schedules: every rule of the planning problem, checked on what the schedule says alone, by
// intervals of residency and a sweep over them. It shares nothing with any solver but the types of plan/chain.hpp.
//
// A stage saved in part has three pieces: what is kept, what is ferried (the tensor `saved`, which alone travels and
// can be dropped), and what `rebuild` completes. While its forward runs, all of S[i] is charged, or what the option
// says.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plan/chain.hpp"
#include "plan/schedule.hpp"

namespace ferry::testing {

struct verdict {
  std::string violation;  ///< the first rule that is broken; empty if there is none
  double makespan_s = 0;
  double device_peak_bytes = 0;
  double host_peak_bytes = 0;
  double d2h_bytes = 0;
  double h2d_bytes = 0;
  std::size_t forward_runs = 0;

  [[nodiscard]] bool accepted() const noexcept { return violation.empty(); }
};

/// How each stage is saved where not as a whole; empty, or one entry per stage.
using partial_savings = std::vector<std::optional<planning::saving_option>>;

class referee {
 public:
  /// Times may be off by `tolerance` times the step without limits, bytes by `tolerance` times the limit.
  explicit referee(planning::chain const& problem, partial_savings savings = {}, double tolerance = 1e-7)
      : chain_(problem), savings_(std::move(savings)), stages_(problem.stages()), tolerance_(tolerance) {
    double total = 0;
    for (double const s : chain_.forward_s) total += s;
    for (double const s : chain_.backward_s) total += s;
    slack_s_ = tolerance * total;
  }

  [[nodiscard]] verdict judge(std::span<planning::scheduled const> schedule) {
    verdict result;
    try {
      sort_rows(schedule);
      check_engines();
      check_backward_order();
      device_ = residencies(where::device);
      host_ = residencies(where::host);
      check_needs();
      result = totals();
      result.device_peak_bytes = sweep(device_charges(), chain_.device_bytes, "device");
      result.host_peak_bytes = sweep(host_charges(), chain_.host_bytes, "host");
    } catch (violation const& broken) {
      result.violation = broken.what();
    }
    return result;
  }

 private:
  using op = planning::chain_op;
  using row = planning::scheduled;
  enum class where : std::uint8_t { device, host };
  enum class piece : std::uint8_t { boundary, saved, kept, rebuilt };
  using tensor = std::pair<piece, std::size_t>;

  struct violation : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  struct residency {
    double from_s;    // charged from here
    double usable_s;  // usable from here
    double until_s;
  };
  struct charge {
    double from_s;
    double until_s;
    double bytes;
  };
  using residency_map = std::map<tensor, std::vector<residency>>;

  static constexpr double never = std::numeric_limits<double>::infinity();

  template <typename... Args>
  static void require(bool holds, fmt::format_string<Args...> text, Args&&... args) {
    if (!holds) throw violation(fmt::format(text, std::forward<Args>(args)...));
  }

  static std::string words(tensor t) {
    static constexpr std::array names{"X", "S", "kept part of S", "rebuilt part of S"};
    return fmt::format("{}[{}]", names[static_cast<std::size_t>(t.first)], t.second);
  }
  static std::string words(row const& r) {
    static constexpr std::array names{"forward_only", "forward_saving", "rebuild",  "backward", "d2h",
                                      "h2d",          "drop_device",    "drop_host"};
    std::string const subject = is_compute(r.op) ? fmt::format("{}", r.stage) : words(tensor_of(r));
    return fmt::format("{} {} at {:.9g}..{:.9g}", names[static_cast<std::size_t>(r.op)], subject, r.start_s, r.end_s);
  }

  static bool is_compute(op o) { return o <= op::backward; }
  static tensor tensor_of(row const& r) {
    bool const saved = r.tensor.what == planning::chain_tensor::kind::saved;
    return {saved ? piece::saved : piece::boundary, r.tensor.index};
  }

  [[nodiscard]] planning::saving_option const* partial(std::size_t stage) const {
    return stage < savings_.size() && savings_[stage] ? &*savings_[stage] : nullptr;
  }

  [[nodiscard]] double bytes_of(tensor t) const {
    auto const [what, index] = t;
    if (what == piece::boundary) return chain_.boundary_bytes[index];
    planning::saving_option const* const part = partial(index);
    if (part == nullptr) return chain_.saved_bytes[index];
    if (what == piece::saved) return part->ferried_bytes;
    return what == piece::kept ? part->kept_bytes : part->rebuilt_bytes;
  }

  void sort_rows(std::span<row const> schedule) {
    for (auto* rows : {&compute_, &d2h_, &h2d_}) rows->clear();
    drops_.clear();
    for (row const& r : schedule) {
      require(std::isfinite(r.start_s) && std::isfinite(r.end_s) && r.end_s >= r.start_s - slack_s_,
              "a row does not run from a time to a later one: {}", words(r));
      if (is_compute(r.op)) {
        require(r.stage < stages_, "there is no such stage: {}", words(r));
        compute_.push_back(r);
        continue;
      }
      std::size_t const end = tensor_of(r).first == piece::saved ? stages_ : stages_ + 1;
      require(r.tensor.index < end, "there is no such tensor: {}", words(r));
      if (r.op == op::d2h) d2h_.push_back(r);
      if (r.op == op::h2d) h2d_.push_back(r);
      if (r.op == op::drop_device) drops_[{where::device, tensor_of(r)}].push_back(r.start_s);
      if (r.op == op::drop_host) drops_[{where::host, tensor_of(r)}].push_back(r.start_s);
    }
    auto const earlier = [](row const& a, row const& b) {
      return std::pair(a.start_s, a.end_s) < std::pair(b.start_s, b.end_s);
    };
    for (auto* rows : {&compute_, &d2h_, &h2d_}) std::stable_sort(rows->begin(), rows->end(), earlier);
    for (auto& [key, times] : drops_) std::sort(times.begin(), times.end());
  }

  void check_engines() const {
    for (auto const* rows : {&compute_, &d2h_, &h2d_}) {
      for (std::size_t i = 1; i < rows->size(); ++i) {
        require((*rows)[i - 1].end_s <= (*rows)[i].start_s + slack_s_, "two operations share an engine: {} and {}",
                words((*rows)[i - 1]), words((*rows)[i]));
      }
    }
    auto const& beside = chain_.beside;
    for (row const& r : compute_) {
      double const takes_s = duration_of(r);
      double const done_s = done_in(r, [&](bool out, bool back) { return beside.of_compute(out, back); });
      require(std::abs(done_s - takes_s) <= slack_s_, "should take {:.9g} s, does {:.9g}: {}", takes_s, done_s,
              words(r));
    }
    auto const check_copies = [&](std::vector<row> const& rows, double rate, double latency_s, auto const& pace) {
      for (row const& r : rows) {
        double const bytes = bytes_of(tensor_of(r));
        double const takes_s = latency_s + (bytes > 0 ? bytes / rate : 0);  // infinite without a link
        require(done_in(r, pace) >= takes_s - slack_s_, "takes at least {:.9g} s: {}", takes_s, words(r));
      }
    };
    check_copies(d2h_, chain_.d2h_bytes_per_s, chain_.d2h_latency_s,
                 [&](bool, bool back) { return back ? beside.out_beside_back : 1; });
    check_copies(h2d_, chain_.h2d_bytes_per_s, chain_.h2d_latency_s,
                 [&](bool out, bool) { return out ? beside.back_beside_out : 1; });
  }

  /// How much of a row is done, at the pace that what is on the link beside it permits: pace(out, back) of its speed.
  template <typename Pace>
  [[nodiscard]] double done_in(row const& r, Pace pace) const {
    std::vector<double> borders{r.start_s, r.end_s};
    for (auto const* copies : {&d2h_, &h2d_}) {
      for (row const& copy : *copies) {
        for (double const at : {copy.start_s, copy.end_s}) {
          if (at > r.start_s && at < r.end_s) borders.push_back(at);
        }
      }
    }
    std::sort(borders.begin(), borders.end());
    double done_s = 0;
    for (std::size_t i = 1; i < borders.size(); ++i) {
      double const middle = 0.5 * (borders[i - 1] + borders[i]);
      auto const busy = [middle](std::vector<row> const& copies) {
        return std::any_of(copies.begin(), copies.end(),
                           [middle](row const& c) { return c.start_s < middle && middle < c.end_s; });
      };
      done_s += (borders[i] - borders[i - 1]) * pace(busy(d2h_), busy(h2d_));
    }
    return done_s;
  }

  [[nodiscard]] double duration_of(row const& r) const {
    if (r.op == op::backward) return chain_.backward_s[r.stage];
    if (r.op != op::rebuild) return chain_.forward_s[r.stage];
    require(partial(r.stage) != nullptr, "a stage that is saved as a whole has nothing to rebuild: {}", words(r));
    return partial(r.stage)->rebuild_s;
  }

  void check_backward_order() {
    backward_.clear();
    for (row const& r : compute_) {
      if (r.op != op::backward) continue;
      require(backward_.size() < stages_ && r.stage + backward_.size() + 1 == stages_,
              "backward does not run from the last stage to the first, once each: {}", words(r));
      require(backward_.empty() || backward_.back().end_s <= r.start_s + slack_s_,
              "starts before the backward that follows in the chain is done: {}", words(r));
      backward_.push_back(r);
    }
    require(backward_.size() == stages_, "{} of {} stages have a backward", backward_.size(), stages_);
    std::reverse(backward_.begin(), backward_.end());  // from here on by stage
  }

  /// X[i] and S[i] are last used by the backward of stage i; X[L] goes with the last one's.
  [[nodiscard]] double death_of(tensor t) const { return backward_[std::min(t.second, stages_ - 1)].end_s; }

  [[nodiscard]] residency_map residencies(where place) const {
    residency_map all;
    auto const add = [&all](tensor t, double from_s, double usable_s) { all[t].push_back({from_s, usable_s, never}); };
    if (place == where::device) {
      add({piece::boundary, 0}, 0, 0);
      for (row const& r : compute_) {
        std::size_t const i = r.stage;
        if (r.op == op::forward_only) add({piece::boundary, i + 1}, r.start_s, r.end_s);
        if (r.op == op::forward_saving) add({piece::saved, i}, r.start_s, r.end_s);
        if (r.op == op::forward_saving && partial(i) != nullptr) add({piece::kept, i}, r.start_s, r.end_s);
        if (r.op == op::rebuild) add({piece::rebuilt, i}, r.start_s, r.end_s);
      }
      for (row const& r : h2d_) add(tensor_of(r), r.start_s, r.end_s);
    } else {
      for (row const& r : d2h_) add(tensor_of(r), r.start_s, r.end_s);
    }
    for (auto& [t, list] : all) end_residencies(place, t, list);
    return all;
  }

  /// Each ends with the first drop after it is usable, or when the tensor is dead by rule.
  void end_residencies(where place, tensor t, std::vector<residency>& list) const {
    std::sort(list.begin(), list.end(), [](residency const& a, residency const& b) {
      return std::pair(a.from_s, a.usable_s) < std::pair(b.from_s, b.usable_s);
    });
    auto const drops = drops_.find({place, t});
    for (std::size_t i = 0; i < list.size(); ++i) {
      residency& r = list[i];
      double const next_s = i + 1 < list.size() ? list[i + 1].from_s : never;
      // What is made after its death holds its bytes while it is made.
      r.until_s = std::max(death_of(t), r.usable_s);
      if (drops != drops_.end()) {
        auto const drop = std::lower_bound(drops->second.begin(), drops->second.end(), r.usable_s - slack_s_);
        if (drop != drops->second.end() && *drop <= next_s + slack_s_) r.until_s = std::min(r.until_s, *drop);
      }
      require(r.until_s <= next_s + slack_s_, "{} is made on the {} at {:.9g} while it is there since {:.9g}", words(t),
              place == where::device ? "device" : "host", next_s, r.from_s);
    }
  }

  [[nodiscard]] bool there(residency_map const& map, tensor t, row const& during) const {
    auto const found = map.find(t);
    if (found == map.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](residency const& r) {
      return r.usable_s <= during.start_s + slack_s_ && r.until_s >= during.end_s - slack_s_;
    });
  }

  [[nodiscard]] bool whole_stage_there(std::size_t i, row const& during) const {
    if (partial(i) == nullptr) return there(device_, {piece::saved, i}, during);
    return there(device_, {piece::rebuilt, i}, during) && saved_parts_there(i, during);
  }

  [[nodiscard]] bool saved_parts_there(std::size_t i, row const& during) const {
    return there(device_, {piece::kept, i}, during) &&
           (partial(i)->ferried_bytes <= 0 || there(device_, {piece::saved, i}, during));
  }

  [[nodiscard]] bool boundary_there(std::size_t i, row const& during) const {
    if (there(device_, {piece::boundary, i}, during)) return true;
    if (i == 0) return false;
    if (partial(i - 1) == nullptr) return there(device_, {piece::saved, i - 1}, during);
    if (partial(i - 1)->output_stays) return there(device_, {piece::kept, i - 1}, during);
    return whole_stage_there(i - 1, during);
  }

  void check_needs() const {
    std::vector<bool> ran(stages_);
    for (row const& r : compute_) {
      if (r.op == op::forward_only || r.op == op::forward_saving) {
        bool const again = ran[r.stage];
        ran[r.stage] = true;
        require(!again || chain_.may_replay(r.stage), "a stage that cannot be run again is: {}", words(r));
      }
      require(boundary_there(r.stage, r), "its input X[{}] is not on the device throughout: {}", r.stage, words(r));
      if (r.op == op::backward) {
        require(whole_stage_there(r.stage, r), "S[{}] is not on the device throughout: {}", r.stage, words(r));
      }
      if (r.op == op::rebuild) {
        require(saved_parts_there(r.stage, r), "what was saved is not on the device throughout: {}", words(r));
      }
    }
    for (row const& r : d2h_) {
      require(there(device_, tensor_of(r), r), "its source is not on the device throughout: {}", words(r));
    }
    for (row const& r : h2d_) {
      require(there(host_, tensor_of(r), r), "its source is not on the host throughout: {}", words(r));
    }
  }

  [[nodiscard]] std::vector<charge> host_charges() const {
    std::vector<charge> result;
    for (auto const& [t, list] : host_) {
      for (residency const& r : list) result.push_back({r.from_s, r.until_s, bytes_of(t)});
    }
    return result;
  }

  [[nodiscard]] double scratch_of(row const& r) const {
    auto const of = [&](std::vector<double> const& list) { return list.empty() ? 0 : list[r.stage]; };
    if (r.op == op::rebuild) return 0;
    if (r.op == op::backward) return of(chain_.backward_scratch_bytes);
    bool const passing = r.op == op::forward_only && !chain_.passing_scratch_bytes.empty();
    return of(passing ? chain_.passing_scratch_bytes : chain_.forward_scratch_bytes);
  }

  [[nodiscard]] std::vector<charge> device_charges() const {
    std::vector<charge> result;
    for (auto const& [t, list] : device_) {
      for (residency const& r : list) result.push_back({r.from_s, r.until_s, bytes_of(t)});
    }
    // The gradient of X[i] lives from the start of its stage's backward to the end of the next one.
    for (std::size_t i = 0; i < stages_; ++i) {
      result.push_back({backward_[i].start_s, backward_[i == 0 ? 0 : i - 1].end_s, chain_.boundary_bytes[i]});
    }
    result.push_back({backward_.back().start_s, backward_.back().end_s, chain_.boundary_bytes[stages_]});
    for (row const& r : compute_) {
      result.push_back({r.start_s, r.end_s, scratch_of(r)});
      if (r.op == op::forward_saving && partial(r.stage) != nullptr) {
        planning::saving_option const& part = *partial(r.stage);
        double const peak = part.forward_peak_bytes > 0 ? part.forward_peak_bytes : chain_.saved_bytes[r.stage];
        double const more = peak - part.kept_bytes - part.ferried_bytes;
        if (more > 0) result.push_back({r.start_s, r.end_s, more});
      }
    }
    return result;
  }

  /// The peak. At equal times, within the tolerance, frees come before allocations.
  [[nodiscard]] double sweep(std::vector<charge> const& charges, double limit, char const* name) const {
    std::vector<std::pair<double, double>> changes;  // when, bytes
    for (charge const& c : charges) {
      if (c.until_s <= c.from_s + slack_s_ * 1e-3) continue;
      changes.emplace_back(c.from_s, c.bytes);
      changes.emplace_back(c.until_s, -c.bytes);
    }
    std::sort(changes.begin(), changes.end());
    double now = 0;
    double peak = 0;
    for (std::size_t i = 0; i < changes.size();) {
      double const at_s = changes[i].first;
      for (; i < changes.size() && changes[i].first <= at_s + slack_s_; ++i) now += changes[i].second;
      peak = std::max(peak, now);
      require(now <= limit + tolerance_ * std::min(limit, chain_.device_bytes),
              "{} memory holds {:.0f} bytes at {:.9g} s, more than its {:.0f}", name, now, at_s, limit);
    }
    return peak;
  }

  [[nodiscard]] verdict totals() const {
    verdict result;
    result.makespan_s = backward_.front().end_s;
    for (row const& r : compute_) result.forward_runs += r.op != op::backward && r.op != op::rebuild ? 1 : 0;
    for (row const& r : d2h_) result.d2h_bytes += bytes_of(tensor_of(r));
    for (row const& r : h2d_) result.h2d_bytes += bytes_of(tensor_of(r));
    return result;
  }

  planning::chain const& chain_;
  partial_savings savings_;
  std::size_t stages_;
  double tolerance_;
  double slack_s_ = 0;
  std::vector<row> compute_, d2h_, h2d_;
  std::vector<row> backward_;  // by stage
  std::map<std::pair<where, tensor>, std::vector<double>> drops_;
  residency_map device_, host_;
};

/// The verdict on a schedule of the pure problem.
inline verdict judge(planning::chain const& problem, std::span<planning::scheduled const> schedule) {
  return referee(problem).judge(schedule);
}

}  // namespace ferry::testing
