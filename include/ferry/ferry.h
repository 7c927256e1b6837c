/* Ferry's C interface: settings, devices, streams, sessions, plans and statistics for C and for whatever can call C.
 *
 *   ferry_settings* settings;  ferry_settings_from_env(&settings);
 *   ferry_device* device;      ferry_device_create(settings, &device);
 *   ferry_stream* stream;      ferry_stream_create(device, "compute", &stream);
 *   ferry_session* session;    ferry_session_create(device, settings, &session);
 *
 *   ferry_session_begin_step(session);
 *   ferry_key key = {0, 3, "h"};                                  // micro-batch, segment, name
 *   ferry_block* block; void* h;
 *   ferry_session_allocate(session, bytes, stream, "h", &block, &h);
 *   ... enqueue the work that writes h ...
 *   ferry_lease* lease;
 *   ferry_session_save(session, &key, block, stream, NULL, &lease);
 *   ... enqueue the work that reads h ...
 *   ferry_lease_end(lease);                                       // from here on the bytes may leave
 *   ... backward ...
 *   ferry_session_restore(session, &key, stream, &lease, &h);
 *   ... enqueue the work that reads h ...
 *   ferry_lease_end(lease);
 *   ferry_session_release(session, &key);
 *   ferry_session_end_step(session);
 *
 * Errors. Every function that can fail returns a ferry_status; ferry_last_error() has the words, of this thread's last
 * failure: what happened and what to change. A call that failed has changed nothing, unless it says so here; handles,
 * strings and pointers that it would have given back are null then. Functions that return a float* have no status: null
 * is their failure, with ferry_last_error().
 *
 * Handles are checked, never followed blindly: one that is null, was destroyed, is of another kind or is no handle at
 * all gives FERRY_ERROR_INVALID_HANDLE. What a create function made, its destroy function takes. A device is needed by
 * its streams, events and sessions: it refuses to go before them (FERRY_ERROR_IN_USE). Blocks and leases stay valid
 * when their session is destroyed, until they end; the device goes after them too.
 *
 * Streams are passed as `void*`: a ferry_stream*, or on a CUDA device a cudaStream_t as it is, which must live
 * (default streams are refused). Ferry cannot tell whether a cudaStream_t that was never made is one.
 *
 * Threads. Devices, streams, events and plans may be used by any thread at any time. A session, with its blocks and
 * leases, and settings are for one thread at a time: a call that meets another one, or that comes from a callback of
 * the same session, does nothing and returns FERRY_ERROR_BUSY. Callbacks run on the thread that called the session;
 * work that was launched runs on the stream's.
 *
 * Strings that are given back through a `char**` belong to the caller, who frees them with ferry_string_free. Strings
 * that are returned as `const char*` stay Ferry's. Strings that are passed in are copied. All are UTF-8 and end with a
 * zero.
 *
 * Versions. Functions and enumerators are added, never changed. Structs that may grow begin with `size`, which the
 * caller sets to sizeof the struct as it knows it: what it does not know is taken as zero, what the library does not
 * know must be zero and is given back as zero. ferry_key, ferry_access, ferry_outlook, ferry_tier_stats and
 * ferry_link_stats never change.
 *
 * Other languages. Only plain C types: pointers, fixed-width integers, size_t, double, int for truth values. No bit
 * fields, no unions, no variadic functions, no structs by value, and no macro that a caller would need. Enumerations
 * have the size of int. Callbacks may not throw or unwind through Ferry. bindgen, Zig's @cImport, cffi and ctypes read
 * this header, or a transcript of it, as it is.
 */
#ifndef FERRY_FERRY_H_
#define FERRY_FERRY_H_

/* NOLINTBEGIN(modernize-*): this is C */
#include <stddef.h>
#include <stdint.h>

#include "ferry/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------------------------------ */

