/* The segment interface in C: a chain of layers, at once and on a stream, with memory of Ferry's and of the caller's;
   and everything that can be said wrongly. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { layers = 5, width = 4096, x_bytes = width * sizeof(int) };

/* Every layer: h = in + 1, out = 2 h. Backward sums up h and in. */
typedef struct chain {
  ferry_segments* it;
  long sum;
  int fails_in; /* a layer whose forward fails; -1: none */
  ferry_status nested;
} chain;

typedef struct job {
  int const* in;
  int *h, *out;
} job;

static int run_forward(void* user) {
  job const* j = user;
  int i;
  for (i = 0; i < width; ++i) {
    j->h[i] = j->in[i] + 1;
    j->out[i] = 2 * j->h[i];
  }
  return 0;
}

static int forward(ferry_segment_call const* s, void* user) {
  chain* c = user;
  job j;
  void* x;
  j.in = s->in;
  j.h = s->tensors[0];
  j.out = s->out;
  CHECK(s->size == sizeof *s && s->tensor_count == 1 && s->native_stream == NULL);
  CHECK(ferry_segment_float(s, 0) == s->tensors[0] && ferry_segment_float(s, -1) == s->in);
  CHECK(ferry_segment_float(s, -2) == s->out);
  CHECK(ferry_segment_float(s, 1) == NULL && strstr(ferry_last_error(), "1 is no tensor: there are 1") != NULL);
  CHECK(ferry_segment_float(s, -3) == NULL && strstr(ferry_last_error(), "-3 is no tensor") != NULL);
  if (c->fails_in == (int)s->index) return 7;
  if (c->nested == FERRY_OK) c->nested = ferry_segments_begin_step(c->it, 0, &x);
  return run_forward(&j);
}

static int backward(ferry_segment_call const* s, void* user) {
  chain* c = user;
  int const* h = s->tensors[0];
  int const* in = s->in;
  int i;
  CHECK(s->out == NULL);
  CHECK(ferry_segment_float(s, -2) == NULL && strstr(ferry_last_error(), "tensor -2 is not used here") != NULL);
  for (i = 0; i < width; ++i) c->sum += h[i] + in[i];
  return 0;
}

/* Of one step, by hand: `first` is the input, everywhere. */
static long expected_sum(long first) {
  long sum = 0;
  int l;
  for (l = 0; l < layers; ++l) {
    sum += (first + 1 + first) * width;
    first = 2 * (first + 1);
  }
  return sum;
}
static int expected_output(int first) {
  int l;
  for (l = 0; l < layers; ++l) first = 2 * (first + 1);
  return first;
}

static void fill(void* x, int value) {
  int i;
  for (i = 0; i < width; ++i) ((int*)x)[i] = value;
}

static ferry_settings* settings_of(char const* policy, char const* budget) {
  ferry_settings* settings = NULL;
  OK(ferry_settings_create(&settings));
  OK(ferry_settings_set(settings, "FERRY_POLICY", policy));
  OK(ferry_settings_set(settings, "FERRY_BUDGET", budget));
  OK(ferry_settings_set(settings, "FERRY_LINK_GBPS", "0"));
  OK(ferry_settings_set(settings, "FERRY_LOG", "off"));
  return settings;
}

static void declare(chain* c, int* own) {
  OK(ferry_segments_tensor(c->it, "h", x_bytes, own, own != NULL ? x_bytes : 0));
  OK(ferry_segments_forward_by(c->it, forward, c));
  OK(ferry_segments_backward_by(c->it, backward, c));
}

static void train(chain* c, int first) {
  void* x = NULL;
  c->sum = 0;
  if (!OK(ferry_segments_begin_step(c->it, 0, &x))) return;
  fill(x, first);
  OK(ferry_segments_forward(c->it, &x));
  CHECK(x != NULL && ((int*)x)[width - 1] == expected_output(first));
  OK(ferry_segments_backward(c->it));
  OK(ferry_segments_end_step(c->it));
  CHECK(c->sum == expected_sum(first));
}

