// Files as runs write them, small or of any length, for the tests of `ferry report`.
#pragma once

#include <fmt/format.h>

#include <sstream>
#include <string>

#include "report/run_reader.hpp"

namespace ferry::command::testing {

inline run_data read_text(std::string const& text, std::string const& name = "file") {
  std::istringstream in(text);
  return read_runs(in, name);
}

/// The events of one step: two forward and two backward stretches, of which one holds a recipe and a wait.
inline std::string step_events(int number, double slower = 1, std::string const& item = "h") {
  double const at = 10000.0 * number;
  auto const label = fmt::format("{} (segment 1, micro-batch 0)", item);
  auto const slice = [&](std::string const& name, std::string const& kind, int lane, double from, double took,
                         std::string const& arguments) {
    return fmt::format(
               R"json({{"name":"{}","ph":"X","ts":{:.3f},"pid":1,"tid":{},"cat":"{}","dur":{:.3f},"args":{{{}}}}},)json",
               name, at + from * slower, lane, kind, took * slower, arguments) +
           "\n";
  };
  auto const stretch = [&](std::string const& kind, int segment, double from, double took) {
    return slice(fmt::format("{} {}", kind, segment), kind, 1, from, took,
                 fmt::format(R"json("step":{},"segment":{},"micro_batch":0)json", number, segment));
  };
  auto const of_item = fmt::format(R"json("item":"{}","bytes":4096)json", label);
  std::string text = stretch("forward", 0, 0, 100) + stretch("forward", 1, 100, 100) +
                     stretch("backward", 1, 200, 300) + stretch("backward", 0, 500, 100);
  text += slice("rebuild h", "rebuild", 1, 210, 50, of_item) + slice("waiting for h", "wait", 1, 260, 40, of_item);
  text += slice("waiting for bytes of h", "short", 1, 150, 10, of_item);
  text += slice("h", "offload", 2, 120, 60, of_item + R"json(,"arrived_bytes":4096,"outcome":"completed")json");
  text += slice("h", "fetch", 3, 230, 70, of_item + R"json(,"arrived_bytes":1024,"outcome":"abandoned")json");
  text += slice(fmt::format("step {}", number), "step", 4, -20, 650, R"json("planned_us":500.5)json");
  text += fmt::format(
      R"json({{"name":"offloaded_by_policy","ph":"i","ts":{:.3f},"pid":1,"tid":4,"cat":"decision","s":"t","args":{{"item":"{}","bytes":4096,"reason":"offloaded_by_policy","transfer_us":0,"recipe_us":0,"tolerance_us":50,"took_us":0,"words":"offloaded: 4.00 KiB"}}}},)json"
      "\n",
      at + 110, label);
  for (int i = 0; i < 4; ++i) {
    text +=
        fmt::format(R"json({{"name":"device bytes","ph":"C","ts":{:.3f},"pid":1,"tid":1,"args":{{"bytes":{}}}}},)json"
                    "\n",
                    at + 100 * i, 1000 * (i % 2 == 0 ? i + 1 : 1));
  }
  text += fmt::format(
      R"json({{"name":"pinned bytes","ph":"C","ts":{:.3f},"pid":1,"tid":1,"args":{{"bytes":4096}}}},)json", at + 180);
  return text + "\n";
}

inline std::string trace_head() {
  return "[\n"
         R"json({"name":"process_name","ph":"M","ts":0.000,"pid":1,"tid":1,"args":{"name":"ferry on host"}},
{"name":"thread_name","ph":"M","ts":0.000,"pid":1,"tid":1,"args":{"name":"compute"}},
{"name":"thread_name","ph":"M","ts":0.000,"pid":1,"tid":2,"args":{"name":"out: device to host"}},
{"name":"thread_name","ph":"M","ts":0.000,"pid":1,"tid":3,"args":{"name":"in: host to device"}},
{"name":"thread_name","ph":"M","ts":0.000,"pid":1,"tid":4,"args":{"name":"host: decisions and waits"}},
{"name":"ferry_settings","ph":"M","ts":0.000,"pid":1,"tid":1,"args":{"FERRY_BUDGET":"5000","device limit_bytes":5000,"pinned limit_bytes":8192}},
)json";
}

