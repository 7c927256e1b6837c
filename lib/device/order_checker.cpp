#include "device/order_checker.hpp"

#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "device/order_clock.hpp"
#include "device/order_ranges.hpp"
#include "device/order_report.hpp"

namespace ferry {

namespace {

thread_local void const* spoken_for = nullptr;

}  // namespace

// The functions of `state` require its mutex to be locked by the caller.
struct order_checker::state {
  struct participant {
    std::string place;
    bool is_host = false;
    vector_clock clock;
  };

  [[nodiscard]] participant_id add(std::string place, bool is_host);
  [[nodiscard]] participant_id this_thread();
  /// Whatever this thread enqueues comes after all that it knows.
  vector_clock& enqueue(stream_id stream);
  [[nodiscard]] named_operation named(past_access const& access) const;
  void check(past_access const& now, memory_access const& access);
  void report(past_access const& now, memory_access const& access, std::vector<finding> const& findings);
  void check_removal(named_block const& slab);

  std::mutex mutex;
  std::vector<participant> participants;
  std::map<std::pair<std::thread::id, void const*>, participant_id> threads;  // and hosts on them
  std::unordered_map<void const*, vector_clock> events;
  std::unordered_map<void const*, vector_clock> channels;
  range_map ranges;
  violation_list found;
  bool unrecorded_waits = false;
};

participant_id order_checker::state::add(std::string place, bool is_host) {
  participants.push_back({std::move(place), is_host, {}});
  return static_cast<participant_id>(participants.size() - 1);
}

participant_id order_checker::state::this_thread() {
  auto const [at, is_new] = threads.try_emplace({std::this_thread::get_id(), spoken_for});
  if (is_new) at->second = add("host thread " + std::to_string(threads.size()), true);
  return at->second;
}

vector_clock& order_checker::state::enqueue(stream_id stream) {
  participant_id const thread = this_thread();
  vector_clock& clock = participants[stream].clock;
  clock.join(participants[thread].clock);
  return clock;
}

named_operation order_checker::state::named(past_access const& access) const {
  participant const& by = participants[access.by];
  return {access.operation, by.place, by.is_host};
}

void order_checker::state::check(past_access const& now, memory_access const& access) {
  auto const range = address_range::of(access.address, access.bytes);
  named_block const* const slab = ranges.slab_touched_by(range);
  if (range.bytes() == 0 || slab == nullptr) return;

  vector_clock const& clock = participants[now.by].clock;
  bool const writes = access.how == memory_access::mode::write;
  bool const leaves_slab = range.begin < slab->range.begin || range.end > slab->range.end;
  if (leaves_slab) found.add(describe_overrun(named(now), access.how, range, *slab));

  std::vector<finding> findings;
  std::shared_ptr<named_block const> first_block;
  ranges.update(range, [&](address_range part, range_history& bytes) {
    if (bytes.freed) {
      add_finding(findings, {fault::use_after_free, bytes.last_use(), bytes.block, part});
    } else {
      if (!clock.is_after(bytes.write)) {
        add_finding(findings, {fault::unordered_with_write, bytes.write, bytes.block, part});
      }
      for (past_access const& read : bytes.reads) {
        if (!writes || clock.is_after(read)) continue;
        add_finding(findings, {fault::unordered_with_read, read, bytes.block, part});
      }
      if (first_block == nullptr) first_block = bytes.block;
      if (bytes.block != first_block && bytes.block->carved && first_block->carved && !leaves_slab) {
        found.add(describe_overrun(named(now), access.how, range, *first_block));
      }
    }
    if (writes) {
      bytes.set_write(now);
    } else {
      bytes.add_read(now);
    }
  });
  report(now, access, findings);
}

void order_checker::state::report(past_access const& now, memory_access const& access,
                                  std::vector<finding> const& findings) {
  for (finding const& each : findings) found.add(describe(each, named(now), access.how, named(each.earlier)));
}

void order_checker::state::check_removal(named_block const& slab) {
  participant const& remover = participants[this_thread()];
  ranges.update(slab.range, [&](address_range, range_history& bytes) {
    auto const check_one = [&](past_access const& past, bool writing) {
      if (remover.clock.is_after(past)) return;
      found.add(describe_early_removal(slab, remover.place, writing, named(past)));
    };
    check_one(bytes.write, true);
    for (past_access const& read : bytes.reads) check_one(read, false);
  });
}

order_checker::order_checker() : state_(std::make_unique<state>()) {}
order_checker::~order_checker() = default;

void order_checker::speak_as(void const* host) noexcept { spoken_for = host; }

order_checker::stream_id order_checker::add_stream(label const& name) {
  std::lock_guard const held(state_->mutex);
  return state_->add("stream " + name.str(), false);
}

void order_checker::operation(stream_id stream, label const& name, std::span<memory_access const> accesses) {
  std::lock_guard const held(state_->mutex);
  past_access const now{stream, state_->enqueue(stream).tick(stream), name};
  for (memory_access const& access : accesses) state_->check(now, access);
}

void order_checker::record(void const* event, stream_id stream) {
  std::lock_guard const held(state_->mutex);
  state_->events[event] = state_->enqueue(stream);
}

void order_checker::wait(stream_id stream, void const* event) {
  std::lock_guard const held(state_->mutex);
  auto const recorded = state_->events.find(event);
  if (recorded != state_->events.end()) {
    state_->enqueue(stream).join(recorded->second);
  } else if (state_->unrecorded_waits) {
    state_->found.add(state_->participants[stream].place + " waits for an event that was never recorded");
  }
}

void order_checker::forget_event(void const* event) {
  std::lock_guard const held(state_->mutex);
  state_->events.erase(event);
}

void order_checker::host_saw(void const* event) {
  std::lock_guard const held(state_->mutex);
  auto const recorded = state_->events.find(event);
  if (recorded == state_->events.end()) return;
  state_->participants[state_->this_thread()].clock.join(recorded->second);
}

void order_checker::host_saw_stream(stream_id stream) {
  std::lock_guard const held(state_->mutex);
  participant_id const thread = state_->this_thread();
  state_->participants[thread].clock.join(state_->participants[stream].clock);
}

void order_checker::slab_added(void const* address, std::size_t bytes, label const& name) {
  std::lock_guard const held(state_->mutex);
  if (bytes > 0) state_->ranges.add_slab(address_range::of(address, bytes), name);
}

void order_checker::slab_removed(void const* address) {
  std::lock_guard const held(state_->mutex);
  named_block const* const slab = state_->ranges.slab_touched_by(address_range::of(address, 1));
  if (slab == nullptr) return;
  state_->check_removal(*slab);
  state_->ranges.remove_slab(slab->range.begin);
}

void order_checker::report_unrecorded_waits(bool on) {
  std::lock_guard const held(state_->mutex);
  state_->unrecorded_waits = on;
}

void order_checker::allocated(void const* address, std::size_t bytes, label const& name) {
  std::lock_guard const held(state_->mutex);
  auto const range = address_range::of(address, bytes);
  auto const block = std::make_shared<named_block const>(named_block{name, range, true});
  state_->ranges.update(range, [&](address_range, range_history& part) {
    part.block = block;
    part.freed = false;
  });
}

void order_checker::freed(void const* address, std::size_t bytes) {
  std::lock_guard const held(state_->mutex);
  state_->ranges.update(address_range::of(address, bytes),
                        [](address_range, range_history& part) { part.freed = true; });
}

void order_checker::host_access(memory_access access, label const& name) {
  std::lock_guard const held(state_->mutex);
  participant_id const thread = state_->this_thread();
  state_->check({thread, state_->participants[thread].clock.tick(thread), name}, access);
}

void order_checker::hand_over(void const* channel) {
  std::lock_guard const held(state_->mutex);
  state_->channels[channel].join(state_->participants[state_->this_thread()].clock);
}

void order_checker::take_over(void const* channel) {
  std::lock_guard const held(state_->mutex);
  auto const handed = state_->channels.find(channel);
  if (handed == state_->channels.end()) return;
  state_->participants[state_->this_thread()].clock.join(handed->second);
}

std::vector<std::string> order_checker::violations() const {
  std::lock_guard const held(state_->mutex);
  return state_->found.texts();
}

}  // namespace ferry