typedef enum ferry_status {
  FERRY_OK = 0,
  FERRY_ERROR_INVALID_ARGUMENT = 1, /**< a null pointer, zero bytes, a name that is too long, a foreign stream */
  FERRY_ERROR_INVALID_HANDLE = 2,   /**< null, destroyed, of another kind, or no handle */
  FERRY_ERROR_BUSY = 3,        /**< another call of the session or settings is under way, perhaps this callback's */
  FERRY_ERROR_IN_USE = 4,      /**< something that was made from it still lives */
  FERRY_ERROR_WRONG_STATE = 5, /**< not now: calls in the wrong order, or in a forked child */
  FERRY_ERROR_SETTING = 6,     /**< a setting that does not parse, is out of range, or is unknown */
  FERRY_ERROR_OUT_OF_DEVICE_MEMORY = 7, /**< ferry_last_error_bytes says how much was needed */
  FERRY_ERROR_OUT_OF_PINNED_MEMORY = 8, /**< the same */
  FERRY_ERROR_OUT_OF_HOST_MEMORY = 9,   /**< the process has none left */
  FERRY_ERROR_INFEASIBLE_BUDGET = 10,   /**< no plan fits; ferry_last_error_bytes has the smallest budget that works */
  FERRY_ERROR_FORMAT = 11,              /**< a profile, hardware description or plan that cannot be read */
  FERRY_ERROR_PLAN_MISMATCH = 12,       /**< a plan made for another step */
  FERRY_ERROR_DUPLICATE_KEY = 13,       /**< saved already */
  FERRY_ERROR_UNKNOWN_KEY = 14,         /**< never saved, or released */
  FERRY_ERROR_RECIPE = 15,              /**< a recipe that failed, needs itself or an item that is not there, or
                                             (FERRY_VERIFY=recipes) gives other bits than its item has */
  FERRY_ERROR_STREAM = 16,              /**< work on a stream failed earlier */
  FERRY_ERROR_TRANSFER = 17,            /**< a transfer failed, and there was no other way */
  FERRY_ERROR_DEADLOCK = 18,            /**< on the sim device: what is waited for can never happen */
  FERRY_ERROR_NO_CUDA = 19,             /**< no such GPU, no driver, or a build without CUDA */
  FERRY_ERROR_CUDA = 20,                /**< a call of CUDA's failed */
  FERRY_ERROR_NOT_AVAILABLE = 21,       /**< there is none: no plan is followed, no profile was recorded */
  FERRY_ERROR_INTERNAL = 22,            /**< a bug in Ferry */
  FERRY_ERROR_FUNCTION = 23,            /**< a function of the caller's, a segment's forward for instance, has failed */
  FERRY_STATUS_HAS_INT_SIZE_ = 0x7fffffff
} ferry_status;

/** "FERRY_ERROR_SETTING"; "unknown status" for a number that is none. */
FERRY_API char const* ferry_status_name(int status);

/** What the last call of this thread that failed had to say, and what to change; "" if none has failed. Valid until
 * this thread's next failure. */
FERRY_API char const* ferry_last_error(void);

/** Of this thread's last failure, if it was about memory: the bytes it needed and the limit; both 0 otherwise. Either
 *  pointer may be null. */
FERRY_API void ferry_last_error_bytes(uint64_t* needed_bytes, uint64_t* limit_bytes);

/** For programs that end when something goes wrong: unless the status is FERRY_OK, says ferry_last_error() on standard
 * error and ends the program with exit code 1. */
FERRY_API void ferry_require(ferry_status status);

/** "0.1.0" */
FERRY_API char const* ferry_version(void);

/** Frees a string that was given back through a `char**`; null is nothing to do. FERRY_ERROR_INVALID_HANDLE, and
 * nothing happens, for one that was freed before or is none of Ferry's. */
FERRY_API ferry_status ferry_string_free(char* text);

/* ---- handles ----------------------------------------------------------------------------------------------------- */

typedef struct ferry_settings ferry_settings;
typedef struct ferry_device ferry_device;
typedef struct ferry_stream ferry_stream;
typedef struct ferry_event ferry_event;
typedef struct ferry_session ferry_session;
typedef struct ferry_block ferry_block; /**< device bytes that are not saved yet */
typedef struct ferry_lease ferry_lease; /**< an item held on the device for the work of one stream */
typedef struct ferry_plan ferry_plan;
typedef struct ferry_segments ferry_segments; /**< a trainer's segments, forward and backward */

/* ---- settings: by the names of their environment variables ------------------------------------------------------- */

/** The defaults. */
FERRY_API ferry_status ferry_settings_create(ferry_settings** settings);
/** The defaults, overridden by FERRY_* environment variables. FERRY_ERROR_SETTING names a bad or unknown one. */
FERRY_API ferry_status ferry_settings_from_env(ferry_settings** settings);
/** ferry_settings_set(settings, "FERRY_BUDGET", "12GiB") */
FERRY_API ferry_status ferry_settings_set(ferry_settings* settings, char const* variable, char const* value);
/** The value, in the form that the variable accepts. */
FERRY_API ferry_status ferry_settings_get(ferry_settings* settings, char const* variable, char** value);
/** All of them, a line "FERRY_BUDGET=70%" each. */
FERRY_API ferry_status ferry_settings_to_text(ferry_settings* settings, char** text);
FERRY_API ferry_status ferry_settings_destroy(ferry_settings* settings);

