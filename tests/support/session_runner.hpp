// Runs a random program against the session and the model together. Kernels declare what they touch, so the
// stream-order checker sees everything; every restored item is compared on its stream with what the model says.
//
// A call may be refused for lack of room only where the model cannot prove that there was room, and because of a
// recipe only where the recipe throws or its inputs are gone. With faults, calls may also report what failed;
// then the trainer lets go of his leases, as one who has seen an error does, and goes on.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/session_world.hpp"

namespace ferry::testing {

class session_runner {
 public:
  explicit session_runner(program const& p)
      : program_(p), world_(p), session_(std::in_place, *world_.dev, settings_of(p)) {
    if (p.placement != 0) place(p.placement);
  }

  void run();
  /// What happens on an explored device counts there.
  void count_in(coverage& total) noexcept { world_.count_in(total); }
  /// What went wrong, or nothing.
  [[nodiscard]] std::string problems() const {
    auto text = world_.problems.text();
    return text.empty() ? text : text + "after:" + journal_ + "\n";
  }
  [[nodiscard]] session_stats const& stats() const { return stats_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  [[nodiscard]] session_world const& world() const { return world_; }

 private:
  enum class refusal : std::uint8_t { none, no_room, recipe, fault };
  struct held_lease {
    item_key key;
    lease held;
    stream_ref on;
    std::shared_ptr<content const> expected;
  };

  static config settings_of(program const& p) {
    config settings;
    settings.budget = byte_amount::exactly(p.budget);
    settings.host_budget = byte_amount::exactly(p.host_budget);
    settings.max_in_flight = byte_amount::exactly(p.in_flight);
    settings.chunk_bytes = p.chunk_bytes;
    settings.min_bytes = p.min_bytes;
    settings.policy = p.policy;
    settings.verify = p.verify ? verify_mode::checksum : verify_mode::off;
    settings.run_ahead = p.run_ahead;
    settings.stall_tolerance_us = p.stall_tolerance_us;
    settings.plan_effort = p.explored.on ? 20 : 0;
    if (p.explored.journal) settings.trace_file = settings.stats_file = "/dev/null";
    settings.log = log_level::off;
    settings.advise = false;  // thousands of programs that are refused room: tests/property/advice_test.cpp has others
    return settings;
  }

  [[nodiscard]] bool faulty() const { return program_.is_faulty(); }
  /// Nothing more can be done.
  [[nodiscard]] bool is_over() const noexcept { return stuck_ || world_.is_lost(); }
  [[nodiscard]] std::string here() const { return std::to_string(step_) + "." + std::to_string(at_); }
  void complain(std::string const& text) { world_.problems.add("at " + here() + ": " + text); }
  void note(std::string const& text) { journal_ += "\n  " + here() + " " + text; }

  template <typename Call>
  refusal tried(Call const& call) {
    try {
      auto const exposed = world_.in_the_open();
      call();
      return refusal::none;
    } catch (out_of_device_memory const& e) {
      ++refused_;
      note(why_ = e.what());
      return refusal::no_room;
    } catch (recipe_error const& e) {
      note(why_ = e.what());
      return refusal::recipe;
    } catch (stream_error const& e) {
      if (!faulty()) throw;
      note(why_ = e.what());
    } catch (transfer_error const& e) {
      if (!faulty()) throw;
      note(why_ = e.what());
    } catch (call_failed const& e) {
      note(why_ = e.what());
    } catch (cuda_error const& e) {
      if (!faulty()) throw;
      note(why_ = e.what());
    } catch (deadlock_error const& e) {
      if (!program_.explored.dead_link) throw;
      note(why_ = e.what());
      stuck_ = true;
    }
    let_go(leases_);
    return refusal::fault;
  }
  /// What is held is given back in the session's own functions, whose calls may fail too.
  template <typename Held>
  void let_go(std::vector<Held>& all) {
    auto const exposed = world_.in_the_open();
    all.clear();
  }
  template <typename Held>
  void let_go(std::vector<Held>& of, std::size_t which) {
    auto const exposed = world_.in_the_open();
    of.erase(of.begin() + static_cast<std::ptrdiff_t>(which));
  }
  /// For a call that is made until it succeeds. False if it never can.
  template <typename Call>
  [[nodiscard]] bool insisted(char const* what, Call const& call) {
    for (int tries = 0; tries < 200; ++tries) {
      if (tried(call) == refusal::none) return true;
      if (is_over()) return false;
    }
    complain(std::string(what) + " never succeeds: " + why_);
    return false;
  }
  template <typename Error, typename Call>
  void expect_refused(char const* what, Call const& call) {
    try {
      if (tried(call) == refusal::none) complain(std::string(what) + " was not refused");
    } catch (Error const&) {
      return;
    }
  }

  void place(std::uint32_t seed) {
    session_->set_placement([this, seed](item_info const& item) {
      return chosen_ = static_cast<placement>(mixed(std::hash<item_key>{}(item.key) ^ seed) % 3);
    });
    placed_ = true;
  }
  void note_freedom(model_item& item);
  [[nodiscard]] room_model room();

  void perform(operation const& op);
  void produce(operation const& op);
  void produce_into(operation const& op, item_key const& key, model_item item);
  bool bring_back(item_key const& key, stream_ref on);
  void release(item_key const& key);
  void scratch(operation const& op);
  void consume(item_key const& key, stream_ref on);
  void backward(operation const& op);
  void misuse(operation const& op);
  [[nodiscard]] bool run_steps();
  void heal();
  void finish();
  void walk_out();
  void expect_within_budgets();
  void expect_nothing_left();

  [[nodiscard]] stream_ref stream_of(std::uint32_t n) const { return world_.streams[n % 2]; }
  [[nodiscard]] std::size_t size_of(operation const& op) const {
    std::size_t const bytes = 1 + op.size % program_.largest_item;
    return op.size % 4 == 0 ? std::min(room_model::rounded(bytes), program_.largest_item) : bytes;
  }
  /// From one that barely holds an item to twice what there was.
  [[nodiscard]] std::size_t another_budget(operation const& op) const {
    return std::max(program_.largest_item, program_.budget * (1 + op.which % 8) / 4);
  }
  [[nodiscard]] bool is_leased(item_key const& key) const {
    return std::ranges::any_of(leases_, [&](auto const& each) { return each.key == key; });
  }
  void compare(held_lease const& each) {
    world_.compare(each.on, each.held.data(), each.expected, each.key.name.str() + " compared at " + here());
  }

  program const& program_;
  session_world world_;
  std::optional<session> session_;
  session_model model_;
  std::size_t budget_ = program_.budget;  // in force
  std::size_t largest_budget_ = program_.budget;
  bool stuck_ = false;  // the link is dead, and something waits for it
  std::vector<held_lease> leases_;
  std::vector<block> blocks_;
  placement chosen_ = placement::keep;
  bool placed_ = false;
  std::size_t saved_bytes_ = 0;
  std::size_t saved_count_ = 0;
  std::size_t step_ = 0;
  std::size_t at_ = 0;
  std::uint64_t refused_ = 0;
  std::string why_;
  std::string journal_;
  session_stats stats_;
};

inline void session_runner::run() {
  try {
    if (run_steps()) {
      finish();
    } else {
      walk_out();
    }
  } catch (std::exception const& e) {
    complain(std::string("unexpected: ") + e.what());
    leases_.clear();
    blocks_.clear();
  }
  session_.reset();
  world_.settle();
  if (is_over()) return;  // what was enqueued has neither run nor will it: nobody can be ordered after it
  for (auto& text : world_.order_violations()) {
    bool const never_over = program_.explored.dead_link && text.starts_with("freed in flight");
    if (!never_over) world_.problems.add(std::move(text));
  }
}

/// False if the trainer walked out.
inline bool session_runner::run_steps() {
  std::size_t performed = 0;
  for (step_ = 0; step_ < program_.steps.size(); ++step_) {
    if (!insisted("begin_step", [&] { session_->begin_step(); })) return false;
    budget_ = session_->settings().budget.bytes;
    largest_budget_ = std::max(largest_budget_, budget_);
    if (program_.reshuffle) place(program_.placement + static_cast<std::uint32_t>(step_));
    world_.sky.set_stormy(true);
    auto const& body = program_.body(step_);
    for (at_ = 0; at_ < body.size(); ++at_) {
      world_.draw_from(mixed(program_.seed + mixed(step_) + number_of(body[at_])));
      perform(body[at_]);
      expect_within_budgets();
      if (++performed == program_.walk_out || is_over()) return false;
    }
    if (faulty()) heal();
    if (!program_.hold_over_steps) {
      let_go(leases_);
      let_go(blocks_);
    }
    if (!insisted("end_step", [&] { session_->end_step(); })) return false;
    model_.end_step();
  }
  return true;
}

inline void session_runner::perform(operation const& op) {
  auto const& items = model_.in_save_order();
  switch (op.kind) {
    case action::produce:
      return produce(op);
    case action::restore:
      if (!items.empty() && bring_back(items[op.which % items.size()], stream_of(op.stream)) && !op.hold) {
        let_go(leases_, leases_.size() - 1);
      }
      return;
    case action::use:
      if (!leases_.empty()) compare(leases_[op.which % leases_.size()]);
      return;
    case action::end_lease:
      if (!leases_.empty()) let_go(leases_, op.which % leases_.size());
      return;
    case action::release: {
      if (items.empty()) return;
      item_key const key = items[op.which % items.size()];
      if (op.careless || !model_.is_needed(key)) release(key);
      return;
    }
    case action::scratch:
      return scratch(op);
    case action::end_block:
      if (!blocks_.empty()) let_go(blocks_, op.which % blocks_.size());
      return;
    case action::consume:
      // The largest number stands for the latest item.
      if (!items.empty())
        consume(op.which == ~0U ? items.back() : items[op.which % items.size()], stream_of(op.stream));
      return;
    case action::backward:
      return backward(op);
    case action::synchronize:
      static_cast<void>(tried([&] {
        if (op.hold) {
          session_->synchronize();
        } else {
          world_.streams[op.stream % 2].synchronize();
        }
      }));
      return;
    case action::place:
      if (op.hold) {
        session_->set_placement({});
        placed_ = false;
      } else {
        place(op.size);
      }
      return;
    case action::misuse:
      return misuse(op);
    case action::idle:
      static_cast<void>(tried([&] { session_->idle_hint(op.size % 1000); }));
      return;
    case action::budget:
      static_cast<void>(tried([&] { session_->set_budget(byte_amount::exactly(another_budget(op))); }));
      return;
  }
}

}  // namespace ferry::testing

#include "support/session_runner_impl.hpp"
