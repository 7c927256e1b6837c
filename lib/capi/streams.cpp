// Streams and events through the C interface.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "capi/objects.hpp"

namespace ferry::capi {

lent_stream lend_stream(device_object& on, void* stream) {
  if (on.takes_native_streams && !handles::looks_like_one(stream)) {  // null too, which is CUDA's default stream
    return {{}, on.on->adopt_stream(stream)};
  }
  lent_stream lent{{stream, "stream"}, {}};
  lent.ref = lent.handle->ref;
  if (lent.ref.owner() != on.on.get()) {
    throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                  "'stream' belongs to another device; pass a stream of the device that the call is about");
  }
  return lent;
}

namespace {

/// A failure of work becomes an exception on the stream's thread, which fails what is ordered behind it.
struct c_work {
  ferry_work_function work;
  void* user;
  void operator()() const {
    handles::at_work const here;
    if (int const code = work(user); code != 0) {
      throw error(fmt::format("the function returned {}; 0 would have been success", code));
    }
  }
};

/// Lists of a few accesses stay on the stack: a launch in a warm step allocates nothing.
class access_list {
 public:
  access_list(ferry_access const* given, std::size_t count) {
    if (count > 0) (void)required(given, "accesses");
    memory_access* into = few_.data();
    if (count > few_.size()) {
      many_.resize(count);
      into = many_.data();
    }
    for (std::size_t i = 0; i < count; ++i) {
      into[i] =
          given[i].writes != 0 ? writes(given[i].address, given[i].bytes) : reads(given[i].address, given[i].bytes);
    }
    all_ = {into, count};
  }
  access_list(access_list const&) = delete;
  access_list& operator=(access_list const&) = delete;
  [[nodiscard]] std::span<memory_access const> all() const noexcept { return all_; }

 private:
  std::array<memory_access, 16> few_{};
  std::vector<memory_access> many_;
  std::span<memory_access const> all_;
};

}  // namespace

}  // namespace ferry::capi

using namespace ferry;
using namespace ferry::capi;

ferry_status ferry_stream_create(ferry_device* device, char const* name, ferry_stream** stream) {
  return guarded(__func__, [&] {
    auto*& given = result(stream, "stream");
    in_use<device_object> of(device, "device");
    label const called(required_text(name, "name"));
    auto made = std::make_unique<stream_object>(std::move(of));
    made->ref = made->part.on().create_stream(stream_kind::compute, called);
    given = publish<ferry_stream>(std::move(made));
  });
}

ferry_status ferry_stream_from_native(ferry_device* device, void* native, ferry_stream** stream) {
  return guarded(__func__, [&] {
    auto*& given = result(stream, "stream");
    in_use<device_object> of(device, "device");
    (void)required(static_cast<char*>(native), "native");
    stream_ref const ref = of->on->adopt_stream(native);
    auto made = std::make_unique<stream_object>(std::move(of));
    made->ref = ref;
    made->native = true;
    given = publish<ferry_stream>(std::move(made));
  });
}

ferry_status ferry_stream_native(ferry_stream* stream, void** native) {
  return guarded(__func__, [&] {
    auto*& given = result(native, "native");
    in_use<stream_object> const of(stream, "stream");
    given = of->part.on().native_handle(of->ref);
  });
}

ferry_status ferry_stream_launch(void* stream, char const* name, ferry_work_function work, void* user,
                                 ferry_access const* accesses, size_t access_count) {
  return guarded(__func__, [&] {
    in_use<stream_object> const on(stream, "stream");
    label const called(required_text(name, "name"));
    if (work == nullptr) refuse_null("work");
    access_list const touched(accesses, access_count);
    on->part.on().launch(on->ref, called, touched.all(), c_work{work, user});
  });
}

ferry_status ferry_stream_wait(void* stream, ferry_event* event) {
  return guarded(__func__, [&] {
    in_use<event_object> const of(event, "event");
    lent_stream const waiting = lend_stream(of->owner, stream);
    if (of->ref) of->on().wait(waiting.ref, of->ref);
  });
}

ferry_status ferry_stream_synchronize(ferry_stream* stream) {
  return guarded(__func__, [&] {
    in_use<stream_object> const of(stream, "stream");
    of->part.on().synchronize(of->ref);
  });
}

ferry_status ferry_stream_destroy(ferry_stream* stream) {
  return guarded(__func__, [&] {
    in_use<stream_object> gone(stream, "stream");
    auto const freed = take_apart(gone, "stream");
    if (!freed->native) freed->part.on().destroy_stream(freed->ref);
  });
}

ferry_status ferry_event_create(ferry_device* device, ferry_event** event) {
  return guarded(__func__, [&] {
    auto*& given = result(event, "event");
    in_use<device_object> of(device, "device");
    device_object& on = *of;
    auto made = std::make_unique<event_object>(on);
    made->part.emplace(std::move(of), &device_object::events);
    made->ref = on.on->create_event(event_timing::off);
    given = publish<ferry_event>(std::move(made));
  });
}

ferry_status ferry_event_record(ferry_event* event, void* stream) {
  return guarded(__func__, [&] {
    in_use<event_object> const of(event, "event");
    if (!of->part) {
      throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                    "'event' is lent to a release function, to be waited for; record one of ferry_event_create");
    }
    of->on().record(of->ref, lend_stream(of->owner, stream).ref);
  });
}

ferry_status ferry_event_query(ferry_event* event, int* complete) {
  return guarded(__func__, [&] {
    int& given = required(complete, "complete");
    in_use<event_object> const of(event, "event");
    event_status const status = of->ref ? of->on().query(of->ref) : event_status::complete;
    if (status == event_status::failed) of->on().synchronize(of->ref);  // throws, with the name of what failed
    given = status == event_status::pending ? 0 : 1;
  });
}

ferry_status ferry_event_synchronize(ferry_event* event) {
  return guarded(__func__, [&] {
    in_use<event_object> const of(event, "event");
    if (of->ref) of->on().synchronize(of->ref);
  });
}

ferry_status ferry_event_destroy(ferry_event* event) {
  return guarded(__func__, [&] {
    in_use<event_object> gone(event, "event");
    if (!gone->part) {
      throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                    "'event' is lent to a release function, and ends with it; destroy those of ferry_event_create");
    }
    auto const freed = take_apart(gone, "event");
    freed->on().destroy_event(freed->ref);
  });
}