/** How many settings there are. */
FERRY_API size_t ferry_setting_count(void);
/** The variable of setting `index`; null from ferry_setting_count() on. */
FERRY_API char const* ferry_setting_name(size_t index);
/** What a setting means, what it accepts and its default, in three lines. */
FERRY_API ferry_status ferry_setting_describe(char const* variable, char** text);

/* ---- device ------------------------------------------------------------------------------------------------------ */

/** What a device has, and what may be assumed of it. */
typedef struct ferry_device_info {
  size_t size;           /**< sizeof(ferry_device_info), set by the caller */
  char const* name;      /**< "host"; valid as long as the device */
  uint64_t device_bytes; /**< the most it hands out */
  uint64_t pinned_bytes;
  int host_addressable;       /**< the host may dereference device memory */
  int holds_bytes;            /**< memory keeps what is written to it */
  double device_to_host_gbps; /**< measured beforehand; 0: not known until something is copied */
  double host_to_device_gbps;
} ferry_device_info;

/** The device that FERRY_DEVICE names: auto, host, sim, cuda, cuda:1. FERRY_ERROR_NO_CUDA for a GPU that is not there.
 */
FERRY_API ferry_status ferry_device_create(ferry_settings* settings, ferry_device** device);
FERRY_API ferry_status ferry_device_describe(ferry_device* device, ferry_device_info* info);
/** What FERRY_CHECK_ORDER=on has found so far, a line each; "" if nothing. FERRY_ERROR_NOT_AVAILABLE on other devices
 * than the host's. */
FERRY_API ferry_status ferry_device_order_violations(ferry_device* device, char** lines);
/** FERRY_ERROR_IN_USE while streams, events, sessions, blocks or leases of it are left, or another thread uses it. */
FERRY_API ferry_status ferry_device_destroy(ferry_device* device);

/* ---- streams and events ------------------------------------------------------------------------------------------ */

/** Memory that launched work reads or writes; what FERRY_CHECK_ORDER=on reasons about, and what work costs on the sim
 *  device. Never changes. */
typedef struct ferry_access {
  void const* address;
  size_t bytes;
  int writes; /**< 0: it is only read */
} ferry_access;

/** Work for a stream. Anything but 0 makes the work fail, and with it what is ordered behind it: FERRY_ERROR_STREAM at
 *  the next synchronisation or restore that meets it. Work that calls Ferry would wait for itself: it may use settings
 * and plans, everything else is refused with FERRY_ERROR_BUSY. */
typedef int (*ferry_work_function)(void* user);

/** A stream of the device's own for computation. The name has at most 63 characters. */
FERRY_API ferry_status ferry_stream_create(ferry_device* device, char const* name, ferry_stream** stream);
/** A stream that was made with the device's own API, a cudaStream_t: it stays the caller's, and must live as long as
 * work is enqueued on it. FERRY_ERROR_INVALID_ARGUMENT where the device has no such API. */
FERRY_API ferry_status ferry_stream_from_native(ferry_device* device, void* native, ferry_stream** stream);
/** The stream as the device's own API knows it, a cudaStream_t; null where there is none. */
FERRY_API ferry_status ferry_stream_native(ferry_stream* stream, void** native);
/** Enqueues a function: on the host and sim devices, what a kernel launch is on a GPU. `accesses` may be null if
 *  `access_count` is 0. `stream` must be a ferry_stream*. */
FERRY_API ferry_status ferry_stream_launch(void* stream, char const* name, ferry_work_function work, void* user,
                                           ferry_access const* accesses, size_t access_count);
/** Later work on the stream runs after the event's latest mark. */
FERRY_API ferry_status ferry_stream_wait(void* stream, ferry_event* event);
/** Waits for the stream's work. FERRY_ERROR_STREAM if some of it failed; the stream is usable again afterwards. */
FERRY_API ferry_status ferry_stream_synchronize(ferry_stream* stream);
/** Waits for the stream's work, unless the stream is a native one: then only the handle goes. */
FERRY_API ferry_status ferry_stream_destroy(ferry_stream* stream);