static void test_at_once(char const* policy, char const* budget, int use_own) {
  ferry_settings* settings = settings_of(policy, budget);
  int* own = use_own ? malloc((size_t)layers * x_bytes) : NULL;
  chain c = {NULL, 0, -1, FERRY_OK};
  uint64_t bytes = 0;
  char* text = NULL;
  void* x = NULL;
  int i;
  OK(ferry_segments_create(settings, layers, x_bytes, &c.it));
  OK(ferry_settings_destroy(settings));
  FAILS(FERRY_ERROR_WRONG_STATE, "first step", ferry_segments_stats_json(c.it, &text));
  declare(&c, own);
  OK(ferry_segments_keep_all_bytes(c.it, &bytes));
  CHECK(bytes == (uint64_t)(2 * layers + 1) * x_bytes);
  for (i = 0; i < 4; ++i) {
    OK(ferry_segments_begin_step(c.it, 1, &x));
    fill(x, i);
    OK(ferry_segments_forward(c.it, NULL));
    FAILS(FERRY_ERROR_WRONG_STATE, "evaluation", ferry_segments_backward(c.it));
    OK(ferry_segments_end_step(c.it));
    train(&c, i);
  }
  CHECK(c.nested == FERRY_ERROR_BUSY);
  /* Two micro-batches in one step. */
  c.sum = 0;
  OK(ferry_segments_begin_step(c.it, 0, &x));
  fill(x, 3);
  OK(ferry_segments_forward(c.it, NULL));
  OK(ferry_segments_backward(c.it));
  OK(ferry_segments_next_input(c.it, &x));
  fill(x, 5);
  OK(ferry_segments_forward(c.it, NULL));
  OK(ferry_segments_backward(c.it));
  OK(ferry_segments_end_step(c.it));
  CHECK(c.sum == expected_sum(3) + expected_sum(5));
  /* A function that fails ends the step, and nothing else. */
  c.fails_in = 2;
  OK(ferry_segments_begin_step(c.it, 0, &x));
  FAILS(FERRY_ERROR_FUNCTION, "forward of segment 2 returned 7", ferry_segments_forward(c.it, &x));
  CHECK(x == NULL);
  c.fails_in = -1;
  FAILS(FERRY_ERROR_WRONG_STATE, "without a step", ferry_segments_end_step(c.it));
  OK(ferry_segments_abandon_step(c.it));
  train(&c, 1);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, use_own ? "begins after" : "largest batch",
        ferry_segments_resize(c.it, 0, 9 * x_bytes));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "largest batch", ferry_segments_resize(c.it, -2, 9 * x_bytes));
  OK(ferry_segments_resize(c.it, 0, x_bytes / 2));
  OK(ferry_segments_resize(c.it, 0, x_bytes));
  OK(ferry_segments_resize(c.it, -2, x_bytes));
  train(&c, 2);
  OK(ferry_segments_stats_json(c.it, &text));
  CHECK(strstr(text, "\"evaluations\": 4") != NULL);
  OK(ferry_string_free(text));
  OK(ferry_segments_explain(c.it, &text));
  OK(ferry_string_free(text));
  OK(ferry_segments_begin_step(c.it, 0, &x));
  OK(ferry_segments_destroy(c.it));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'segments' is gone", ferry_segments_destroy(c.it));
  free(own);
}

static int do_nothing(ferry_segment_call const* s, void* user) {
  (void)s;
  (void)user;
  return 0;
}

/* FERRY_VERIFY=recipes: a forward function that does something else when it runs again is found and named. */
static int forget(ferry_segment_call const* s, void* user) {
  int* runs = user;
  memcpy(s->tensors[0], s->in, x_bytes);
  ((int*)s->tensors[0])[5] = s->index == 1 ? ++*runs : 0;
  memcpy(s->out, s->in, x_bytes);
  return 0;
}

