/* A small net trained in C with everything that backward needs in Ferry's care: z = x W and h = max(z, 0), layer by
   layer, a quadratic loss, plain gradient descent. Whatever the policy, budget or plan, the weights end up the same,
   bit for bit. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { layers = 8, batch = 32, width = 48, steps = 4, item_bytes = batch * width * sizeof(float), most_jobs = 1024 };

/* One operation on the stream: which, with where it reads and writes. Jobs live until their step has been synchronised.
 */
typedef enum operation { forward_z, forward_h, loss_gradient, backward_z, backward_w, backward_x } operation;
typedef struct job {
  operation what;
  float const* a; /* (batch, width) */
  float const* b; /* (batch, width), or weights (width, width) */
  float* out;
  size_t first_row;
  size_t rows;
} job;

typedef struct net {
  rig on;
  float weights[layers][width * width];
  float gradients[layers][width * width];
  float input[batch * width];
  job jobs[most_jobs];
  size_t job_count;
} net;

static int run(void* user) {
  job const* j = user;
  size_t row, i, k;
  for (row = j->first_row; row < j->first_row + j->rows; ++row) {
    float const* a = j->a + row * width;
    float* out = j->out + row * width;
    for (i = 0; i < width; ++i) {
      float sum = 0;
      switch (j->what) {
        case forward_z: /* out = a b */
          for (k = 0; k < width; ++k) sum += a[k] * j->b[k * width + i];
          break;
        case forward_h:
          sum = a[i] > 0 ? a[i] : 0;
          break;
        case loss_gradient: /* of (a - 1)^2 / 2 */
          sum = (a[i] - 1) / batch;
          break;
        case backward_z: /* out = a where b > 0 */
          sum = j->b[row * width + i] > 0 ? a[i] : 0;
          break;
        case backward_x: /* out = a b^T */
          for (k = 0; k < width; ++k) sum += a[k] * j->b[i * width + k];
          break;
        case backward_w: /* out = a^T b; a row of out is a column of a */
          for (k = 0; k < batch; ++k) sum += j->a[k * width + row] * j->b[k * width + i];
          break;
      }
      out[i] = sum;
    }
  }
  return 0;
}

static int is_item(net const* n, void const* memory) {
  return (char const*)memory < (char const*)n || (char const*)memory >= (char const*)(n + 1);
}

/* Enqueues an operation on `stream`. Only device memory is declared: weights are the trainer's own. */
static int enqueue(net* n, void* stream, operation what, float const* a, float const* b, float* out, size_t first_row,
                   size_t rows) {
  static char const* const names[] = {"z", "h", "loss", "dz", "dw", "dx"};
  job* j = &n->jobs[n->job_count++];
  ferry_access touched[3];
  size_t count = 0;
  float const* reads[2];
  size_t i;
  if (n->job_count > most_jobs) abort();
  j->what = what;
  j->a = a;
  j->b = b;
  j->out = out;
  j->first_row = first_row;
  j->rows = rows;
  reads[0] = a;
  reads[1] = b;
  for (i = 0; i < 2; ++i) {
    if (reads[i] == NULL || !is_item(n, reads[i])) continue;
    touched[count].address = reads[i];
    touched[count].bytes = item_bytes;
    touched[count++].writes = 0;
  }
  if (is_item(n, out)) {
    touched[count].address = out + first_row * width;
    touched[count].bytes = rows * width * sizeof(float);
    touched[count++].writes = 1;
  }
  return (int)ferry_stream_launch(stream, names[what], run, j, touched, count);
}

/* Recipes: the operations of forward themselves. The user pointer is the layer. */
typedef struct layer {
  net* of;
  uint32_t index;
} layer;

static int rebuild_z(ferry_recipe_context const* to, void* user) {
  layer const* l = user;
  return enqueue(l->of, to->stream, forward_z, to->inputs[0], l->of->weights[l->index], to->output, 0, batch);
}

static int rebuild_h(ferry_recipe_context const* to, void* user) { /* any of its rows alone */
  layer const* l = user;
  return enqueue(l->of, to->stream, forward_h, to->inputs[0], NULL, to->output, to->first_row, to->rows);
}

static ferry_key key_of(char const* name, uint32_t segment) {
  ferry_key key;
  key.micro_batch = 0;
  key.segment = segment;
  key.name = name;
  return key;
}

/* h of the layer before; of the first layer, its input. */
static ferry_key input_of(uint32_t segment) { return segment == 0 ? key_of("x", 0) : key_of("h", segment - 1); }