FERRY_API ferry_status ferry_event_create(ferry_device* device, ferry_event** event);
/** Marks the stream's current end; recording again moves the mark. */
FERRY_API ferry_status ferry_event_record(ferry_event* event, void* stream);
/** `complete` becomes 1 if the work before the mark is over, or was never recorded, else 0. FERRY_ERROR_STREAM if it
 *  failed. */
FERRY_API ferry_status ferry_event_query(ferry_event* event, int* complete);
FERRY_API ferry_status ferry_event_synchronize(ferry_event* event);
FERRY_API ferry_status ferry_event_destroy(ferry_event* event);

/* ---- items and recipes ------------------------------------------------------------------------------------------- */

/** Names a saved tensor. Never changes. */
typedef struct ferry_key {
  uint32_t micro_batch;
  uint32_t segment; /**< one step of the chain: a transformer block, a layer */
  char const* name; /**< at most 63 characters */
} ferry_key;

/** What a recipe is given to work with. Valid during the call. */
typedef struct ferry_recipe_context {
  size_t size;               /**< of this struct as the library knows it */
  void* stream;              /**< enqueue here: the stream as it was passed to the session */
  void* native_stream;       /**< the same for the device's own API, a cudaStream_t; null where there is none */
  void* output;              /**< write the item here */
  size_t bytes;              /**< the item's size */
  void const* const* inputs; /**< where the items that the recipe names are, in that order */
  size_t input_count;
  size_t first_row; /**< which of the recipe's rows to rebuild; output and inputs point to the beginning all the same */
  size_t rows;
} ferry_recipe_context;

/** Enqueues the work that rebuilds an item: the very kernels in the very shapes that made it. May be called any number
 * of times; must not call the session. Anything but 0 is a failure: FERRY_ERROR_RECIPE from whoever needed the item,
 * with the message of the call of Ferry's that failed in here, if one did. */
typedef int (*ferry_recipe_function)(ferry_recipe_context const* context, void* user);
/** Called once, when a user pointer is no longer needed. Must not call the session. */
typedef void (*ferry_destroy_function)(void* user);

/** How an item can be rebuilt. */
typedef struct ferry_recipe {
  size_t size; /**< sizeof(ferry_recipe), set by the caller */
  ferry_recipe_function enqueue;
  void* user;
  ferry_destroy_function destroy; /**< told once that `user` is no longer needed, also if the save fails (but not
 for its `size`); may be null */
  ferry_key const* inputs;        /**< what it reads, at most 4,096; copied */
  size_t input_count;
  size_t rows; /**< the item is so many equal rows, each of which can be rebuilt alone to the same bits; 0 and 1: only
                  whole */
} ferry_recipe;

/** Ferry needs adopted memory no more: once `done` is complete its bytes may go. `done` is valid during the call: make
 * a stream wait for it, or query it. Called once for each item that was adopted; must not call the session. */
typedef void (*ferry_release_function)(ferry_event* done, void* user);

typedef enum ferry_placement {
  FERRY_KEEP = 0,
  FERRY_OFFLOAD = 1,
  FERRY_RECOMPUTE = 2,
  FERRY_PLACEMENT_HAS_INT_SIZE_ = 0x7fffffff
} ferry_placement;

/** What a placement is decided from. */
typedef struct ferry_item_info {
  size_t size; /**< of this struct as the library knows it */
  ferry_key key;
  size_t bytes;
  int has_recipe;
  int boundary;     /**< no recipe, or one that reaches into another segment */
  double recipe_us; /**< how long the recipe took last time; 0 if it never ran */
} ferry_item_info;

/** Returns a ferry_placement. Any other number makes the save fail with FERRY_ERROR_INVALID_ARGUMENT; the item is saved
 * then, and kept. */
typedef int (*ferry_placement_function)(ferry_item_info const* item, void* user);

/** Where an item is on its path. */
typedef enum ferry_item_state {
  FERRY_ITEM_UNKNOWN = 0,     /**< not saved, or released */
  FERRY_ITEM_RESIDENT = 1,    /**< its bytes are on the device */
  FERRY_ITEM_OFFLOADING = 2,  /**< on the device, a copy to pinned memory under way */
  FERRY_ITEM_HOSTED = 3,      /**< in pinned memory only */
  FERRY_ITEM_PREFETCHING = 4, /**< in pinned memory, a copy to the device under way */
  FERRY_ITEM_DROPPED = 5,     /**< nowhere; its recipe can rebuild it */
  FERRY_ITEM_RECOMPUTING = 6, /**< its recipe is being enqueued */
  FERRY_ITEM_STATE_HAS_INT_SIZE_ = 0x7fffffff
} ferry_item_state;

