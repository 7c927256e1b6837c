// Segments through the C interface.
#include "ferry/segments.hpp"

#include <fmt/format.h>

#include <string>

#include "capi/objects.hpp"
#include "capi/status.hpp"

namespace ferry::capi {

namespace {

/// A function of the caller's, with what it is to be told.
struct c_segment_function {
  segments_object* owner;
  ferry_segment_function run;
  void* user;
  char const* what;

  void operator()(segment_call const& call) const {
    bool const enqueues = owner->part.has_value();
    ferry_segment_call const told{sizeof(ferry_segment_call),
                                  call.index,
                                  owner->passed_stream,
                                  enqueues ? owner->part->on().native_handle(call.stream) : nullptr,
                                  call.in,
                                  call.out,
                                  call.tensors.data(),
                                  call.tensors.size()};
    std::size_t const failures = failure_count();
    int const code = run(&told, user);
    if (code == 0) return;
    auto const why = failure_count() != failures ? fmt::format(" after this: {}", last_failure())
                                                 : std::string("; 0 would have been success");
    throw refusal(FERRY_ERROR_FUNCTION, fmt::format("{} of segment {} returned {}{}", what, call.index, code, why));
  }
};

tensor_id read_tensor(int given) {
  if (given >= 0) return static_cast<tensor_id>(given);
  if (given == -1) return segment_input;
  if (given == -2) return segment_output;
  throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                fmt::format("{} is no tensor: they count from 0; -1 is the input, -2 the output", given));
}

std::vector<tensor_id> read_tensors(int const* given, std::size_t count, char const* argument) {
  constexpr std::size_t most = 4096;
  if (count > most) {
    throw refusal(FERRY_ERROR_INVALID_ARGUMENT, fmt::format("'{}': {} tensors; at most {}", argument, count, most));
  }
  std::vector<tensor_id> ids;
  if (count > 0) (void)required(given, argument);
  for (std::size_t i = 0; i < count; ++i) ids.push_back(read_tensor(given[i]));
  return ids;
}

segment_function function_of(segments_object& owner, ferry_segment_function run, void* user, char const* what,
                             char const* argument) {
  if (run == nullptr) refuse_null(argument);
  return c_segment_function{&owner, run, user, what};
}

config read_settings(ferry_settings* settings) {
  if (settings == nullptr) return config::from_env();
  return exclusive<settings_object>(settings, "settings")->value;
}

}  // namespace

}  // namespace ferry::capi

using namespace ferry;
using namespace ferry::capi;

ferry_status ferry_segments_create(ferry_settings* settings, uint32_t count, size_t output_bytes,
                                   ferry_segments** segments) {
  return guarded(__func__, [&] {
    auto*& given = result(segments, "segments");
    auto made = std::make_unique<segments_object>();
    made->it.emplace(read_settings(settings), count, output_bytes);
    given = publish<ferry_segments>(std::move(made));
  });
}

ferry_status ferry_segments_create_on(ferry_device* device, ferry_settings* settings, void* stream, uint32_t count,
                                      size_t output_bytes, ferry_segments** segments) {
  return guarded(__func__, [&] {
    auto*& given = result(segments, "segments");
    in_use<device_object> of(device, "device");
    device_object& on = *of;
    auto const lent = lend_stream(on, stream);
    auto made = std::make_unique<segments_object>();
    made->part.emplace(std::move(of), &device_object::sessions);
    made->running_in.emplace(*on.on, read_settings(settings));
    made->passed_stream = stream;
    made->it.emplace(*made->running_in, lent.ref, count, output_bytes);
    given = publish<ferry_segments>(std::move(made));
  });
}

ferry_status ferry_segments_destroy(ferry_segments* segments) {
  return guarded(__func__, [&] {
    std::unique_ptr<segments_object> const gone(&exclusive<segments_object>(segments, "segments").take_apart());
  });
}

ferry_status ferry_segments_tensor(ferry_segments* segments, char const* name, size_t bytes, void* first,
                                   size_t stride_bytes) {
  return guarded(__func__, [&] {
    exclusive<segments_object> const of(segments, "segments");
    auto const number = fmt::format("tensor {}", of->tensors);
    of->it->tensor(name != nullptr ? label(name) : label(number), bytes, {first, stride_bytes});
    ++of->tensors;
  });
}

ferry_status ferry_segments_forward_by(ferry_segments* segments, ferry_segment_function forward, void* user) {
  return guarded(__func__, [&] {
    exclusive<segments_object> const of(segments, "segments");
    of->it->forward_by(function_of(*of, forward, user, "forward", "forward"));
  });
}