static void test_checked(int use_own) {
  ferry_settings* settings = settings_of("keep", "1GiB");
  int* own = use_own ? malloc((size_t)layers * x_bytes) : NULL;
  chain c = {NULL, 0, -1, FERRY_OK};
  ferry_status status = FERRY_OK;
  char* text = NULL;
  void* x = NULL;
  int runs = 0, step;
  OK(ferry_settings_set(settings, "FERRY_VERIFY", "recipes"));
  OK(ferry_segments_create(settings, layers, x_bytes, &c.it));
  declare(&c, own);
  for (step = 0; step < 5; ++step) train(&c, step);
  OK(ferry_segments_stats_json(c.it, &text));
  CHECK(strstr(text, "\"inputs_away\": 0") != NULL && strstr(text, "\"no_room\": 0") != NULL);
  CHECK(strstr(text, "\"checked\": 0,") == NULL);
  OK(ferry_string_free(text));
  OK(ferry_segments_destroy(c.it));

  OK(ferry_segments_create(settings, layers, x_bytes, &c.it));
  OK(ferry_settings_destroy(settings));
  OK(ferry_segments_tensor(c.it, "h", x_bytes, own, use_own ? x_bytes : 0));
  OK(ferry_segments_forward_by(c.it, forget, &runs));
  OK(ferry_segments_backward_by(c.it, do_nothing, NULL));
  for (step = 0; step < 4 && status == FERRY_OK; ++step) {
    OK(ferry_segments_begin_step(c.it, 0, &x));
    fill(x, 1);
    status = ferry_segments_forward(c.it, NULL);
    if (status != FERRY_OK) break;
    OK(ferry_segments_backward(c.it));
    OK(ferry_segments_end_step(c.it));
  }
  CHECK(status == FERRY_ERROR_RECIPE);
  CHECK(strstr(ferry_last_error(), "saved (segment 1, micro-batch 0)") != NULL);
  CHECK(strstr(ferry_last_error(), "byte 20 of 16384") != NULL);
  OK(ferry_segments_destroy(c.it));
  free(own);
}

/* ---- on a stream ---- */

typedef struct stream_chain {
  ferry_stream* stream;
  job jobs[64];
  size_t job_count;
  int wrong;
} stream_chain;

static int enqueue_forward(ferry_segment_call const* s, void* user) {
  stream_chain* c = user;
  job* j = &c->jobs[c->job_count++];
  CHECK(s->stream == c->stream);
  j->in = s->in;
  j->h = s->tensors[0];
  j->out = s->out;
  return ferry_stream_launch(s->stream, "layer", run_forward, j, NULL, 0) == FERRY_OK ? 0 : 1;
}

static int compare(void* user) {
  job const* j = user;
  int i;
  for (i = 0; i < width; ++i) {
    if (j->h[i] != j->in[i] + 1) return 1;
  }
  return 0;
}

static int enqueue_backward(ferry_segment_call const* s, void* user) {
  stream_chain* c = user;
  job* j = &c->jobs[c->job_count++];
  j->in = s->in;
  j->h = s->tensors[0];
  return ferry_stream_launch(s->stream, "compare", compare, j, NULL, 0) == FERRY_OK ? 0 : 1;
}

static void test_on_a_stream(void) {
  ferry_settings* settings = host_settings("recompute", "256KiB");
  ferry_segments* it = NULL;
  ferry_segments* none = NULL;
  ferry_device* device = NULL;
  stream_chain c;
  void* x = NULL;
  int i;
  memset(&c, 0, sizeof c);
  OK(ferry_device_create(settings, &device));
  OK(ferry_stream_create(device, "compute", &c.stream));
  OK(ferry_segments_create_on(device, settings, c.stream, layers, x_bytes, &it));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'stream'",
        ferry_segments_create_on(device, settings, NULL, layers, x_bytes, &none));
  CHECK(none == NULL);
  OK(ferry_segments_tensor(it, NULL, x_bytes, NULL, 0));
  OK(ferry_segments_forward_by(it, enqueue_forward, &c));
  OK(ferry_segments_backward_by(it, enqueue_backward, &c));
  for (i = 0; i < 3; ++i) {
    c.job_count = 0;
    OK(ferry_segments_begin_step(it, 0, &x));
    OK(ferry_stream_synchronize(c.stream));
    fill(x, i);
    OK(ferry_segments_forward(it, &x));
    OK(ferry_segments_backward(it));
    OK(ferry_stream_synchronize(c.stream));
    OK(ferry_segments_end_step(it));
  }
  FAILS(FERRY_ERROR_IN_USE, "", ferry_device_destroy(device));
  OK(ferry_segments_destroy(it));
  OK(ferry_stream_destroy(c.stream));
  OK(ferry_settings_destroy(settings));
  OK(ferry_device_destroy(device));
}

