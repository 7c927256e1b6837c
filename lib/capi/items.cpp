// Items through the C interface: segments, allocate, save, restore, release; blocks, leases and recipes. The hot path:
// once warm, nothing here allocates or locks.
#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "capi/keys.hpp"
#include "capi/objects.hpp"

namespace ferry::capi {

namespace {

/// The stream of a call, noted under the name that the caller has for it: recipes are told that one.
lent_stream lend_stream(session_object& on, void* stream) {
  auto& known = on.streams;
  bool const native = stream != nullptr && !handles::looks_like_one(stream);
  if (native) {  // as it was before: adopting takes a lock
    auto const before = std::ranges::find(known, stream, &known_stream::passed);
    if (before != known.end()) return {{}, before->ref};
  }
  lent_stream lent = lend_stream(on.part.object(), stream);
  auto const same = std::ranges::find(known, lent.ref, &known_stream::ref);
  if (same == known.end()) {
    known.push_back({lent.ref, stream});
  } else {
    same->passed = stream;
  }
  return lent;
}

/// A recipe of the caller's, with the user pointer that it owns.
class c_recipe {
 public:
  c_recipe() noexcept = default;
  explicit c_recipe(ferry_recipe const& given) noexcept
      : enqueue_(given.enqueue), user_(given.user), destroy_(given.destroy) {}
  c_recipe(c_recipe&& other) noexcept
      : owner_(other.owner_),
        enqueue_(other.enqueue_),
        user_(other.user_),
        destroy_(std::exchange(other.destroy_, nullptr)) {}
  c_recipe& operator=(c_recipe&&) = delete;
  ~c_recipe() {
    if (destroy_ != nullptr) destroy_(user_);
  }

  void belongs_to(session_object& owner) noexcept { owner_ = &owner; }

  void operator()(recipe_context const& to) const {
    auto const known = std::ranges::find(owner_->streams, to.stream, &known_stream::ref);
    ferry_recipe_context const context{sizeof(ferry_recipe_context),
                                       known != owner_->streams.end() ? known->passed : nullptr,
                                       owner_->part.on().native_handle(to.stream),
                                       to.output,
                                       to.bytes,
                                       to.inputs.data(),
                                       to.inputs.size(),
                                       to.first_row,
                                       to.rows};
    std::size_t const failures = failure_count();
    int const code = enqueue_(&context, user_);
    if (code == 0) return;
    throw std::runtime_error(failure_count() != failures
                                 ? fmt::format("its function returned {} after this: {}", code, last_failure())
                                 : fmt::format("its function returned {}; 0 would have been success", code));
  }

 private:
  session_object* owner_ = nullptr;
  ferry_recipe_function enqueue_ = nullptr;
  void* user_ = nullptr;
  ferry_destroy_function destroy_ = nullptr;
};

/// A recipe as it was passed to a call; its user pointer is taken over before anything can fail.
class given_recipe {
 public:
  explicit given_recipe(ferry_recipe const* given)
      : is_given_(given != nullptr),
        read_(is_given_ ? read_struct(given, "recipe") : ferry_recipe{}),
        function_(read_) {}

  [[nodiscard]] recipe take(session_object& owner) {
    if (!is_given_) return {};
    if (read_.enqueue == nullptr) refuse_null("recipe.enqueue");
    recipe how;
    how.inputs = inputs();
    how.rows = std::max<std::size_t>(read_.rows, 1);
    function_.belongs_to(owner);
    how.enqueue = std::move(function_);
    return how;
  }

 private:
  [[nodiscard]] item_list inputs() const {
    if (read_.input_count == 0) return {};
    // More is no count: whoever meant it has not set the field.
    constexpr std::size_t most = 4096;
    if (read_.input_count > most) {
      throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                    fmt::format("'recipe.input_count' is {}; it may be at most {}", read_.input_count, most));
    }
    (void)required(read_.inputs, "recipe.inputs");
    boost::container::small_vector<item_key, item_list::in_place> keys;
    for (std::size_t i = 0; i < read_.input_count; ++i) keys.push_back(read_key(read_.inputs + i, "recipe.inputs"));
    return item_list(std::span<item_key const>(keys.data(), keys.size()));
  }

  bool is_given_;
  ferry_recipe read_;
  c_recipe function_;
};

/// Tells the caller that its memory may go, with an event that is valid meanwhile.
struct c_release {
  session_object* owner;
  ferry_release_function told;
  void* user;