ferry_status ferry_segments_operation(ferry_segments* segments, char const* name, int const* reads, size_t read_count,
                                      int const* writes, size_t write_count, ferry_segment_function run, void* user) {
  return guarded(__func__, [&] {
    exclusive<segments_object> const of(segments, "segments");
    of->it->operation(label(required_text(name, "name")), read_tensors(reads, read_count, "reads"),
                      read_tensors(writes, write_count, "writes"), function_of(*of, run, user, "an operation", "run"));
  });
}

ferry_status ferry_segments_backward_by(ferry_segments* segments, ferry_segment_function backward, void* user) {
  return guarded(__func__, [&] {
    exclusive<segments_object> const of(segments, "segments");
    of->it->backward_by(function_of(*of, backward, user, "backward", "backward"));
  });
}

float* ferry_segment_float(ferry_segment_call const* call, int tensor) {
  return pointer_guarded(__func__, [&] {
    auto const& of = required(call, "call");
    void* found = nullptr;
    if (tensor == -1) {
      found = const_cast<void*>(of.in);
    } else if (tensor == -2) {
      found = of.out;
    } else if (tensor >= 0 && static_cast<std::size_t>(tensor) < of.tensor_count) {
      found = of.tensors[tensor];
    } else {
      throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                    fmt::format("{} is no tensor: there are {}, counted from 0; -1 is the input, -2 the output", tensor,
                                of.tensor_count));
    }
    if (found == nullptr) {
      throw refusal(
          FERRY_ERROR_INVALID_ARGUMENT,
          fmt::format("tensor {} is not used here; declare what each operation and backward read and write", tensor));
    }
    return static_cast<float*>(found);
  });
}

ferry_status ferry_segments_then(ferry_segments* segments, uint32_t count) {
  return guarded(__func__, [&] { exclusive<segments_object>(segments, "segments")->it->then(count); });
}

ferry_status ferry_segments_resize(ferry_segments* segments, int tensor, size_t bytes) {
  return guarded(__func__, [&] {
    exclusive<segments_object> const of(segments, "segments");
    if (tensor == -2) {
      of->it->resize_output(bytes);
    } else {
      of->it->resize(read_tensor(tensor), bytes);
    }
  });
}

ferry_status ferry_segments_begin_step(ferry_segments* segments, int evaluate, void** input) {
  return guarded(__func__, [&] {
    void*& given = result(input, "input");
    exclusive<segments_object> const of(segments, "segments");
    of->it->begin_step(evaluate != 0 ? step_kind::evaluate : step_kind::train);
    try {
      given = of->it->input();
    } catch (...) {
      of->it->abandon_step();
      throw;
    }
  });
}

ferry_status ferry_segments_next_input(ferry_segments* segments, void** input) {
  return guarded(__func__, [&] {
    void*& given = result(input, "input");
    given = exclusive<segments_object>(segments, "segments")->it->input();
  });
}

ferry_status ferry_segments_forward(ferry_segments* segments, void** output) {
  return guarded(__func__, [&] {
    if (output != nullptr) *output = nullptr;
    void* const last = exclusive<segments_object>(segments, "segments")->it->forward();
    if (output != nullptr) *output = last;
  });
}

ferry_status ferry_segments_backward(ferry_segments* segments) {
  return guarded(__func__, [&] { exclusive<segments_object>(segments, "segments")->it->backward(); });
}

ferry_status ferry_segments_end_step(ferry_segments* segments) {
  return guarded(__func__, [&] { exclusive<segments_object>(segments, "segments")->it->end_step(); });
}

ferry_status ferry_segments_abandon_step(ferry_segments* segments) {
  return guarded(__func__, [&] { exclusive<segments_object>(segments, "segments")->it->abandon_step(); });
}

ferry_status ferry_segments_keep_all_bytes(ferry_segments* segments, uint64_t* bytes) {
  return guarded(__func__, [&] {
    uint64_t& given = required(bytes, "bytes");
    given = exclusive<segments_object>(segments, "segments")->it->keep_all_bytes();
  });
}

ferry_status ferry_segments_stats_json(ferry_segments* segments, char** json) {
  return guarded(__func__, [&] {
    auto*& given = result(json, "json");
    exclusive<segments_object> const of(segments, "segments");
    given = give_text(to_json(of->it->in_session().stats()));
  });
}

ferry_status ferry_segments_explain(ferry_segments* segments, char** text) {
  return guarded(__func__, [&] {
    auto*& given = result(text, "text");
    exclusive<segments_object> const of(segments, "segments");
    given = give_text(of->it->in_session().explain());
  });
}