/** What restoring an item now would come to; 0 where there is nothing to do, infinite where that way is closed or not
 *  known yet. Never changes. */
typedef struct ferry_outlook {
  double transfer_us;
  double recipe_us;
} ferry_outlook;

/* ---- session ----------------------------------------------------------------------------------------------------- */

/** Takes the budget's bytes from the device. The settings are copied. FERRY_ERROR_INVALID_ARGUMENT if they name another
 * device than this one. */
FERRY_API ferry_status ferry_session_create(ferry_device* device, ferry_settings* settings, ferry_session** session);
/** Releases everything that is saved. Blocks and leases that are out stay valid until they end. */
FERRY_API ferry_status ferry_session_destroy(ferry_session* session);
/** A copy of the settings in force. */
FERRY_API ferry_status ferry_session_settings(ferry_session* session, ferry_settings** settings);

FERRY_API ferry_status ferry_session_begin_step(ferry_session* session);
/** A step without backward: what is saved goes with its last lease, nothing is ferried, dropped or learnt, and nothing
 * can be restored. It ends as any other step. */
FERRY_API ferry_status ferry_session_begin_evaluation(ferry_session* session);
/** Everything saved in the step is released. FERRY_ERROR_RECIPE if a recipe names an input that the step has not saved:
 * the step is still under way then; abandon it. */
FERRY_API ferry_status ferry_session_end_step(ferry_session* session);
/** The step cannot be gone on with: everything saved in it is released, and another one can begin. No error if none is
 * under way. */
FERRY_API ferry_status ferry_session_abandon_step(ferry_session* session);
/** The trainer is in one pass (0: forward, 1: backward) of one segment, and says so: what it saves, restores and
 * allocates belongs there until ferry_session_leave_segment or the step's end. Without these calls that is inferred
 * from the keys, which is wrong where backward reads an item of another segment. FERRY_ERROR_WRONG_STATE without a
 * step, and for a segment inside another. */
FERRY_API ferry_status ferry_session_enter_segment(ferry_session* session, int backward, uint32_t micro_batch,
                                                   uint32_t segment, void* stream);
/** No error if none was entered. */
FERRY_API ferry_status ferry_session_leave_segment(ferry_session* session);

/** Device bytes for work on `stream`. `purpose` is for messages and may be null; `data`, if not null, is where they
 * are. */
FERRY_API ferry_status ferry_session_allocate(ferry_session* session, size_t bytes, void* stream, char const* purpose,
                                              ferry_block** block, void** data);
/** Either result may be null. */
FERRY_API ferry_status ferry_block_data(ferry_block* block, void** data, size_t* bytes);
/** The same, to be used where a float* is wanted; null if that fails. */
FERRY_API float* ferry_block_float(ferry_block* block);
/** Frees the bytes in the order of the stream they were allocated for. */
FERRY_API ferry_status ferry_block_free(ferry_block* block);

/** Saves a block as an item; work enqueued on `stream` so far has written it. `recipe` may be null. If `lease` is null
 * the lease ends at once. The block's handle is used up, unless the call fails: then the block is still the caller's
 * (if the failure came after the item was saved, as that of a placement function does, ferry_block_free says that it is
 * gone). */
FERRY_API ferry_status ferry_session_save(ferry_session* session, ferry_key const* key, ferry_block* block,
                                          void* stream, ferry_recipe const* recipe, ferry_lease** lease);
/** Saves memory that stays the caller's; it counts against the budget until `release`, which may be null, is called. */
FERRY_API ferry_status ferry_session_adopt(ferry_session* session, ferry_key const* key, void* memory, size_t bytes,
                                           void* stream, ferry_release_function release, void* user,
                                           ferry_recipe const* recipe, ferry_lease** lease);
/** Brings an item back for work on `stream`, from wherever it is. `data` may be null. */
FERRY_API ferry_status ferry_session_restore(ferry_session* session, ferry_key const* key, void* stream,
                                             ferry_lease** lease, void** data);
/** Either result may be null. */
FERRY_API ferry_status ferry_lease_data(ferry_lease* lease, void** data, size_t* bytes);
/** The same, to be used where a float* is wanted; null if that fails. */
FERRY_API float* ferry_lease_float(ferry_lease* lease);
/** Work enqueued so far on the lease's stream was its last use of the item. */
FERRY_API ferry_status ferry_lease_end(ferry_lease* lease);
/** The item will not be restored again in this step. Leases still out stay valid. */
FERRY_API ferry_status ferry_session_release(ferry_session* session, ferry_key const* key);