  void operator()(event_ref done) const {
    event_object& lent = owner->release_event;
    lent.ref = done;
    void* const handle = handles::publish(lent.slot.index(), handle_kind::event, &lent);
    told(static_cast<ferry_event*>(handle), user);
    while (!handles::retire(handle, 0)) std::this_thread::yield();  // another thread may be waiting for it
  }
};

/// A place for a lease, given back unless it is kept.
class lease_place {
 public:
  lease_place(session_object& owner, ferry_lease** into) : owner_(owner), into_(into) {
    if (into_ != nullptr) place_ = &owner_.leases.take(owner_);
  }
  lease_place(lease_place const&) = delete;
  lease_place& operator=(lease_place const&) = delete;
  ~lease_place() {
    if (place_ != nullptr) owner_.leases.give_back(*place_);
  }
  /// Gives the caller the lease; one that is not wanted ends.
  void keep(lease held) noexcept {
    if (place_ == nullptr) return;
    lease_holding& kept = *std::exchange(place_, nullptr);
    kept.held = std::move(held);
    ++owner_.out;
    *into_ = static_cast<ferry_lease*>(handles::publish(kept.slot.index(), handle_kind::lease, &kept));
  }

 private:
  session_object& owner_;
  ferry_lease** into_;
  lease_holding* place_ = nullptr;
};

/// The block's bytes are an item's now: its handle goes.
void use_up(in_use<block_holding>& gone) noexcept {
  block_holding& unused = *gone;
  retire_soon(gone);
  unused.owner.blocks.give_back(unused);
  --unused.owner.out;
}

/// Runs a save. Throws: what the session throws; `refusal` if a placement function did not say one.
template <typename Save>
void save(session_object& on, ferry_lease** into, Save&& run) {
  lease_place place(on, into);
  on.has_wrong_placement = false;
  lease held = run(on.it());
  if (on.has_wrong_placement) {
    throw refusal(FERRY_ERROR_INVALID_ARGUMENT,
                  fmt::format("the placement function returned {}, which is no ferry_placement; return FERRY_KEEP, "
                              "FERRY_OFFLOAD or FERRY_RECOMPUTE (the item is saved, and kept)",
                              on.wrong_placement));
  }
  place.keep(std::move(held));
}

template <typename Handle>
void clear(Handle** result) noexcept {
  if (result != nullptr) *result = nullptr;
}

/// The session's turn, for a call of one of its blocks or leases.
session_object& take_turn(session_object& owner) {
  if (!owner.one_at_a_time.take()) refuse_busy("session");
  return owner;
}

template <typename Holding>
void give_data(Holding const& from, void** data, size_t* bytes) noexcept {
  if (data != nullptr) *data = from.held.data();
  if (bytes != nullptr) *bytes = from.held.bytes();
}

}  // namespace

item_key read_key(ferry_key const* given, char const* argument) {
  ferry_key const& key = required(given, argument);
  if (key.name == nullptr) {
    throw refusal(FERRY_ERROR_INVALID_ARGUMENT, fmt::format("the name in '{}' is null; name the item", argument));
  }
  return {key.micro_batch, key.segment, label(std::string_view(key.name))};
}

void end_turn(session_object& of) noexcept {
  if (!of.running && of.out == 0) {
    delete &of;
  } else {
    of.one_at_a_time.give_back();
  }
}

}  // namespace ferry::capi

using namespace ferry;
using namespace ferry::capi;

ferry_status ferry_session_enter_segment(ferry_session* session, int backward, uint32_t micro_batch, uint32_t segment,
                                         void* stream) {
  return guarded(__func__, [&] {
    exclusive<session_object> const on(session, "session");
    auto const lent = lend_stream(*on, stream);
    on->it().enter_segment(backward != 0 ? pass::backward : pass::forward, segment, lent.ref, micro_batch);
  });
}

ferry_status ferry_session_leave_segment(ferry_session* session) {
  return guarded(__func__, [&] { exclusive<session_object>(session, "session")->it().leave_segment(); });
}

ferry_status ferry_session_allocate(ferry_session* session, size_t bytes, void* stream, char const* purpose,
                                    ferry_block** block, void** data) {
  return guarded(__func__, [&] {
    auto*& given = result(block, "block");
    clear(data);
    exclusive<session_object> const on(session, "session");
    lent_stream const from = lend_stream(*on, stream);
    label const called(purpose != nullptr ? std::string_view(purpose) : std::string_view("block"));
    ferry::block made = on->it().allocate(bytes, from.ref, called);
    block_holding& place = on->blocks.take(*on);
    place.held = std::move(made);
    ++on->out;
    given = static_cast<ferry_block*>(handles::publish(place.slot.index(), handle_kind::block, &place));
    if (data != nullptr) *data = place.held.data();
  });
}

