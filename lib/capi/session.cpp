// Sessions through the C interface: their lives, steps, hints, placements and plans.
#include "ferry/session.hpp"

#include <algorithm>
#include <array>

#include "capi/keys.hpp"
#include "capi/objects.hpp"

namespace ferry::capi {

namespace {

/// Asks the caller's function. An answer that is none keeps the item, and fails the save once the item is in its place.
struct c_placement {
  session_object* owner;
  ferry_placement_function choose;
  void* user;

  placement operator()(item_info const& item) const {
    std::array<char, label::max_length + 1> name{};
    std::ranges::copy(item.key.name.view(), name.begin());
    ferry_item_info const info{sizeof(ferry_item_info),
                               {item.key.micro_batch, item.key.segment, name.data()},
                               item.bytes,
                               item.has_recipe,
                               item.boundary,
                               item.recipe_us};
    int const answer = choose(&info, user);
    switch (answer) {
      case FERRY_KEEP:
        return placement::keep;
      case FERRY_OFFLOAD:
        return placement::offload;
      case FERRY_RECOMPUTE:
        return placement::recompute;
      default:
        owner->wrong_placement = answer;
        owner->has_wrong_placement = true;
        return placement::keep;
    }
  }
};

ferry_item_state c_state(std::optional<item_state> state) {
  if (!state) return FERRY_ITEM_UNKNOWN;
  switch (*state) {
    case item_state::resident:
      return FERRY_ITEM_RESIDENT;
    case item_state::offloading:
      return FERRY_ITEM_OFFLOADING;
    case item_state::hosted:
      return FERRY_ITEM_HOSTED;
    case item_state::prefetching:
      return FERRY_ITEM_PREFETCHING;
    case item_state::dropped:
      return FERRY_ITEM_DROPPED;
    case item_state::recomputing:
      return FERRY_ITEM_RECOMPUTING;
    case item_state::released:
      break;
  }
  return FERRY_ITEM_UNKNOWN;
}

}  // namespace

}  // namespace ferry::capi

using namespace ferry;
using namespace ferry::capi;

ferry_status ferry_session_create(ferry_device* device, ferry_settings* settings, ferry_session** session) {
  return guarded(__func__, [&] {
    auto*& given = result(session, "session");
    in_use<device_object> of(device, "device");
    device_object& on = *of;
    config chosen;
    {
      exclusive<settings_object> const by(settings, "settings");
      chosen = by->value;
    }
    auto made = std::make_unique<session_object>(std::move(of));
    made->running.emplace(*on.on, std::move(chosen));
    given = publish<ferry_session>(std::move(made));
  });
}

ferry_status ferry_session_destroy(ferry_session* session) {
  return guarded(__func__, [&] {
    session_object& gone = exclusive<session_object>(session, "session").take_apart();
    gone.running.reset();
    end_turn(gone);
  });
}

ferry_status ferry_session_settings(ferry_session* session, ferry_settings** settings) {
  return guarded(__func__, [&] {
    auto*& given = result(settings, "settings");
    exclusive<session_object> const of(session, "session");
    given = publish<ferry_settings>(std::make_unique<settings_object>(of->it().settings()));
  });
}

ferry_status ferry_session_begin_step(ferry_session* session) {
  return guarded(__func__, [&] { exclusive<session_object>(session, "session")->it().begin_step(); });
}

ferry_status ferry_session_begin_evaluation(ferry_session* session) {
  return guarded(__func__,
                 [&] { exclusive<session_object>(session, "session")->it().begin_step(step_kind::evaluate); });
}

ferry_status ferry_session_end_step(ferry_session* session) {
  return guarded(__func__, [&] { exclusive<session_object>(session, "session")->it().end_step(); });
}

ferry_status ferry_session_abandon_step(ferry_session* session) {
  return guarded(__func__, [&] { exclusive<session_object>(session, "session")->it().abandon_step(); });
}

ferry_status ferry_session_idle_hint(ferry_session* session, double us) {
  return guarded(__func__, [&] {
    exclusive<session_object> const on(session, "session");
    if (!(us >= 0)) {
      throw refusal(FERRY_ERROR_INVALID_ARGUMENT, "'us' is negative or no number; pass microseconds from 0 on");
    }
    on->it().idle_hint(us);
  });
}

ferry_status ferry_session_foresee(ferry_session* session, ferry_key const* key, ferry_outlook* outlook) {
  return guarded(__func__, [&] {
    exclusive<session_object> const of(session, "session");
    auto& given = required(outlook, "outlook");
    auto const seen = of->it().foresee(read_key(key, "key"));
    given = {seen.transfer_us, seen.recipe_us};
  });
}

ferry_status ferry_session_state(ferry_session* session, ferry_key const* key, ferry_item_state* state) {
  return guarded(__func__, [&] {
    exclusive<session_object> const of(session, "session");
    required(state, "state") = c_state(of->it().state(read_key(key, "key")));
  });
}

ferry_status ferry_session_synchronize(ferry_session* session) {
  return guarded(__func__, [&] { exclusive<session_object>(session, "session")->it().synchronize(); });
}

ferry_status ferry_session_set_placement(ferry_session* session, ferry_placement_function choose, void* user) {
  return guarded(__func__, [&] {
    exclusive<session_object> const on(session, "session");
    if (choose == nullptr) {
      on->it().set_placement({});
    } else {
      on->it().set_placement(c_placement{&*on, choose, user});
    }
  });
}

ferry_status ferry_session_set_budget(ferry_session* session, char const* budget) {
  return guarded(__func__, [&] {
    exclusive<session_object> const on(session, "session");
    config parsed;
    parsed.set("FERRY_BUDGET", required_text(budget, "budget"));
    on->it().set_budget(parsed.budget);
  });
}

ferry_status ferry_session_follow(ferry_session* session, ferry_plan* plan) {
  return guarded(__func__, [&] {
    exclusive<session_object> const on(session, "session");
    on->it().follow(in_use<plan_object>(plan, "plan")->value);
  });
}

ferry_status ferry_session_followed(ferry_session* session, ferry_plan** plan) {
  return guarded(__func__, [&] {
    auto*& given = result(plan, "plan");
    exclusive<session_object> const of(session, "session");
    ferry::plan const* const followed = of->it().followed();
    if (followed == nullptr) {
      throw refusal(FERRY_ERROR_NOT_AVAILABLE,
                    "no plan is followed; FERRY_POLICY=auto makes one after two steps, ferry_session_follow gives one");
    }
    given = publish<ferry_plan>(std::make_unique<plan_object>(*followed));
  });
}

ferry_status ferry_session_record_profile(ferry_session* session, int on) {
  return guarded(__func__, [&] { exclusive<session_object>(session, "session")->it().record_profile(on != 0); });
}

ferry_status ferry_session_recorded_profile(ferry_session* session, char** json) {
  return guarded(__func__, [&] {
    auto*& given = result(json, "json");
    exclusive<session_object> const of(session, "session");
    auto const recorded = of->it().recorded_profile();
    if (!recorded) {
      throw refusal(FERRY_ERROR_NOT_AVAILABLE,
                    "no step was recorded, or its micro-batches were interleaved; call ferry_session_record_profile, "
                    "run a step of one micro-batch, and synchronise its stream");
    }
    given = give_text(to_json(*recorded));
  });
}
