#include <algorithm>
#include <nlohmann/json.hpp>

#include "doctor/doctor_text.hpp"

namespace ferry::command {

namespace {

using json = nlohmann::ordered_json;

json json_of(model const& of, std::size_t parameters) {
  return {{"name", of.name},
          {"kind", of.kind == model_kind::gpt ? "gpt" : "llama"},
          {"layers", of.layers},
          {"width", of.width},
          {"heads", of.heads},
          {"kv_heads", of.kv_heads},
          {"head_width", of.head_width > 0 ? of.head_width : of.width / of.heads},
          {"hidden", of.hidden},
          {"vocabulary", of.vocabulary},
          {"context", of.context},
          {"batch", of.batch},
          {"dtype", to_string(of.numbers)},
          {"attention", of.flash ? "flash" : "explicit"},
          {"tied", of.tied},
          {"window", of.window},
          {"experts", of.experts},
          {"experts_per_token", of.experts_per_token},
          {"frozen", of.frozen},
          {"parameters", parameters}};
}

json json_of(training const& how) {
  return {{"optimizer", to_string(how.optimizer)},
          {"zero", how.zero},
          {"ranks", how.ranks},
          {"logits", how.whole_logits ? "whole" : "portions"},
          {"master", how.master ? "fp32" : "none"},
          {"kernels", to_string(how.kernels)},
          {"lora", how.lora},
          {"nf4", how.nf4}};
}

json json_of(hardware const& on, question const& asked) {
  return {{"name", on.name},
          {"device_bytes", on.device_bytes},
          {"host_memory_bytes", asked.host_memory},
          {"device_to_host_gbps", on.device_to_host.gbps},
          {"host_to_device_gbps", on.host_to_device.gbps},
          {"tflops", on.tflops},
          {"memory_gbps", on.memory_gbps}};
}

json json_of(memory_report const& of) {
  json operations = json::array();
  for (auto const& one : of.activations.operations) {
    operations.push_back(
        {{"operation", one.name}, {"bytes_each", one.each}, {"count", one.count}, {"bytes", one.sum()}});
  }
  return {{"weights_bytes", of.states.weights},
          {"gradients_bytes", of.states.gradients},
          {"optimizer_bytes", of.states.optimizer},
          {"gathered_bytes", of.states.gathered},
          {"host_bytes", of.states.host},
          {"activations_bytes", of.activations.saved},
          {"activations_per_layer_bytes", of.activations.per_layer},
          {"activations", std::move(operations)},
          {"workspace_bytes", of.activations.scratch},
          {"logits_bytes", of.activations.logits},
          {"reserve_bytes", of.reserve},
          {"needed_bytes", of.needed()},
          {"device_bytes", of.device_bytes},
          {"states_fit", of.states_fit()},
          {"fits", of.fits()},
          {"budget_bytes", of.budget()}};
}

json json_of(forecast const& of) {
  json recomputed = json::array();
  for (auto const& one : of.recomputed) {
    recomputed.push_back({{"operation", one.operation}, {"runs", one.runs}, {"us", one.us}, {"flops", one.flops}});
  }
  return {{"policy", of.policy},
          {"micro_batch", of.micro_batch},
          {"accumulate", of.accumulate},
          {"peak_bytes", of.peak_bytes},
          {"host_bytes", of.host_bytes},
          {"step_us", of.step_us},
          {"unlimited_us", of.unlimited_us},
          {"overhead", of.overhead()},
          {"recompute_us", of.recompute_us},
          {"recompute_flops_share", of.recompute_flops_share},
          {"recomputed", std::move(recomputed)},
          {"waiting_us", of.waiting_us},
          {"out_bytes", of.out_bytes},
          {"in_bytes", of.in_bytes},
          {"slower_products", of.slower_products},
          {"exchanged_bytes", of.exchanged_bytes},
          {"exchange_us", of.exchange_us},
          {"exposed_exchange_us", of.exposed_exchange_us}};
}

}  // namespace

json json_of_prescription(prescription const& made) {
  training const& how = made.instead ? *made.instead : made.asked.how;
  json all;
  all["ferry_doctor"] = 1;
  all["predicted"] = true;
  all["model"] = json_of(made.asked.of, made.memory.parameters);
  all["training"] = json_of(made.asked.how);
  all["hardware"] = json_of(made.asked.on, made.asked);
  all["memory"] = json_of(made.memory);
  json remedies = json::array();
  for (auto const& one : made.remedies) {
    remedies.push_back({{"flags", one.flags}, {"states_bytes", one.states}, {"enough", one.enough}});
  }
  all["remedies"] = std::move(remedies);
  if (made.instead) {
    all["instead"] = json_of(*made.instead);
    all["memory_instead"] = json_of(made.memory_instead);
  }
  all["budget_bytes"] = made.budget;
  all["least_bytes"] = made.least_bytes;
  all["least_bytes_of_one"] = made.least_bytes_of_one;
  all["prescription"] = made.advised ? json_of(*made.advised) : json();
  all["interconnect"] = {{"kind", to_string(made.between.kind)},
                         {"gbps", made.between.gbps},
                         {"gpus_of_a_machine", std::min(how.ranks, gpus_of_a_machine)}};
  all["alternatives"] = json::array();
  for (auto const& one : made.alternatives) all["alternatives"].push_back(json_of(one));
  all["policies_that_do_not_fit"] = made.unfit;
  all["in_pytorch"] = json::array();
  for (auto const& way : made.in_torch) {
    all["in_pytorch"].push_back(
        {{"name", way.name}, {"setting", way.setting}, {"forecast", way.cost ? json_of(*way.cost) : json()}});
  }
  all["largest_batch"] = {{"kept", made.batch.kept}, {"planned", made.batch.planned}};
  all["largest_context"] = {{"kept", made.context.kept}, {"planned", made.context.planned}};
  all["warnings"] = made.warnings;
  all["variables"] = json::object();
  for (auto const& [variable, value] : made.variables) all["variables"][variable] = value;
  all["assumptions"] = made.assumptions;
  return all;
}

}  // namespace ferry::command
