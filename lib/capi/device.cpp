// Devices through the C interface.
#include <fmt/format.h>

#include "capi/objects.hpp"
#include "ferry/config.hpp"

namespace ferry::capi {

void refuse_busy(char const* what) {
  throw refusal(FERRY_ERROR_BUSY,
                fmt::format("another call of '{}' is under way; use it from one thread at a time, and not from its own "
                            "callbacks",
                            what));
}

namespace {

[[noreturn]] void refuse_in_use(device_object const& of) {
  int const streams = of.streams;
  int const events = of.events;
  int const sessions = of.sessions;
  if (streams + events + sessions == 0) {
    throw refusal(FERRY_ERROR_IN_USE, "'device' is in use by another thread; end that first");
  }
  throw refusal(FERRY_ERROR_IN_USE,
                fmt::format("'device' still has {} stream(s), {} event(s) and {} session(s); destroy these first, and "
                            "end the blocks and leases of sessions that were destroyed",
                            streams, events, sessions));
}

}  // namespace

}  // namespace ferry::capi

using namespace ferry;
using namespace ferry::capi;

ferry_status ferry_device_create(ferry_settings* settings, ferry_device** device) {
  return guarded(__func__, [&] {
    auto*& given = result(device, "device");
    auto made = std::make_unique<device_object>();
    {
      exclusive<settings_object> const by(settings, "settings");
      made->on = make_device(by->value);
    }
    made->takes_native_streams = dynamic_cast<cuda_device*>(made->on.get()) != nullptr;
    given = publish<ferry_device>(std::move(made));
  });
}

ferry_status ferry_device_describe(ferry_device* device, ferry_device_info* info) {
  return guarded(__func__, [&] {
    in_use<device_object> const of(device, "device");
    auto const& has = of->on->capabilities();
    ferry_device_info const made{sizeof(ferry_device_info), has.name.c_str(),       has.device_bytes,
                                 has.pinned_bytes,          has.host_addressable,   has.holds_bytes,
                                 has.device_to_host_gbps,   has.host_to_device_gbps};
    write_struct(info, made, "info");
  });
}

ferry_status ferry_device_order_violations(ferry_device* device, char** lines) {
  return guarded(__func__, [&] {
    auto*& given = result(lines, "lines");
    in_use<device_object> const of(device, "device");
    auto const* const checked = dynamic_cast<host_device*>(of->on.get());
    if (checked == nullptr) {
      throw refusal(FERRY_ERROR_NOT_AVAILABLE, "only the host device checks the order; use FERRY_DEVICE=host");
    }
    std::string text;
    for (auto const& found : checked->order_violations()) text += found + '\n';
    given = give_text(text);
  });
}

ferry_status ferry_device_destroy(ferry_device* device) {
  return guarded(__func__, [&] {
    in_use<device_object> gone(device, "device");
    device_object& object = *gone;
    if (!gone.retire()) refuse_in_use(object);
    std::unique_ptr<device_object> const freed(&object);
  });
}
