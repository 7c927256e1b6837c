#include "path/advice.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferry/rehearsal.hpp"
#include "support/enough_memory.hpp"

namespace ferry::path {

using observe::asked;
using observe::taped_step;
using store::entry;

namespace {

/// Asks of a session what is on a tape. Nothing is written to the memory that it gets.
class tape_player {
 public:
  tape_player(session& on, std::vector<stream> const& streams, bool placed_by_others) : on_(on), streams_(streams) {
    if (placed_by_others) on_.set_placement([this](item_info const&) { return where_; });
  }
  ~tape_player() { on_.abandon_step(); }
  tape_player(tape_player const&) = delete;
  tape_player& operator=(tape_player const&) = delete;

  /// Throws: as the session. Of what was refused on the tape only the last call of a step that broke off is asked
  /// again.
  void play(taped_step const& step, bool whole) {
    block before;
    if (step.held_before_bytes > 0) before = on_.allocate(step.held_before_bytes, streams_.front(), "held before");
    on_.begin_step(step.kind);
    places_used_ = 0;
    auto const refused =
        whole ? step.calls.rend() : std::ranges::find(step.calls.rbegin(), step.calls.rend(), false, &asked::answered);
    for (auto const& call : step.calls) {
      if (call.answered || (refused != step.calls.rend() && &call == &*refused)) ask(call);
    }
    leases_.clear();
    blocks_.clear();
    if (whole) {
      on_.end_step();
    } else {
      on_.abandon_step();
    }
  }

 private:
  void ask(asked const& call) {
    call_again(call);
    if (call.ended) end_lease(call);
    if (call.released) release(call);
  }

  void call_again(asked const& call) {
    stream_ref const on = streams_[call.stream];
    switch (call.call) {
      case asked::what::allocate:
        blocks_[call.slot] = on_.allocate(call.bytes, on);
        break;
      case asked::what::allocate_at: {
        auto const place = another_place(call.bytes);
        blocks_[call.slot] = on_.allocate_at({&place, 1}, on);
        break;
      }
      case asked::what::free:
        blocks_.erase(call.slot);
        break;
      case asked::what::save: {
        where_ = call.where;
        auto const saved = blocks_.find(call.slot);
        if (saved == blocks_.end()) break;  // a block of before the step
        hold(call, on_.save(call.item->key, std::move(saved->second), on, recipe_of(call)));
        blocks_.erase(saved);
        break;
      }
      case asked::what::adopt:
        where_ = call.where;
        hold(call, on_.save(call.item->key, another_place(call.adopted_bytes()), on, {}, recipe_of(call)));
        break;
      case asked::what::end_lease:
        end_lease(call);
        break;
      case asked::what::restore:
        if (on_.state(call.item->key)) hold(call, on_.restore(call.item->key, on));
        break;
      case asked::what::release:
        release(call);
        break;
      case asked::what::enter:
        on_.enter_segment(call.way, call.at.segment, on, call.at.micro_batch);
        break;
      case asked::what::leave:
        on_.leave_segment();
        break;
    }
  }

  void hold(asked const& call, lease&& held) { leases_[call.item].emplace_back(call.stream, std::move(held)); }
  void release(asked const& call) {
    if (on_.state(call.item->key)) on_.release(call.item->key);
  }
  void end_lease(asked const& call) {
    auto& held = leases_[call.item];
    auto const found = std::ranges::find(held, call.stream, &std::pair<std::uint8_t, lease>::first);
    if (found != held.end()) held.erase(found);
  }

  [[nodiscard]] static recipe recipe_of(asked const& call) {
    recipe how;
    if (!call.has_recipe) return how;
    auto const& known = *call.item->rebuild.how;
    how.enqueue = [](recipe_context const&) {};
    how.inputs = known.inputs;
    how.rows = known.rows;
    how.scratch_bytes = known.scratch_bytes;
    return how;
  }

  /// Memory of the trainer's is addresses that nobody looks at.
  [[nodiscard]] device_view another_place(std::size_t bytes) noexcept {
    constexpr std::uintptr_t first = std::uintptr_t{1} << 46U;
    auto const at = first + places_used_;
    places_used_ += bytes + 4096 - bytes % 4096;
    return {reinterpret_cast<void*>(at), bytes};  // NOLINT(performance-no-int-to-ptr)
  }

  session& on_;
  std::vector<stream> const& streams_;
  placement where_ = placement::keep;
  std::size_t places_used_ = 0;
  std::unordered_map<std::uint32_t, block> blocks_;  // by slot
  std::unordered_map<entry const*, std::vector<std::pair<std::uint8_t, lease>>> leases_;
};

/// What a call takes beyond what the calls before it took.
std::size_t bytes_of(asked const& call) {
  switch (call.call) {
    case asked::what::allocate:
    case asked::what::allocate_at:
      return call.bytes;
    case asked::what::adopt:
      return call.adopted_bytes();
    default:
      return 0;
  }
}

/// What the steps would take if everything stayed; and the largest of it.
struct appetite {
  std::size_t all_bytes = 0;
  std::size_t largest_bytes = 0;

  void add(std::size_t bytes) noexcept {
    all_bytes += bytes + 256;
    largest_bytes = std::max(largest_bytes, bytes);
  }
  void add(taped_step const& step) {
    add(step.held_before_bytes);
    for (auto const& one : step.calls) {
      add(bytes_of(one));
      if (one.has_recipe) add(one.item->rebuild.how->scratch_bytes);
    }
  }
};

std::size_t smallest_budget(short_of_room const& found) {
  auto const& now = found.tape.now();
  auto const& last = found.tape.last();
  appetite of;
  of.add(now);
  of.add(last);
  auto settings = found.settings;
  settings.host_budget = byte_amount::exactly(found.pinned_bytes);
  rehearsal stage({.settings = std::move(settings),
                   .most_bytes = 2 * of.all_bytes,
                   .pinned_bytes = found.pinned_bytes,
                   .margin_bytes = 2 * of.largest_bytes,
                   .too_small_bytes = found.budget_bytes});
  std::vector<stream> streams;
  for (std::size_t i = 0; i < observe::step_tape::most_streams; ++i) {
    streams.emplace_back(stage.on(), stream_kind::compute, "rehearsal");
  }
  return stage.smallest_budget([&](session& on) {
    tape_player player(on, streams, found.placed_by_others);
    constexpr int steps_to_learn = 2;
    for (int i = 0; i < steps_to_learn && !last.calls.empty(); ++i) player.play(last, true);
    player.play(now, false);
  });
}

}  // namespace

std::optional<out_of_device_memory> with_advice(out_of_device_memory const& problem, short_of_room const& found) {
  std::size_t const enough = smallest_budget(found);
  if (enough == 0) return std::nullopt;
  bool const known = !found.tape.last().calls.empty();
  auto const* const what = known ? "steps like the last one, and for this one so far" : "the step so far";
  return support::with_enough(problem, enough, found.device_bytes, what);
}

}  // namespace ferry::path