/** The stream is about to stand still for so many microseconds: recipes may run meanwhile. */
FERRY_API ferry_status ferry_session_idle_hint(ferry_session* session, double us);
FERRY_API ferry_status ferry_session_foresee(ferry_session* session, ferry_key const* key, ferry_outlook* outlook);
/** FERRY_ITEM_UNKNOWN is no error. */
FERRY_API ferry_status ferry_session_state(ferry_session* session, ferry_key const* key, ferry_item_state* state);
/** Waits until no transfer is under way. */
FERRY_API ferry_status ferry_session_synchronize(ferry_session* session);

/** Decides by this function instead of by FERRY_POLICY, whatever is saved from now on; null undoes it. A plan waits
 * meanwhile: it is followed again from the first step that begins without a function. */
FERRY_API ferry_status ferry_session_set_placement(ferry_session* session, ferry_placement_function choose, void* user);
/** Changes the device bytes for activations, between steps at once, in a step at the next one: what FERRY_BUDGET
 * accepts. */
FERRY_API ferry_status ferry_session_set_budget(ferry_session* session, char const* budget);

/** Carries out a plan from the next step on. The plan is copied. Not in a step. */
FERRY_API ferry_status ferry_session_follow(ferry_session* session, ferry_plan* plan);
/** A copy of the plan in force. FERRY_ERROR_NOT_AVAILABLE if there is none. */
FERRY_API ferry_status ferry_session_followed(ferry_session* session, ferry_plan** plan);
/** Measures every step from the next one on (1), or no more (0). */
FERRY_API ferry_status ferry_session_record_profile(ferry_session* session, int on);
/** What the last recorded step looked like, as JSON: call it after end_step, once the compute stream was synchronised.
 *  FERRY_ERROR_NOT_AVAILABLE without one, or if its micro-batches were interleaved. */
FERRY_API ferry_status ferry_session_recorded_profile(ferry_session* session, char** json);

/* ---- segments: the short way into a trainer that is already there ------------------------------------------------ *
 *
 *   ferry_segments* layers;
 *   ferry_segments_create(NULL, L, x_bytes, &layers);              // settings from FERRY_* variables
 *   ferry_segments_tensor(layers, "ln1", ln1_bytes, acts.ln1, 0);  // an array (L, ...) of your own
 *   ferry_segments_tensor(layers, "att", att_bytes, NULL, 0);      // or memory of Ferry's
 *   ferry_segments_forward_by(layers, layer_forward, model);       // int (ferry_segment_call const*, void*)
 *   ferry_segments_backward_by(layers, layer_backward, model);
 *
 *   ferry_segments_begin_step(layers, 0, &x);                      // 1: an evaluation
 *   ... write the first layer's input to x ...
 *   ferry_segments_forward(layers, &x);
 *   ... loss, and its gradient ...
 *   ferry_segments_backward(layers);
 *   ferry_segments_end_step(layers);
 *
 * Declarations come before the first step. Functions run on the caller's thread, and may be called for a segment again,
 * with the same input, for the same bits: the output goes to `out`, which is another place then. One that does not
 * return 0 ends the step (FERRY_ERROR_FUNCTION), and the next one can begin. ferry/segments.hpp says more. */

/** What a function of a segment is given. */
typedef struct ferry_segment_call {
  size_t size;          /**< of this struct as the library knows it */
  uint32_t index;       /**< which segment */
  void* stream;         /**< enqueue here; null where functions run at once */
  void* native_stream;  /**< the same for the device's own API, a cudaStream_t; null where there is none */
  void const* in;       /**< the segment's input */
  void* out;            /**< write the segment's output here; null in backward */
  void* const* tensors; /**< in the order they were declared */
  size_t tensor_count;
} ferry_segment_call;

/** A tensor of the call, to be used where a float* is wanted: by its number, or -1 for the input, which is only to be
 * read, and -2 for the output. Null, with ferry_last_error(), for a number that is none, and for what the function was
 * not declared to use. */
FERRY_API float* ferry_segment_float(ferry_segment_call const* call, int tensor);

/** Anything but 0 is a failure. Must not call the segments. */
typedef int (*ferry_segment_function)(ferry_segment_call const* call, void* user);