/// A finished trace of steps 1 to `steps`.
inline std::string trace_of(int steps, std::string const& item = "h") {
  std::string text = trace_head();
  for (int i = 1; i <= steps; ++i) text += step_events(i, i == 3 ? 2.0 : 1.0, item);
  text.resize(text.size() - 2);
  return text + "\n]\n";
}

inline std::string stats_line(int step, double host_us = 650) {
  return fmt::format(
      R"json({{"step":{},"step_us":600,"host_us":{},"planned_us":500.5,"saves":1,"restores":1,"recomputes":1,"recompute_us":50,"hidden_us":20,"exposed_us":50,"waited_for_bytes_us":10,"host_waited_us":5,"run_ahead_us":7,"device_peak_bytes":3000,"pinned_peak_bytes":4096,"in_flight_peak_bytes":4096,"device_to_host":{{"transfers":1,"abandoned":0,"failed":0,"bytes":4096,"gbps":0.51}},"host_to_device":{{"transfers":0,"abandoned":1,"failed":0,"bytes":1024,"gbps":0.49}},"reasons":{{"offloaded_by_policy":{{"count":1,"bytes":4096}}}},"items":[{{"item":"h (segment 1, micro-batch 0)","bytes":4096,"exposed_us":50,"hidden_us":20,"recipe_us":50,"decisions":[{{"reason":"offloaded_by_policy","words":"offloaded: 4.00 KiB"}},{{"reason":"restored_resident","words":"it was there"}}]}}]}}
)json",
      step, host_us);
}

inline std::string session_json(int steps) {
  return fmt::format(
      R"json({{"steps":{0},"saves":{0},"restores":{0},"recomputes":{0},"recompute_us":150,"hidden_us":60,"exposed_us":150,"waited_for_bytes_us":30,"host_waited_us":5,"run_ahead_us":7,"plans":0,"plan_changes":0,"device":{{"limit_bytes":5000,"now_bytes":0,"peak_bytes":3000,"average_bytes":2000.5,"fragmentation":0}},"pinned":{{"limit_bytes":8192,"now_bytes":0,"peak_bytes":4096,"average_bytes":100,"fragmentation":0}},"in_flight":{{"limit_bytes":5000,"now_bytes":0,"peak_bytes":4096,"average_bytes":10,"fragmentation":0}},"adopted_bytes":0,"device_to_host":{{"transfers":3,"abandoned":0,"failed":0,"chunks":3,"bytes":12288,"busy_us":180,"gbps":0.51}},"host_to_device":{{"transfers":0,"abandoned":3,"failed":0,"chunks":3,"bytes":3072,"busy_us":90,"gbps":0.49}},"reasons":{{"offloaded_by_policy":{0}}},"settings_without_effect":[{{"variable":"FERRY_CHUNK_BYTES","why":"nothing was copied"}}],"settings":[{{"variable":"FERRY_BUDGET","value":"5000","given":true}},{{"variable":"FERRY_POLICY","value":"offload","given":true}},{{"variable":"FERRY_CHUNK_BYTES","value":"2MiB","given":true}},{{"variable":"FERRY_LOG","value":"warning","given":false}}],"items":[{{"key":{{"micro_batch":0,"segment":1,"name":"h"}},"bytes":4096,"saves":{0},"restores":{0},"offloads":{0},"recomputes":1,"hidden_us":60,"exposed_us":150,"recipe_us":50,"waited_for_bytes_us":30,"recompute_us":150,"last":"restored_from_host"}}]}})json",
      steps);
}

inline std::string stats_of(int steps) {
  std::string text;
  for (int i = 1; i <= steps; ++i) text += stats_line(i, i == 3 ? 1300 : 650);
  return text + session_json(steps) + "\n";
}