static ferry_lease* compute(net* n, layer* l, char const* name, ferry_key const* from, float const* input,
                            float** out) {
  int const is_z = name[0] == 'z';
  ferry_key key = key_of(name, l->index);
  ferry_block* block = NULL;
  ferry_lease* lease = NULL;
  ferry_recipe how;
  void* memory = NULL;
  memset(&how, 0, sizeof how);
  how.size = sizeof how;
  how.enqueue = is_z ? rebuild_z : rebuild_h;
  how.user = l;
  how.inputs = from;
  how.input_count = 1;
  how.rows = is_z ? 1 : batch;
  OK(ferry_session_allocate(n->on.session, item_bytes, n->on.stream, name, &block, &memory));
  *out = memory;
  CHECK(enqueue(n, n->on.stream, is_z ? forward_z : forward_h, input, is_z ? n->weights[l->index] : NULL, memory, 0,
                batch) == 0);
  OK(ferry_session_save(n->on.session, &key, block, n->on.stream, &how, &lease));
  return lease;
}

static float const* restore(net* n, ferry_key const* key, ferry_lease** lease) {
  void* memory = NULL;
  OK(ferry_session_restore(n->on.session, key, n->on.stream, lease, &memory));
  return memory;
}

static float* scratch(net* n, char const* name, ferry_block** block) {
  void* memory = NULL;
  OK(ferry_session_allocate(n->on.session, item_bytes, n->on.stream, name, block, &memory));
  return memory;
}

static ferry_lease* forward(net* n, layer* all, float** last) {
  ferry_key const x = key_of("x", 0);
  ferry_lease* lease = NULL;
  float* input = n->input;
  uint32_t l;
  OK(ferry_session_adopt(n->on.session, &x, n->input, item_bytes, n->on.stream, NULL, NULL, NULL, &lease));
  for (l = 0; l < layers; ++l) {
    ferry_key const from = input_of(l);
    ferry_key const z_key = key_of("z", l);
    float* z = NULL;
    ferry_lease* z_lease = compute(n, &all[l], "z", &from, input, &z);
    OK(ferry_lease_end(lease));
    lease = compute(n, &all[l], "h", &z_key, z, &input);
    OK(ferry_lease_end(z_lease));
  }
  *last = input;
  return lease;
}

static void backward(net* n, ferry_lease* last_lease, float const* last) {
  ferry_block* block = NULL;
  float* gradient = scratch(n, "dh", &block);
  uint32_t l;
  CHECK(enqueue(n, n->on.stream, loss_gradient, last, NULL, gradient, 0, batch) == 0);
  OK(ferry_lease_end(last_lease));
  for (l = layers; l-- > 0;) {
    ferry_key const z_key = key_of("z", l);
    ferry_key const h_key = key_of("h", l);
    ferry_key const x_key = input_of(l);
    ferry_block* dz_block = NULL;
    ferry_block* dx_block = NULL;
    ferry_lease* lease = NULL;
    float* dz = scratch(n, "dz", &dz_block);
    float* dx = NULL;
    OK(ferry_session_release(n->on.session, &h_key));
    CHECK(enqueue(n, n->on.stream, backward_z, gradient, restore(n, &z_key, &lease), dz, 0, batch) == 0);
    OK(ferry_lease_end(lease));
    OK(ferry_session_release(n->on.session, &z_key));
    OK(ferry_block_free(block));
    CHECK(enqueue(n, n->on.stream, backward_w, restore(n, &x_key, &lease), dz, n->gradients[l], 0, width) == 0);
    OK(ferry_lease_end(lease));
    dx = scratch(n, "dx", &dx_block);
    CHECK(enqueue(n, n->on.stream, backward_x, dz, n->weights[l], dx, 0, batch) == 0);
    OK(ferry_block_free(dz_block));
    block = dx_block;
    gradient = dx;
  }
  OK(ferry_block_free(block));
}

static void train_step(net* n, layer* all) {
  float* last = NULL;
  ferry_lease* lease = NULL;
  size_t i, l;
  n->job_count = 0;
  OK(ferry_session_begin_step(n->on.session));
  lease = forward(n, all, &last);
  backward(n, lease, last);
  OK(ferry_stream_synchronize(n->on.stream));
  OK(ferry_session_end_step(n->on.session));
  for (l = 0; l < layers; ++l) {
    for (i = 0; i < width * width; ++i) n->weights[l][i] -= 0.05f * n->gradients[l][i];
  }
}

static void initialise(net* n) {
  unsigned state = 1;
  size_t i;
  float* const weights = &n->weights[0][0];
  for (i = 0; i < (size_t)layers * width * width; ++i) {
    state = state * 1664525u + 1013904223u;
    weights[i] = ((float)(state >> 8) / (1 << 24) - 0.5f) * 0.5f;
  }
  for (i = 0; i < batch * width; ++i) {
    state = state * 1664525u + 1013904223u;
    n->input[i] = (float)(state >> 8) / (1 << 24);
  }
}