/** So many segments with inputs and outputs of so many bytes, and functions that run at once, on the CPU. `settings`
 * may be null: then they come from the environment. Without FERRY_BUDGET everything is kept; shares of it are of what
 * that takes. */
FERRY_API ferry_status ferry_segments_create(ferry_settings* settings, uint32_t count, size_t output_bytes,
                                             ferry_segments** segments);
/** The same with functions that enqueue their work on a stream of the device. `settings` as for a session. */
FERRY_API ferry_status ferry_segments_create_on(ferry_device* device, ferry_settings* settings, void* stream,
                                                uint32_t count, size_t output_bytes, ferry_segments** segments);
/** Abandons a step that is under way. */
FERRY_API ferry_status ferry_segments_destroy(ferry_segments* segments);

/** A tensor that forward writes and backward reads, in each segment; the first one is tensors[0]. With `first`, an
 * array of the caller's that has it once for each segment, `stride_bytes` apart (0: one behind the other); with null,
 * memory of Ferry's. `name` is for messages;
 * null: its number. */
FERRY_API ferry_status ferry_segments_tensor(ferry_segments* segments, char const* name, size_t bytes, void* first,
                                             size_t stride_bytes);
/** Writes all tensors and `out` from `in`. */
FERRY_API ferry_status ferry_segments_forward_by(ferry_segments* segments, ferry_segment_function forward, void* user);
/** Instead of ferry_segments_forward_by, one by one in the order they run: what an operation writes is kept, ferried or
 * rebuilt together, by running it again. Tensors by their numbers; -1 is the segment's input, -2 its output. */
FERRY_API ferry_status ferry_segments_operation(ferry_segments* segments, char const* name, int const* reads,
                                                size_t read_count, int const* writes, size_t write_count,
                                                ferry_segment_function run, void* user);
/** Reads all tensors and `in`. */
FERRY_API ferry_status ferry_segments_backward_by(ferry_segments* segments, ferry_segment_function backward,
                                                  void* user);
/** Further segments, of another kind: what is declared from here on is theirs. */
FERRY_API ferry_status ferry_segments_then(ferry_segments* segments, uint32_t count);
/** Between steps: another batch. An array of the caller's keeps its stride. Tensor -2 is every segment's output. */
FERRY_API ferry_status ferry_segments_resize(ferry_segments* segments, int tensor, size_t bytes);

/** `evaluate`: 1 for a step without backward, in which nothing is saved. `input` is where the first segment's input is
 * to be written. */
FERRY_API ferry_status ferry_segments_begin_step(ferry_segments* segments, int evaluate, void** input);
/** The same for the next micro-batch of the step, after backward. */
FERRY_API ferry_status ferry_segments_next_input(ferry_segments* segments, void** input);
/** Runs every segment. `output`, which may be null, is where the last one's is, until backward or the step's end. */
FERRY_API ferry_status ferry_segments_forward(ferry_segments* segments, void** output);
FERRY_API ferry_status ferry_segments_backward(ferry_segments* segments);
FERRY_API ferry_status ferry_segments_end_step(ferry_segments* segments);
/** No error if none is under way. */
FERRY_API ferry_status ferry_segments_abandon_step(ferry_segments* segments);

/** What keeping everything takes. */
FERRY_API ferry_status ferry_segments_keep_all_bytes(ferry_segments* segments, uint64_t* bytes);
/** As those of a session. FERRY_ERROR_WRONG_STATE before the first step, where the session is made then. */
FERRY_API ferry_status ferry_segments_stats_json(ferry_segments* segments, char** json);
FERRY_API ferry_status ferry_segments_explain(ferry_segments* segments, char** text);

/* ---- statistics -------------------------------------------------------------------------------------------------- */

/** Bytes of one tier or budget. Never changes. */
typedef struct ferry_tier_stats {
  uint64_t limit_bytes;
  uint64_t now_bytes;
  uint64_t peak_bytes;
  double average_bytes; /**< over the time in steps */
  double fragmentation; /**< 1 - largest free block / free bytes */
} ferry_tier_stats;

/** One direction of the link. Never changes. */
typedef struct ferry_link_stats {
  uint64_t transfers;
  uint64_t abandoned; /**< given up between chunks */
  uint64_t failed;
  uint64_t chunks;
  uint64_t bytes;
  double busy_us;
  double gbps; /**< the running estimate */
} ferry_link_stats;