/* ---- operations, kinds, and what is refused ---- */

static int copy_input(ferry_segment_call const* s, void* user) {
  (void)user;
  memcpy(s->tensors[0], s->in, x_bytes);
  return 0;
}
static int copy_output(ferry_segment_call const* s, void* user) {
  (void)user;
  memcpy(s->out, s->tensors[0], x_bytes);
  return 0;
}

static void test_declarations(void) {
  ferry_settings* settings = settings_of("recompute", "100%");
  ferry_segments* it = NULL;
  int const in = -1, out = -2, none = -3, h = 0;
  uint64_t bytes = 0;
  char* text = NULL;
  void* x = NULL;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "zero segments", ferry_segments_create(settings, 0, 8, &it));
  CHECK(it == NULL);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "zero bytes", ferry_segments_create(settings, 1, 0, &it));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'segments'", ferry_segments_create(settings, 1, 8, NULL));
  OK(ferry_segments_create(settings, 2, x_bytes, &it));
  OK(ferry_settings_destroy(settings));
  FAILS(FERRY_ERROR_WRONG_STATE, "no backward", ferry_segments_begin_step(it, 0, &x));
  OK(ferry_segments_tensor(it, "h", x_bytes, NULL, 0));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "two tensors", ferry_segments_tensor(it, "h", x_bytes, NULL, 0));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "zero bytes", ferry_segments_tensor(it, "g", 0, NULL, 0));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'forward'", ferry_segments_forward_by(it, NULL, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'reads'", ferry_segments_operation(it, "a", NULL, 1, &h, 1, copy_input, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "no tensor",
        ferry_segments_operation(it, "a", &none, 1, &h, 1, copy_input, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "4097", ferry_segments_operation(it, "a", &in, 4097, &h, 1, copy_input, NULL));
  OK(ferry_segments_operation(it, "a", &in, 1, &h, 1, copy_input, NULL));
  OK(ferry_segments_operation(it, "b", &h, 1, &out, 1, copy_output, NULL));
  OK(ferry_segments_backward_by(it, do_nothing, NULL));
  OK(ferry_segments_then(it, 1));
  OK(ferry_segments_forward_by(it, do_nothing, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'backward'", ferry_segments_backward_by(it, NULL, NULL));
  OK(ferry_segments_backward_by(it, do_nothing, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'input'", ferry_segments_begin_step(it, 0, NULL));
  OK(ferry_segments_begin_step(it, 0, &x));
  FAILS(FERRY_ERROR_WRONG_STATE, "end that one first", ferry_segments_begin_step(it, 0, &x));
  FAILS(FERRY_ERROR_WRONG_STATE, "before the first", ferry_segments_then(it, 1));
  FAILS(FERRY_ERROR_WRONG_STATE, "between steps", ferry_segments_resize(it, 0, 8));
  OK(ferry_segments_forward(it, NULL));
  FAILS(FERRY_ERROR_WRONG_STATE, "input", ferry_segments_next_input(it, &x));
  OK(ferry_segments_backward(it));
  OK(ferry_segments_end_step(it));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'bytes'", ferry_segments_keep_all_bytes(it, NULL));
  OK(ferry_segments_keep_all_bytes(it, &bytes));
  OK(ferry_segments_explain(it, &text));
  OK(ferry_string_free(text));
  OK(ferry_segments_destroy(it));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'segments'", ferry_segments_forward(NULL, NULL));
  CHECK(ferry_segment_float(NULL, 0) == NULL && strstr(ferry_last_error(), "'call'") != NULL);
}

void test_segments(void) {
  test_at_once("keep", "100%", 0);
  test_at_once("offload", "60%", 0);
  test_at_once("offload", "60%", 1);
  test_at_once("recompute", "80%", 0);
  test_at_once("recompute", "80%", 1);
  test_at_once("auto", "70%", 1);
  test_checked(0);
  test_checked(1);
  test_on_a_stream();
  test_declarations();
}