typedef struct run_options {
  char const* policy;
  char const* budget;
  ferry_placement_function choose;
  ferry_plan* plan;
  char** profile; /* recorded if not null */
} run_options;

/* Trains from the same beginning, and gives the net and what the session counted. */
static net* train(run_options const* how, ferry_stats* stats) {
  net* n = calloc(1, sizeof *n);
  layer all[layers];
  uint32_t l;
  int step;
  if (n == NULL) abort();
  n->on = make_rig(how->policy, how->budget);
  initialise(n);
  for (l = 0; l < layers; ++l) {
    all[l].of = n;
    all[l].index = l;
  }
  if (how->choose != NULL) OK(ferry_session_set_placement(n->on.session, how->choose, NULL));
  if (how->plan != NULL) OK(ferry_session_follow(n->on.session, how->plan));
  if (how->profile != NULL) OK(ferry_session_record_profile(n->on.session, 1));
  for (step = 0; step < steps; ++step) train_step(n, all);
  if (how->profile != NULL) OK(ferry_session_recorded_profile(n->on.session, how->profile));
  stats->size = sizeof *stats;
  OK(ferry_session_stats(n->on.session, stats));
  CHECK(stats->device.peak_bytes <= stats->device.limit_bytes);
  end_rig(&n->on);
  return n;
}

/* The weights are those of the run that kept everything; frees the net. */
static void expect_same_weights(net* n, net const* kept) {
  CHECK(memcmp(n->weights, kept->weights, sizeof n->weights) == 0);
  free(n);
}

static int mixed(ferry_item_info const* item, void* user) {
  (void)user;
  if (item->key.segment % 3 == 0) return FERRY_KEEP;
  return item->key.segment % 3 == 1 || !item->has_recipe ? FERRY_OFFLOAD : FERRY_RECOMPUTE;
}

static void test_plan(char const* profile, net const* kept) {
  ferry_plan* plan = NULL;
  ferry_plan* followed = NULL;
  ferry_plan_summary summary;
  ferry_stats stats;
  char* json = NULL;
  char budget[32] = "64KiB";
  run_options how = {"auto", NULL, NULL, NULL, NULL};
  rig other = make_rig("keep", "1MiB");
  how.budget = budget;
  OK(ferry_plan_make(profile, "rtx4090", budget, NULL, &plan));
  OK(ferry_plan_require_match(plan, profile));
  summary.size = sizeof summary;
  OK(ferry_plan_summarize(plan, &summary));
  CHECK(summary.items == 2 * layers + 1 && summary.budget_bytes == 64 * 1024);
  CHECK(summary.offloaded_items + summary.recomputed_items > 0);
  CHECK(summary.kept_items + summary.offloaded_items + summary.recomputed_items == summary.items);
  CHECK(summary.device_peak_bytes <= summary.budget_bytes);
  CHECK(summary.step_us >= summary.lower_bound_us * (1 - 1e-9)); /* sums of the same times, in another order */
  how.plan = plan;
  expect_same_weights(train(&how, &stats), kept);
  CHECK(stats.recomputes + stats.host_to_device.transfers > 0);

  OK(ferry_session_follow(other.session, plan));
  OK(ferry_session_followed(other.session, &followed));
  OK(ferry_plan_to_json(followed, &json));
  CHECK(strstr(json, "\"ferry_plan\"") != NULL);
  OK(ferry_string_free(json));
  OK(ferry_plan_destroy(followed));
  OK(ferry_plan_destroy(plan));
  end_rig(&other);
}

void test_training(void) {
  run_options how = {"keep", "1MiB", NULL, NULL, NULL};
  ferry_stats stats;
  char* profile = NULL;
  net* kept = NULL;
  how.profile = &profile;
  kept = train(&how, &stats);
  CHECK(stats.steps == steps && stats.saves == steps * (2 * layers + 1) && stats.recomputes == 0);
  CHECK(stats.device_to_host.bytes == 0);
  how.profile = NULL;

  how.policy = "offload";
  how.budget = "48KiB";
  expect_same_weights(train(&how, &stats), kept);
  CHECK(stats.host_to_device.bytes > 0);

  how.policy = "recompute";
  how.budget = "112KiB";
  expect_same_weights(train(&how, &stats), kept);
  CHECK(stats.recomputes > 0 && stats.device_to_host.bytes == 0);

  how.policy = "auto";
  how.budget = "64KiB";
  expect_same_weights(train(&how, &stats), kept);

  how.policy = "keep";
  how.budget = "112KiB";
  how.choose = mixed;
  expect_same_weights(train(&how, &stats), kept);
  CHECK(stats.recomputes > 0 && stats.host_to_device.bytes > 0);

  test_plan(profile, kept);
  OK(ferry_string_free(profile));
  free(kept);
}
