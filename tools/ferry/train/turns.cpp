#include "turns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "commands.hpp"
#include "common/interrupt.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

std::vector<double> entrant::seconds() const {
  std::vector<double> all;
  for (auto const& one : steps) all.push_back(one.result.seconds);
  return all;
}

training_in_turns::training_in_turns(train_plan const& plan, std::size_t budget_bytes, std::optional<link_pace> pace)
    : plan_(plan),
      budget_bytes_(budget_bytes),
      device_(make_device_for_several(plan, budget_bytes, entrants_at_most, entrants_that_offload)),
      host_(dynamic_cast<host_device*>(device_.get())),
      is_paced_(pace.has_value()) {
  if (pace) set_pace(*pace);
}

void training_in_turns::enter(std::string name, std::vector<std::pair<char const*, char const*>> const& settings) {
  entrant entered{.name = std::move(name), .settings = plan_.settings, .run = nullptr, .failure = {}, .steps = {}};
  auto& of = entered.settings;
  of.host_budget = byte_amount::exactly(plan_.keep_all_bytes);
  of.budget = byte_amount::exactly(entrants_.empty() ? plan_.keep_all_bytes : budget_bytes_);
  of.trace_file.clear();
  of.stats_file.clear();
  of.profile_file.clear();
  for (auto const& [variable, value] : settings) of.set(variable, value);
  entered.run = std::make_unique<train_run>(*device_, plan_, of);
  entrants_.push_back(std::move(entered));
}

void training_in_turns::take_turns(progress_bar& shown) {
  constexpr std::size_t steps_to_balance = 3;
  for (auto& taking : entrants_) {
    if (interrupted()) return;
    if (taking.run) {
      shown.show(taking.name);
      attempt(taking);
    }
    shown.advance();
    // By the fastest step so far: the very first finds cold caches and sleeping threads.
    if (&taking != &entrants_.front() || is_paced_) continue;
    balance_link(*device_, plan_, std::ranges::min(taking.seconds()));
    is_paced_ = taking.steps.size() >= steps_to_balance;
  }
}

void training_in_turns::attempt(entrant& taking) {
  bool const is_reference = &taking == &entrants_.front();
  try {
    taking.steps.push_back(taking.run->step());
  } catch (out_of_memory const& problem) {
    if (is_reference) throw;
    taking.failure = no_room_message(problem, plan_, taking.settings);
    taking.run.reset();
    return;
  }
  taking.run->session().synchronize();  // what still moves would take the link from whoever is next
  auto gradients = gradients_of(*taking.run);
  if (is_reference) {
    reference_gradients_ = std::move(gradients);
    return;
  }
  bool const same_gradients =
      std::memcmp(gradients.data(), reference_gradients_.data(), gradients.size() * sizeof(float)) == 0;
  double const loss = taking.steps.back().result.loss;
  double const expected = entrants_.front().steps.back().result.loss;
  taking.identical = taking.identical && same_gradients && loss == expected;
}

/// The host device's memory can be read where it is, without the link.
std::vector<float> training_in_turns::gradients_of(train_run& run) const {
  if (host_ == nullptr) return run.trainer().gradients();
  auto const& from = run.trainer().model().gradients();
  auto const* const values = from.as<float>();
  return {values, values + from.bytes() / sizeof(float)};
}

void training_in_turns::set_pace(link_pace pace) {
  device_->set_link_gbps(copy_direction::device_to_host, pace.out);
  device_->set_link_gbps(copy_direction::host_to_device, pace.back);
}

/// As set, or on a GPU as measured.
link_pace training_in_turns::pace() const {
  if (host_ != nullptr)
    return {host_->link(copy_direction::device_to_host).gbps, host_->link(copy_direction::host_to_device).gbps};
  auto const& measured = device_->capabilities();
  return {measured.device_to_host_gbps, measured.host_to_device_gbps};
}

std::string training_in_turns::words_of_link() const {
  auto const speed = [&](double gbps) {
    return gbps > 0 ? fmt::format("{:.3g} GB/s", gbps) : host_ != nullptr ? "unpaced" : "not measured";
  };
  auto const now = pace();
  auto const out = speed(now.out);
  auto const back = speed(now.back);
  if (host_ == nullptr) return fmt::format("of {}: {} out, {} back", device_->capabilities().name, out, back);
  if (!plan_.settings.link_schedule.empty()) return fmt::format("by a schedule, at last {} out, {} back", out, back);
  if (out != back) return fmt::format("{} out, {} back", out, back);
  return out +
         (plan_.settings.link_gbps.automatic
              ? " each way: a block's saved bytes take 2.2x its forward, as a 7B-class block's on an A100 with PCIe 4"
              : " each way");
}

void training_in_turns::require_right() const {
  for (auto const& one : entrants_) {
    if (!one.identical) throw failed(fmt::format("the gradients of {} differ from the reference's", one.name));
  }
  if (host_ == nullptr) return;
  for (auto const& violation : host_->order_violations()) throw failed("stream order: " + violation);
}

std::string words_of_model(train_plan const& plan) {
  return fmt::format("GPT of {} layers, {} features, context {}, batch {}", plan.shape.layers, plan.shape.width,
                     plan.shape.context, plan.batch);
}

}  // namespace ferry::command