inline std::string train_of(int steps) {
  std::string rows;
  for (int i = 1; i <= steps; ++i) {
    rows += fmt::format(
        R"json({}{{"step":{},"loss":{},"learning_rate":0.001,"gradient_norm":1,"seconds":0.001,"tokens_per_second":1000,"peak_device_bytes":3000,"peak_pinned_bytes":4096,"waiting_us":50,"recompute_flops":10,"recomputed_items":1,"ferried_bytes":5120,"link_gbps":[0.51,0.49],"plans":0,"plan_changes":0}})json",
        i == 1 ? "" : ",\n", i, 5.0 - 0.1 * i);
  }
  return fmt::format(
      R"json({{"steps":[{}],"summary":{{"layers":2,"width":64,"heads":4,"context":32,"batch":4,"policy":"offload","budget_bytes":5000,"keep_all_bytes":20000,"interrupted":false,"session":{}}}}})json",
      rows, session_json(steps));
}

inline std::string simulate_json() {
  return fmt::format(
      R"json({{"profile":"a profile","hardware":"laptop","step_us":100,"steps_us":[120,100],"waiting_us":5,"rebuilds":1,"recompute_us":10,"offloaded_bytes":4096,"fetched_bytes":4096,"predicted_us":99,"ratio":1.01,"session":{}}})json",
      session_json(2));
}

inline std::string simulate_trace() {
  return R"json({"displayTimeUnit": "ms", "traceEvents": [
{"name":"process_name","ph":"M","pid":1,"args":{"name":"a profile"}},
{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"compute"}},
{"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"out"}},
{"name":"x","cat":"forward","ph":"X","ts":0.0,"dur":30,"pid":1,"tid":1},
{"name":"x","cat":"offload","ph":"X","ts":30.0,"dur":20,"pid":1,"tid":2,"args":{"bytes":4096}},
{"name":"x","cat":"rebuild","ph":"X","ts":35.0,"dur":10,"pid":1,"tid":1},
{"name":"backward","cat":"backward","ph":"X","ts":45.0,"dur":55,"pid":1,"tid":1}
]}
)json";
}

inline std::string compare_json() {
  return R"json({"budget_bytes":5000,"keep_all_bytes":20000,"device_to_host_gbps":1,"host_to_device_gbps":1,"policies":[
{"policy":"unlimited","fits":true,"peak_device_bytes":20000,"peak_pinned_bytes":0,"relative_time":1,"recompute_share":0,"waiting_us_per_step":0,"tokens_per_second":100,"parameters_per_gib":1,"final_loss":3.5,"gradients_identical":true,"seconds":[0.1]},
{"policy":"keep","fits":false,"failure":"out of device memory"}]})json";
}

inline std::string bench_json() {
  return R"json({"ferry_bench": 1, "what": "policies", "device": "sim", "profile": "gpt: 32 layers", "hardware": "a100-80",
"keep_all_bytes": 34560000000, "unlimited_us": 1590000, "budgets_bytes": [5000000000, 10000000000],
"curves": [
 {"name": "auto", "kind": "ferry", "words": "planned mix", "points": [
  {"budget_bytes": 5000000000, "fits": true, "peak_bytes": 4900000000, "host_peak_bytes": 1, "step_us": 1690000, "overhead": 0.06, "recompute_us": 70000, "waiting_us": 0, "offloaded_bytes": 11000000000, "fetched_bytes": 11000000000, "knob": ""},
  {"budget_bytes": 10000000000, "fits": true, "peak_bytes": 9900000000, "host_peak_bytes": 1, "step_us": 1600000, "overhead": 0.01, "recompute_us": 7000, "waiting_us": 0, "offloaded_bytes": 1, "fetched_bytes": 1}]},
 {"name": "torchtune", "kind": "peer", "words": "every tensor on one side stream", "points": [
  {"budget_bytes": 5000000000, "fits": false, "failure": "needs 12.3 GiB"},
  {"budget_bytes": 10000000000, "fits": true, "peak_bytes": 9900000000, "step_us": 2470000, "overhead": 0.55, "recompute_us": 0, "waiting_us": 880000, "offloaded_bytes": 1, "knob": "every=2"}]}],
"dominated": [{"budget_bytes": 5000000000, "by": "recompute", "ratio": 1.01}],
"recommended": [{"variable": "FERRY_POLICY", "value": "auto", "why": "the lowest curve", "gain": 0.12}]})json";
}

}  // namespace ferry::command::testing