ferry_status ferry_block_data(ferry_block* block, void** data, size_t* bytes) {
  return guarded(__func__, [&] {
    clear(data);
    in_use<block_holding> const of(block, "block");
    session_object& owner = take_turn(of->owner);  // a save would empty it
    give_data(*of, data, bytes);
    end_turn(owner);
  });
}

float* ferry_block_float(ferry_block* block) {
  return pointer_guarded(__func__, [&] {
    in_use<block_holding> const of(block, "block");
    session_object& owner = take_turn(of->owner);
    auto* const data = of->held.as<float>();
    end_turn(owner);
    return data;
  });
}

ferry_status ferry_block_free(ferry_block* block) {
  return guarded(__func__, [&] {
    in_use<block_holding> gone(block, "block");
    block_holding& unused = *gone;
    session_object& owner = take_turn(unused.owner);
    use_up(gone);
    unused.held = {};
    end_turn(owner);
  });
}

ferry_status ferry_session_save(ferry_session* session, ferry_key const* key, ferry_block* block, void* stream,
                                ferry_recipe const* recipe, ferry_lease** lease) {
  return guarded(__func__, [&] {
    clear(lease);
    given_recipe how(recipe);
    exclusive<session_object> const on(session, "session");
    in_use<block_holding> from(block, "block");
    if (&from->owner != &*on) {
      throw refusal(FERRY_ERROR_INVALID_ARGUMENT, "'block' belongs to another session; save it in that one");
    }
    item_key const name = read_key(key, "key");
    lent_stream const by = lend_stream(*on, stream);
    auto const use_up_if_saved = [&] {
      if (!from->held) use_up(from);
    };
    try {
      save(*on, lease, [&](ferry::session& to) { return to.save(name, std::move(from->held), by.ref, how.take(*on)); });
    } catch (...) {
      use_up_if_saved();
      throw;
    }
    use_up_if_saved();
  });
}

ferry_status ferry_session_adopt(ferry_session* session, ferry_key const* key, void* memory, size_t bytes, void* stream,
                                 ferry_release_function release, void* user, ferry_recipe const* recipe,
                                 ferry_lease** lease) {
  return guarded(__func__, [&] {
    clear(lease);
    given_recipe how(recipe);
    exclusive<session_object> const on(session, "session");
    item_key const name = read_key(key, "key");
    lent_stream const by = lend_stream(*on, stream);
    save(*on, lease, [&](ferry::session& to) {
      release_callback told;
      if (release != nullptr) told = c_release{&*on, release, user};
      return to.save(name, {memory, bytes}, by.ref, std::move(told), how.take(*on));
    });
  });
}

ferry_status ferry_session_restore(ferry_session* session, ferry_key const* key, void* stream, ferry_lease** lease,
                                   void** data) {
  return guarded(__func__, [&] {
    (void)result(lease, "lease");
    clear(data);
    exclusive<session_object> const on(session, "session");
    item_key const name = read_key(key, "key");
    lent_stream const for_work = lend_stream(*on, stream);
    lease_place place(*on, lease);
    ferry::lease held = on->it().restore(name, for_work.ref);
    if (data != nullptr) *data = held.data();
    place.keep(std::move(held));
  });
}

ferry_status ferry_lease_data(ferry_lease* lease, void** data, size_t* bytes) {
  return guarded(__func__, [&] {
    clear(data);
    give_data(*in_use<lease_holding>(lease, "lease"), data, bytes);
  });
}

float* ferry_lease_float(ferry_lease* lease) {
  return pointer_guarded(__func__, [&] { return in_use<lease_holding>(lease, "lease")->held.as<float>(); });
}

ferry_status ferry_lease_end(ferry_lease* lease) {
  return guarded(__func__, [&] {
    in_use<lease_holding> gone(lease, "lease");
    lease_holding& unused = *gone;
    session_object& owner = take_turn(unused.owner);
    retire_soon(gone);
    unused.held.end();
    owner.leases.give_back(unused);
    --owner.out;
    end_turn(owner);
  });
}

ferry_status ferry_session_release(ferry_session* session, ferry_key const* key) {
  return guarded(__func__, [&] {
    exclusive<session_object> const on(session, "session");
    on->it().release(read_key(key, "key"));
  });
}
