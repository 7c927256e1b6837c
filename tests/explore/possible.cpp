// What cannot happen, and why; see possible.hpp.
#include "explore/possible.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "ferry/item.hpp"
#include "store/happenings.hpp"

namespace ferry::testing {

namespace {

using words = std::vector<std::string_view>;

constexpr std::array item_states{"released",    "resident", "offloading", "hosted",
                                 "prefetching", "dropped",  "recomputing"};
constexpr std::array evidences{
    "no bytes",           "host copy", "unwritten", "unwritten, host copy", "by work",
    "by work, host copy", "by link",   "arrived",   "by link, host copy",   "arrived, host copy"};
constexpr std::array phases{"queued", "issued", "stopped", "ended"};
constexpr std::array flights{"chunks in flight", "nothing in flight"};

/// What matches all of it is impossible. Nothing named: whatever it is. `but`: all that are not named.
struct rule {
  words what;
  words states;
  words events;
  words evidence;
  char const* why;
  bool states_but = false;
  bool events_but = false;
  bool evidence_but = false;
};

words item() { return {"item"}; }
words transfers() { return {"offload", "fetch"}; }

/// In the order of a life. Each says what is impossible, and why.
std::vector<rule> const& rules() {
  // A rule is a line, or two.
  // clang-format off
  static std::vector<rule> const all{
      // What is known of the bytes, by state.
      {item(), {}, {}, {"by link", "arrived"}, "the link brings back what is on the host, and the copy there stays"},
      {item(), {"released"}, {}, {"no bytes"}, "an item that is not there has no bytes", false, false, true},
      {item(), {"resident"}, {}, {"by work", "by work, host copy", "arrived, host copy"},
       "what is on the device was written by somebody's work or has arrived", false, false, true},
      {item(), {"offloading"}, {}, {"by work"},
       "what has a host copy need not go out, and what has arrived has one", false, false, true},
      {item(), {"hosted"}, {}, {"host copy", "unwritten, host copy"},
       "what is on the host has its copy there, and at most bytes on the device that nobody has written", false, false,
       true},
      {item(), {"prefetching"}, {}, {"by link, host copy"}, "its bytes are the link's", false, false, true},
      {item(), {"dropped"}, {}, {"no bytes", "unwritten"},
       "what was dropped has at most bytes that a recipe is to write", false, false, true},
      {item(), {"dropped"}, {"lease ended", "recipe begun"}, {"unwritten"},
       "bytes for a recipe that failed go with the lease that they were for", false, true},
      {item(), {"recomputing"}, {}, {"arrived, host copy"}, "what has arrived is not rebuilt"},
      // What happens to whom.
      {item(), {"released"}, {"saved"}, {}, "nothing else happens to an item that is not there", true},
      {item(), {"released"}, {"saved"}, {}, "an item that is not there can only be saved", false, true},
      {item(), {"recomputing"}, {"needed", "lease ended", "release asked", "swept"}, {},
       "a recipe must not call the session, so the trainer does nothing while one is enqueued"},
      {item(), {"recomputing"}, {"needed by a recipe"}, {},
       "recipes that need each other in a circle are an error, which no program here makes"},
      {item(), {"resident"}, {"offload begun", "offload deferred"}, {}, "only what is on the device can go out", true},
      {item(), {"resident"}, {"offload begun", "offload deferred"}, {"by work"},
       "what has a host copy need not go out again", false, false, true},
      {item(), {"offloading"},
       {"offload called off", "offload completed", "offload abandoned", "offload failed"}, {},
       "a transfer out ends while its item is on its way out, or is nobody's any more", true},
      {item(), {"hosted"}, {"fetch begun"}, {}, "only what is on the host comes back", true},
      {item(), {"prefetching"}, {"fetch called off", "left behind"}, {}, "only of what is on its way back", true},
      {item(), {"offloading", "dropped"}, {"fetch completed", "fetch abandoned", "fetch failed"}, {},
       "an item with a transfer that still writes somewhere is neither sent out nor dropped"},
      {item(), {"resident"}, {"fetch completed", "fetch abandoned", "fetch failed"}, {"by work, host copy"},
       "only a recipe that took over makes an item resident before its transfer has ended", false, false, true},
      {item(), {"hosted"}, {"fetch completed", "fetch abandoned", "fetch failed"}, {"unwritten, host copy"},
       "an item that left its bytes to the link was given others", false, false, true},
      {item(), {"recomputing"}, {"fetch completed"}, {"by link, host copy"},
       "a transfer that was called off for a recipe never completes"},
      {item(), {"recomputing"}, {"fetch completed", "fetch abandoned", "fetch failed"},
       {"unwritten, host copy", "by link, host copy"},
       "the recipe has not been enqueued yet, and there are bytes for it, or were", false, false, true},
      {item(), {"dropped", "hosted", "prefetching"}, {"recipe begun"}, {},
       "a recipe rebuilds what is not on the device", true},
      {item(), {"recomputing"}, {"recipe enqueued", "recipe failed"}, {}, "only of what is being rebuilt", true},
      {item(), {"recomputing"}, {"recipe enqueued"}, {"by work", "by work, host copy"},
       "then the recipe's work writes it", false, false, true},
      {item(), {"recomputing"}, {"recipe failed"}, {"by work", "by work, host copy"},
       "nothing can fail any more once its work is marked"},
      {item(), {"resident"}, {"evicted", "dropped", "found lost"}, {}, "only of what is on the device", true},
      {item(), {}, {"evicted"}, {"by work"}, "without a host copy it would be dropped"},
      {item(), {}, {"dropped"}, {"by work, host copy", "arrived, host copy"}, "with a host copy it would be evicted"},
      {item(), {}, {"found lost"}, {"arrived, host copy"}, "what has arrived was seen to"},
      // Transfers.
      {transfers(), {"ended"}, {}, {}, "nothing happens to a transfer that has ended"},
      {transfers(), {"queued"}, {"accepted", "producer failed", "chunk issued", "last chunk issued", "call refused",
                                 "called off unsent", "called off in flight"}, {},
       "only before its last chunk was issued", true},
      {{"fetch"}, {}, {"producer failed"}, {}, "bytes whose last user failed are as free as any"},
      {transfers(), {}, {"accepted", "producer failed", "called off unsent", "last chunk arrived", "checksum wrong",
                         "drained"}, {"chunks in flight"}, "then nothing of it is in flight"},
      {transfers(), {}, {"called off in flight"}, {"nothing in flight"}, "then some of it is in flight"},
      {transfers(), {"issued"}, {"last chunk arrived", "checksum wrong"}, {}, "only once all chunks were issued", true},
      {transfers(), {"issued"}, {"chunk arrived"}, {"nothing in flight"}, "the last one is still in flight"},
  };
  // clang-format on
  return all;
}

bool has(words const& list, std::string_view word) { return std::ranges::find(list, word) != list.end(); }

bool matches(words const& named, std::string_view word, bool but) { return named.empty() || has(named, word) != but; }

}  // namespace

std::vector<happening> const& all_happenings() {
  static std::vector<happening> const all = [] {
    std::vector<happening> made;
    for (auto const* state : item_states) {
      for (auto const event : store::item_event_names) {
        for (auto const* evidence : evidences) made.push_back({"item", state, event, evidence});
      }
    }
    for (auto const* what : {"offload", "fetch"}) {
      for (auto const* phase : phases) {
        for (auto const event : store::transfer_event_names) {
          for (auto const* flight : flights) made.push_back({what, phase, event, flight});
        }
      }
    }
    return made;
  }();
  return all;
}

char const* why_impossible(happening const& what) {
  for (auto const& each : rules()) {
    if (has(each.what, what.what) && matches(each.states, what.state, each.states_but) &&
        matches(each.events, what.event, each.events_but) && matches(each.evidence, what.evidence, each.evidence_but)) {
      return each.why;
    }
  }
  return nullptr;
}

std::vector<char const*> reasons_of_impossibility() {
  std::vector<char const*> reasons;
  for (auto const& each : rules()) reasons.push_back(each.why);
  return reasons;
}

}  // namespace ferry::testing
