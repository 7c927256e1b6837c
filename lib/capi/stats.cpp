// Statistics through the C interface.
#include "ferry/stats.hpp"

#include "capi/objects.hpp"

namespace ferry::capi {

namespace {

ferry_tier_stats c_tier(tier_stats const& of) {
  return {of.limit_bytes, of.now_bytes, of.peak_bytes, of.average_bytes, of.fragmentation};
}

ferry_link_stats c_link(link_stats const& of) {
  return {of.transfers, of.abandoned, of.failed, of.chunks, of.bytes, of.busy_us, of.gbps};
}

ferry_stats c_stats(session_stats const& of) {
  return {.size = sizeof(ferry_stats),
          .steps = of.steps,
          .saves = of.saves,
          .restores = of.restores,
          .recomputes = of.recomputes,
          .recompute_us = of.recompute_us,
          .hidden_us = of.hidden_us,
          .exposed_us = of.exposed_us,
          .waited_for_bytes_us = of.waited_for_bytes_us,
          .run_ahead_us = of.run_ahead_us,
          .plans = of.plans,
          .plan_changes = of.plan_changes,
          .adopted_bytes = of.adopted_bytes,
          .device = c_tier(of.device),
          .pinned = c_tier(of.pinned),
          .in_flight = c_tier(of.in_flight),
          .device_to_host = c_link(of.device_to_host),
          .host_to_device = c_link(of.host_to_device),
          .recipes_checked = of.recipe_checks ? of.recipe_checks->checked : 0};
}

}  // namespace

}  // namespace ferry::capi

using namespace ferry;
using namespace ferry::capi;

ferry_status ferry_session_stats(ferry_session* session, ferry_stats* stats) {
  return guarded(__func__, [&] {
    exclusive<session_object> const of(session, "session");
    (void)required(stats, "stats");
    write_struct(stats, c_stats(of->it().stats()), "stats");
  });
}

ferry_status ferry_session_stats_json(ferry_session* session, char** json) {
  return guarded(__func__, [&] {
    auto*& given = result(json, "json");
    exclusive<session_object> const of(session, "session");
    given = give_text(to_json(of->it().stats()));
  });
}

ferry_status ferry_session_explain(ferry_session* session, char** text) {
  return guarded(__func__, [&] {
    auto*& given = result(text, "text");
    exclusive<session_object> const of(session, "session");
    given = give_text(of->it().explain());
  });
}