/** The main figures of a session, of all steps so far. */
typedef struct ferry_stats {
  size_t size; /**< sizeof(ferry_stats), set by the caller */
  uint64_t steps;
  uint64_t saves;
  uint64_t restores;
  uint64_t recomputes;
  double recompute_us;
  double hidden_us;           /**< transfer time that nothing waited for */
  double exposed_us;          /**< compute stood still for transfers */
  double waited_for_bytes_us; /**< of that, for device bytes on their way out */
  double run_ahead_us;        /**< the host held back by FERRY_RUN_AHEAD */
  uint64_t plans;             /**< taken over because steps were not as forecast */
  uint64_t plan_changes;      /**< within a step, for the link as it was found */
  uint64_t adopted_bytes;     /**< of device.now_bytes, the trainer's own memory */
  ferry_tier_stats device;
  ferry_tier_stats pinned;
  ferry_tier_stats in_flight;
  ferry_link_stats device_to_host;
  ferry_link_stats host_to_device;
  uint64_t recipes_checked; /**< with FERRY_VERIFY=recipes: runs that gave the bits of their items */
} ferry_stats;

FERRY_API ferry_status ferry_session_stats(ferry_session* session, ferry_stats* stats);
/** All figures, with every item, reason and setting, as JSON. */
FERRY_API ferry_status ferry_session_stats_json(ferry_session* session, char** json);
/** Where time was lost and which setting would change it, in words. */
FERRY_API ferry_status ferry_session_explain(ferry_session* session, char** text);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/** How a plan is searched for. Zero means the default everywhere. */
typedef struct ferry_plan_options {
  size_t size;                 /**< sizeof(ferry_plan_options), set by the caller */
  uint64_t host_budget_bytes;  /**< 0: what the hardware has */
  int uninsured;               /**< 1: what is ferried need not be rebuildable from something that stays */
  double link_derating;        /**< plan with this share of the bandwidth; 0: 0.9 */
  double fragmentation_margin; /**< share of the budget left free for gaps */
  double time_limit_ms;        /**< for the search; 0: 500 */
  uint64_t seed;               /**< 0: 1 */
} ferry_plan_options;

/** A plan's prediction in figures. */
typedef struct ferry_plan_summary {
  size_t size; /**< sizeof(ferry_plan_summary), set by the caller */
  uint64_t budget_bytes;
  uint64_t items;
  uint64_t kept_items;
  uint64_t offloaded_items;
  uint64_t recomputed_items;
  int insured;           /**< what is ferried can be rebuilt from something that stays */
  double step_us;        /**< predicted */
  double unlimited_us;   /**< with unlimited memory */
  double lower_bound_us; /**< no schedule is faster */
  double overhead;       /**< step_us / unlimited_us - 1 */
  double waiting_us;     /**< compute standing still */
  double recompute_us;
  uint64_t device_peak_bytes;
  uint64_t host_peak_bytes;
  uint64_t offloaded_bytes;
  uint64_t fetched_bytes;
} ferry_plan_summary;

/** The best plan found for the step that `profile_json` describes (the text, not a file's name), on `hardware`: a name,
 * such as "a100-80", or a description as JSON. `budget` is device bytes for activations, "12GiB", or a share of what
 * all items come to, "20%". `options` may be null. FERRY_ERROR_INFEASIBLE_BUDGET: ferry_last_error_bytes has the
 * smallest that works. */
FERRY_API ferry_status ferry_plan_make(char const* profile_json, char const* hardware, char const* budget,
                                       ferry_plan_options const* options, ferry_plan** plan);
/** Reads a plan's file. */
FERRY_API ferry_status ferry_plan_load(char const* file, ferry_plan** plan);
/** Reads a plan's text. */
FERRY_API ferry_status ferry_plan_parse(char const* json, ferry_plan** plan);
FERRY_API ferry_status ferry_plan_to_json(ferry_plan* plan, char** json);
FERRY_API ferry_status ferry_plan_summarize(ferry_plan* plan, ferry_plan_summary* summary);
/** FERRY_ERROR_PLAN_MISMATCH names the first difference between the plan and the step. */
FERRY_API ferry_status ferry_plan_require_match(ferry_plan* plan, char const* profile_json);
FERRY_API ferry_status ferry_plan_destroy(ferry_plan* plan);

/** The hardware that has a name, one a line. */
FERRY_API ferry_status ferry_hardware_names(char** names);
/** The description that a name stands for, as JSON. */
FERRY_API ferry_status ferry_hardware_describe(char const* name, char** json);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */
#endif /* FERRY_FERRY_H_ */
