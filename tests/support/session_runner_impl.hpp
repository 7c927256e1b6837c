// What the operations of a random program do; see session_runner.hpp.
#pragma once

#include "support/session_runner.hpp"

namespace ferry::testing {

/// What the session may do with an item that was just saved, by its policy.
inline void session_runner::note_freedom(model_item& item) {
  bool const by_keep_policy = !placed_ && program_.policy.kind == policy_kind::keep;
  bool const firm = placed_ || by_keep_policy;
  placement where = placement::recompute;
  if (placed_) where = chosen_;
  if (by_keep_policy) where = placement::keep;
  if (!placed_ && program_.policy.kind == policy_kind::offload) where = placement::offload;
  std::size_t const bytes = item.bytes->size();
  if (bytes < program_.min_bytes || (where == placement::recompute && !item.has_recipe)) where = placement::keep;
  item.can_drop = item.has_recipe && !(where == placement::keep && firm);
  item.can_ferry = where == placement::offload && bytes <= program_.in_flight;
  saved_bytes_ += room_model::rounded(bytes);
  ++saved_count_;
}

/// Device bytes that the session cannot take from anybody.
inline room_model session_runner::room() {
  room_model taken(budget_);
  std::set<void const*> leased;
  for (auto const& each : leases_) {
    if (leased.insert(each.held.data()).second) taken.force(each.held.bytes());
  }
  for (auto const& each : blocks_) taken.force(each.bytes());
  // Room in pinned memory is certain only if it would hold everything that was ever saved, however it lies.
  bool const ferry_is_certain =
      program_.host_budget > saved_bytes_ &&
      (program_.host_budget - saved_bytes_) / (saved_count_ + 1) >= room_model::rounded(program_.largest_item);
  for (auto const& key : model_.in_save_order()) {
    auto const& item = model_.at(key);
    if (!is_leased(key) && !item.can_drop && !(item.can_ferry && ferry_is_certain)) taken.force(item.bytes->size());
  }
  return taken;
}

inline void session_runner::produce(operation const& op) {
  item_key const key{op.which % 3, op.which / 3 % 5, "i" + std::to_string(at_)};
  if (model_.has(key) || is_leased(key)) return;  // still held from the step before
  model_item item;
  item.has_recipe = op.recipe;
  item.how = std::make_shared<derivation>();
  item.how->seed = mixed(program_.seed + mixed(step_ * 1000 + at_));
  item.how->bytes = size_of(op);
  if (op.rows > 1 && item.how->bytes % op.rows == 0) item.how->rows = op.rows;
  item.how->refusals = op.recipe && op.careless ? 2 : 0;
  std::vector<std::span<std::byte const>> sources;
  auto const& items = model_.in_save_order();
  for (std::uint32_t i = 0; op.recipe && i < std::min<std::size_t>(op.inputs, items.size()); ++i) {
    auto const& input = items[(op.which + i) % items.size()];
    auto const& bytes = *model_.at(input).bytes;
    item.inputs.push_back(input);
    item.how->input_bytes.push_back(bytes.size());
    sources.emplace_back(bytes);
  }
  auto bytes = std::make_shared<content>(item.how->bytes);
  compute(*bytes, item.how->seed, sources);
  item.bytes = std::move(bytes);
  item.produced = std::make_shared<std::atomic<bool>>(false);

  // The inputs that forward reads are leased until the item is saved.
  std::size_t const before = leases_.size();
  bool ready = true;
  if (op.from_inputs) {
    for (auto const& input : item.inputs) ready = ready && bring_back(input, stream_of(op.stream));
  }
  std::size_t const borrowed = ready ? leases_.size() - before : 0;
  if (ready) produce_into(op, key, std::move(item));
  if (leases_.size() >= before + borrowed) {
    auto const first = leases_.begin() + static_cast<std::ptrdiff_t>(before);
    leases_.erase(first, first + static_cast<std::ptrdiff_t>(borrowed));
  }
}

inline void session_runner::produce_into(operation const& op, item_key const& key, model_item item) {
  if (is_over()) return;
  stream_ref const writer = stream_of(op.stream);
  stream_ref const saver = op.crossing ? stream_of(op.stream + 1) : writer;
  std::size_t const bytes = item.bytes->size();
  block own;
  device_view view;
  release_callback on_release;
  if (op.adopted) {
    std::tie(view, on_release) = world_.adoptable(bytes);
  } else {
    auto const outcome = tried([&] { own = session_->allocate(bytes, writer); });
    if (outcome == refusal::no_room && !faulty() && room().must_fit({bytes})) complain("allocate: " + why_);
    if (outcome != refusal::none) return;
    view = {own.data(), bytes};
  }

  auto const written = op.crossing ? std::make_shared<std::atomic<bool>>(false) : item.produced;
  if (op.from_inputs) {
    std::vector<void const*> inputs;
    for (auto each = leases_.end() - static_cast<std::ptrdiff_t>(item.inputs.size()); each != leases_.end(); ++each) {
      inputs.push_back(each->held.data());
    }
    world_.derive(writer, view.address, inputs, item.how, written);
  } else {
    world_.write(writer, view.address, item.bytes, written);
  }
  if (op.crossing) world_.cross(writer, saver, written, item.produced);

  lease got;
  auto const outcome = tried([&] {
    auto how = item.has_recipe ? world_.recipe_for(item.how, item.inputs) : recipe{};
    got = op.adopted ? session_->save(key, view, saver, std::move(on_release), std::move(how))
                     : session_->save(key, std::move(own), saver, std::move(how));
  });
  if (outcome != refusal::none) {
    if (op.adopted) world_.keep_last_adoptable();
    if (outcome == refusal::no_room && (!op.adopted || (!faulty() && room().must_fit({bytes})))) {
      complain("save: " + why_);
    }
    return;
  }
  if (got.data() != view.address || got.bytes() != bytes) complain("save moved the bytes");
  note_freedom(item);
  note("saved " + to_string(key) + " on s" + std::to_string((op.stream + (op.crossing ? 1 : 0)) % 2));
  leases_.push_back({key, std::move(got), saver, item.bytes});
  compare(leases_.back());
  if (!op.hold) let_go(leases_, leases_.size() - 1);
  model_.save(key, std::move(item));
}

/// On success the lease is the last one held.
inline bool session_runner::bring_back(item_key const& key, stream_ref on) {
  auto const& item = model_.at(key);
  auto const state = session_->state(key);
  if (!state) complain(to_string(key) + " is not known any more");
  bool const in_host_memory = state == item_state::hosted || state == item_state::prefetching;
  bool const may_refuse = model_.may_refuse(key);
  lease got;
  auto const outcome = tried([&] { got = session_->restore(key, on); });
  if (outcome == refusal::no_room && !faulty()) {
    // A host copy needs room for itself alone; what may be rebuilt needs its inputs beside it.
    auto const wanted = in_host_memory ? std::vector{item.bytes->size()} : model_.closure_bytes(key);
    if (room().must_fit(wanted)) complain("restore of a " + std::string(to_string(*state)) + " item: " + why_);
  }
  if (outcome == refusal::recipe && !faulty() && (in_host_memory || !may_refuse)) {
    complain("restore of a " + std::string(to_string(*state)) + " item: " + why_);
  }
  note("restored " + to_string(key) + ", " + (state ? std::string(to_string(*state)) : "unknown") + " before, on s" +
       (on == stream_of(0) ? "0" : "1") + (outcome == refusal::none ? "" : ": refused"));
  if (outcome != refusal::none) return false;
  if (got.data() == nullptr || got.bytes() != item.bytes->size()) complain("restore lends the wrong range");
  leases_.push_back({key, std::move(got), on, item.bytes});
  compare(leases_.back());
  return true;
}

inline void session_runner::release(item_key const& key) {
  if (!insisted("release", [&] { session_->release(key); })) return;
  model_.release(key);
  note("released " + to_string(key));
  if (!is_leased(key) && session_->state(key)) complain(to_string(key) + " is known after its release");
  expect_refused<unknown_key>("restoring a released item",
                              [&] { static_cast<void>(session_->restore(key, stream_of(0))); });
}

inline void session_runner::scratch(operation const& op) {
  block own;
  std::size_t const bytes = size_of(op);
  auto const outcome = tried([&] { own = session_->allocate(bytes, stream_of(op.stream), "scratch"); });
  if (outcome == refusal::no_room && !faulty() && room().must_fit({bytes})) complain("scratch: " + why_);
  if (outcome != refusal::none) return;
  auto written = std::make_shared<content>(bytes, std::byte{0x5A});
  world_.write(stream_of(op.stream), own.data(), written, nullptr);
  world_.compare(stream_of(op.stream), own.data(), written, "scratch");
  if (op.hold) blocks_.push_back(std::move(own));
}

inline void session_runner::consume(item_key const& key, stream_ref on) {
  item_key const wanted = key;  // the model's own is gone after the release
  if (bring_back(wanted, on)) let_go(leases_, leases_.size() - 1);
  if (!model_.is_needed(wanted)) release(wanted);
}

inline void session_runner::backward(operation const& op) {
  auto const items = model_.in_save_order();
  for (auto key = items.rbegin(); key != items.rend(); ++key) {
    if (key->micro_batch == op.which % 3) consume(*key, stream_of(op.stream));
  }
}

inline void session_runner::misuse(operation const& op) {
  auto const& items = model_.in_save_order();
  stream_ref const on = stream_of(op.stream);
  item_key const unknown{7, op.which, "nobody"};
  expect_refused<unknown_key>("restoring an unknown item", [&] { static_cast<void>(session_->restore(unknown, on)); });
  expect_refused<unknown_key>("releasing an unknown item", [&] { session_->release(unknown); });
  expect_refused<invalid_argument>("zero bytes", [&] { static_cast<void>(session_->allocate(0, on)); });
  expect_refused<invalid_argument>("no stream", [&] { static_cast<void>(session_->allocate(1, {})); });
  expect_refused<error>("a step in a step", [&] { session_->begin_step(); });
  if (items.empty()) return;
  item_key const taken = items[op.which % items.size()];
  block own;
  if (tried([&] { own = session_->allocate(1, on); }) != refusal::none) return;
  expect_refused<duplicate_key>("saving twice", [&] { session_->save(taken, std::move(own), on); });
  if (!own) complain("a refused save took the block");
}

/// What the items' states say is where, added up, whatever the session's own books say.
inline void session_runner::expect_within_budgets() {
  std::size_t on_device = 0;
  std::size_t in_host_memory = 0;
  std::size_t in_flight = 0;
  for (auto const& each : blocks_) on_device += each.bytes();
  for (auto const& key : model_.in_save_order()) {
    auto const state = session_->state(key);
    std::size_t const bytes = model_.at(key).bytes->size();
    bool const arriving = state == item_state::prefetching;
    bool const leaving = state == item_state::offloading;
    if (state == item_state::resident || leaving || arriving) on_device += bytes;
    if (state == item_state::hosted || leaving || arriving) in_host_memory += bytes;
    if (leaving) in_flight += bytes;
  }
  if (on_device > budget_) complain(std::to_string(on_device) + " bytes on the device");
  if (in_host_memory > program_.host_budget) complain(std::to_string(in_host_memory) + " bytes pinned");
  if (in_flight > program_.in_flight) complain(std::to_string(in_flight) + " bytes in flight");
}

/// The storm is over: whatever was produced and can be had from anywhere must come back.
inline void session_runner::heal() {
  if (is_over()) return;
  world_.sky.set_stormy(false);
  leases_.clear();
  blocks_.clear();
  world_.settle();
  static_cast<void>(tried([&] { session_->synchronize(); }));
  auto const was_produced = [&](item_key const& key) { return model_.at(key).produced->load(); };
  auto const items = model_.in_save_order();
  for (auto key = items.rbegin(); key != items.rend(); ++key) {
    auto const needs = model_.closure(*key);
    bool const whole = std::ranges::all_of(
        needs, [&](item_key const& each) { return was_produced(each) && !model_.at(each).inputs_gone; });
    if (!whole) continue;
    // Recipes refuse a few times, and marks left from the storm may be reported a few times more.
    bool back = false;
    bool no_room = false;
    for (unsigned tries = 0; !back && !no_room && tries < 10 + program_.run_ahead; ++tries) {
      lease got;
      auto const outcome = tried([&] { got = session_->restore(*key, stream_of(tries)); });
      back = outcome == refusal::none;
      no_room = outcome == refusal::no_room;
      note("healed " + to_string(*key) + (back ? "" : ": refused"));
      if (back) world_.compare(stream_of(tries), got.data(), model_.at(*key).bytes, key->name.str() + " healed");
    }
    // Items whose way out failed may have filled the device for good.
    if (is_over()) return;
    if (!back && !no_room) complain(to_string(*key) + " is lost: " + why_);
    if (!model_.is_needed(*key)) release(*key);
  }
  for (auto const& failure : world_.settle()) complain("a stream failed after the storm: " + failure);
}

inline void session_runner::finish() {
  leases_.clear();
  blocks_.clear();
  if (!insisted("synchronize", [&] { session_->synchronize(); })) return walk_out();
  for (auto const& failure : world_.settle()) complain("a stream failed: " + failure);
  // What the streams used until now may be given back.
  if (!insisted("synchronize", [&] { session_->synchronize(); })) return walk_out();
  stats_ = session_->stats();
  world_.settle();
  expect_nothing_left();
  world_.expect_all_memory_returned_once();
}

/// The session goes in the middle of everything; what was lent stays good until it is given back.
inline void session_runner::walk_out() {
  if (program_.explored.on) {
    auto const exposed = world_.in_the_open();
    session_.reset();
  }
  world_.sky.set_stormy(false);
  session_.reset();
  for (auto const& each : leases_) compare(each);
  leases_.clear();
  blocks_.clear();
  auto const failures = world_.settle();
  if (!faulty() && !failures.empty()) complain("a stream failed: " + failures.front());
  // A copy that never ends never gives back what it reads.
  if (!program_.explored.dead_link) world_.expect_all_memory_returned_once();
}

inline void session_runner::expect_nothing_left() {
  auto const check = [&](char const* name, tier_stats const& tier, std::size_t most) {
    if (tier.now_bytes != 0) complain(std::to_string(tier.now_bytes) + " bytes left of " + name);
    if (tier.peak_bytes > most) complain(std::string("over the limit of ") + name);
  };
  check("the device", stats_.device, largest_budget_);
  check("pinned memory", stats_.pinned, stats_.pinned.limit_bytes);
  check("the bytes in flight", stats_.in_flight, stats_.in_flight.limit_bytes);
  if (stats_.device.limit_bytes != budget_) complain("another budget than set");
  if (stats_.pinned.limit_bytes != program_.host_budget) complain("another pinned budget than set");
  if (stats_.in_flight.limit_bytes != program_.in_flight) complain("another in-flight limit than set");
  if (stats_.adopted_bytes != 0) complain("adopted bytes left");
  if (!faulty() && stats_.device_to_host.failed + stats_.host_to_device.failed > 0) complain("a transfer failed");
}

}  // namespace ferry::testing
