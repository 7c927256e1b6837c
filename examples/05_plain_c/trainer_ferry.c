/* A plain trainer in C: a small GPT on the bytes of a text, with one malloc for all activations, arrays of shape (L,
   ...) and loops over the layers. Loops over rows run in parallel where OpenMP is there; the bits are the same without.
 */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ferry/ferry.h"

#ifndef BATCH
#define BATCH 2
#define CONTEXT 32
#endif
enum { B = BATCH, T = CONTEXT, N = B * T, C = 64, NH = 4, HS = C / NH, L = 12, V = 256 };

/* ---- memory: arrays of floats, one behind the other in one piece ---- */

typedef struct array {
  float** at;
  size_t floats;
} array;

static float* carve(array const* arrays, size_t count, size_t* total) {
  size_t i, sum = 0;
  float* memory;
  for (i = 0; i < count; ++i) sum += arrays[i].floats;
  memory = calloc(sum, sizeof(float));
  if (memory == NULL) exit(1);
  for (i = 0, *total = sum, sum = 0; i < count; sum += arrays[i++].floats) *arrays[i].at = memory + sum;
  return memory;
}

typedef struct params {
  float *wte, *wpe;           /* (V, C) (T, C) */
  float *ln1w, *ln1b;         /* (L, C) (L, C) */
  float *qkvw, *qkvb;         /* (L, 3C, C) (L, 3C) */
  float *projw, *projb;       /* (L, C, C) (L, C) */
  float *ln2w, *ln2b;         /* (L, C) (L, C) */
  float *fcw, *fcb;           /* (L, 4C, C) (L, 4C) */
  float *outw, *outb;         /* (L, C, 4C) (L, C) */
  float *lnfw, *lnfb, *headw; /* (C) (C) (V, C) */
} params;

static float* make_params(params* p, size_t* total) {
  array const all[] = {{&p->wte, V * C},
                       {&p->wpe, T * C},
                       {&p->ln1w, L * C},
                       {&p->ln1b, L * C},
                       {&p->qkvw, L * 3 * C * C},
                       {&p->qkvb, L * 3 * C},
                       {&p->projw, L * C * C},
                       {&p->projb, L * C},
                       {&p->ln2w, L * C},
                       {&p->ln2b, L * C},
                       {&p->fcw, L * 4 * C * C},
                       {&p->fcb, L * 4 * C},
                       {&p->outw, L * C * 4 * C},
                       {&p->outb, L * C},
                       {&p->lnfw, C},
                       {&p->lnfb, C},
                       {&p->headw, V * C}};
  return carve(all, sizeof all / sizeof all[0], total);
}

typedef struct acts {
  float* encoded;                   /* (N, C) */
  float *ln1, *ln1_mean, *ln1_rstd; /* (L, N, C) (L, N) (L, N) */
  float *qkv, *att, *atty;          /* (L, N, 3C) (L, B, NH, T, T) (L, N, C) */
  float* mid;                       /* (L, N, C) */
  float *ln2, *ln2_mean, *ln2_rstd; /* (L, N, C) (L, N) (L, N) */
  float *fch, *gelu;                /* (L, N, 4C) (L, N, 4C) */
  float* out;                       /* (L, N, C) */
} acts;

typedef struct model {
  params p, g; /* parameters and their gradients */
  float *p_memory, *g_memory, *m_memory, *v_memory;
  size_t p_floats;
  acts a;
  float* a_memory;
  size_t a_floats;
  float *lnf, *lnf_mean, *lnf_rstd, *logits; /* (N, C) (N) (N) (N, V) */
  float *dx, *d1, *d2, *d4, *dqkv;           /* (N, C) (N, C) (N, C) (N, 4C) (N, 3C) */
  float* d4b;                                /* (N, 4C) */
  ferry_segments* layers;
} model;

static void make_acts(model* m) {
  acts* const a = &m->a;
  array const all[] = {{&a->encoded, N * C},      {&a->ln1, L * N * C},     {&a->ln1_mean, L * N},
                       {&a->ln1_rstd, L * N},     {&a->qkv, L * N * 3 * C}, {&a->att, L * B * NH * T * T},
                       {&a->atty, L * N * C},     {&a->mid, L * N * C},     {&a->ln2, L * N * C},
                       {&a->ln2_mean, L * N},     {&a->ln2_rstd, L * N},    {&a->fch, L * N * 4 * C},
                       {&a->gelu, L * N * 4 * C}, {&a->out, L * N * C}};
  m->a_memory = carve(all, sizeof all / sizeof all[0], &m->a_floats);
  ferry_require(ferry_segments_create(NULL, L, N * C * sizeof(float), &m->layers));
  for (size_t i = 1; *all[i].at != a->out; ++i) { /* what a layer's backward reads, besides its input */
    ferry_require(ferry_segments_tensor(m->layers, NULL, all[i].floats / L * sizeof(float), *all[i].at, 0));
  }
}

/* ---- layers, forward and backward ---- */

static void layernorm_forward(float* out, float* mean, float* rstd, float const* x, float const* w, float const* b) {
  int n;
#pragma omp parallel for
  for (n = 0; n < N; ++n) {
    float m = 0, v = 0;
    int i;
    for (i = 0; i < C; ++i) m += x[n * C + i];
    m /= C;
    for (i = 0; i < C; ++i) v += (x[n * C + i] - m) * (x[n * C + i] - m);
    mean[n] = m;
    rstd[n] = 1.0f / sqrtf(v / C + 1e-5f);
    for (i = 0; i < C; ++i) out[n * C + i] = (x[n * C + i] - m) * rstd[n] * w[i] + b[i];
  }
}

static void layernorm_backward(float* dx, float* dw, float* db, float const* dout, float const* x, float const* w,
                               float const* mean, float const* rstd) {
  int n, i;
  for (n = 0; n < N; ++n) {
    float sum = 0, sum_x = 0;
    for (i = 0; i < C; ++i) {
      float const normal = (x[n * C + i] - mean[n]) * rstd[n];
      sum += w[i] * dout[n * C + i];
      sum_x += w[i] * dout[n * C + i] * normal;
      dw[i] += normal * dout[n * C + i];
      db[i] += dout[n * C + i];
    }
    for (i = 0; i < C; ++i) {
      float const normal = (x[n * C + i] - mean[n]) * rstd[n];
      dx[n * C + i] += (w[i] * dout[n * C + i] - sum / C - normal * sum_x / C) * rstd[n];
    }
  }
}

/* out = x w^T + b, on top of `add` if that is given. x: (N, from), w: (to, from) */
static void matmul_forward(float* out, float const* add, float const* x, float const* w, float const* b, int from,
                           int to) {
  int n;
#pragma omp parallel for
  for (n = 0; n < N; ++n) {
    int o, i;
    for (o = 0; o < to; ++o) {
      float sum = b != NULL ? b[o] : 0;
      for (i = 0; i < from; ++i) sum += x[n * from + i] * w[o * from + i];
      out[n * to + o] = add != NULL ? add[n * to + o] + sum : sum;
    }
  }
}

static void matmul_backward(float* dx, float* dw, float* db, float const* dout, float const* x, float const* w,
                            int from, int to) {
  int n, o;
#pragma omp parallel for
  for (n = 0; n < N; ++n) {
    int i, k;
    for (i = 0; i < from; ++i) dx[n * from + i] = 0;
    for (k = 0; k < to; ++k) {
      for (i = 0; i < from; ++i) dx[n * from + i] += dout[n * to + k] * w[k * from + i];
    }
  }
#pragma omp parallel for
  for (o = 0; o < to; ++o) {
    int row, i;
    for (row = 0; row < N; ++row) {
      float const d = dout[row * to + o];
      if (db != NULL) db[o] += d;
      for (i = 0; i < from; ++i) dw[o * from + i] += d * x[row * from + i];
    }
  }
}

/* att: (B, NH, T, T), softmax of scaled products; out: (N, C); qkv: (N, 3C) */
static void attention_forward(float* out, float* att, float const* qkv) {
  int bh;
#pragma omp parallel for
  for (bh = 0; bh < B * NH; ++bh) {
    int const b = bh / NH, h = bh % NH;
    int t, s, i;
    for (t = 0; t < T; ++t) {
      float* const row = att + (bh * T + t) * T;
      float const* const q = qkv + (b * T + t) * 3 * C + h * HS;
      float most = -1e30f, sum = 0;
      for (s = 0; s <= t; ++s) {
        float const* const k = qkv + (b * T + s) * 3 * C + C + h * HS;
        row[s] = 0;
        for (i = 0; i < HS; ++i) row[s] += q[i] * k[i];
        row[s] /= sqrtf(HS);
        if (row[s] > most) most = row[s];
      }
      for (s = 0; s <= t; ++s) sum += row[s] = expf(row[s] - most);
      for (s = 0; s < T; ++s) row[s] = s <= t ? row[s] / sum : 0;
      for (i = 0; i < HS; ++i) out[(b * T + t) * C + h * HS + i] = 0;
      for (s = 0; s <= t; ++s) {
        float const* const v = qkv + (b * T + s) * 3 * C + 2 * C + h * HS;
        for (i = 0; i < HS; ++i) out[(b * T + t) * C + h * HS + i] += row[s] * v[i];
      }
    }
  }
}

static void attention_backward(float* dqkv, float const* dout, float const* att, float const* qkv) {
  int bh;
  memset(dqkv, 0, sizeof(float) * N * 3 * C);
#pragma omp parallel for
  for (bh = 0; bh < B * NH; ++bh) {
    int const b = bh / NH, h = bh % NH;
    float datt[T];
    int t, s, i;
    for (t = 0; t < T; ++t) {
      float const* const row = att + (bh * T + t) * T;
      float const* const d = dout + (b * T + t) * C + h * HS;
      float const* const q = qkv + (b * T + t) * 3 * C + h * HS;
      float* const dq = dqkv + (b * T + t) * 3 * C + h * HS;
      float sum = 0;
      for (s = 0; s <= t; ++s) {
        float const* const v = qkv + (b * T + s) * 3 * C + 2 * C + h * HS;
        float* const dv = dqkv + (b * T + s) * 3 * C + 2 * C + h * HS;
        datt[s] = 0;
        for (i = 0; i < HS; ++i) {
          datt[s] += d[i] * v[i];
          dv[i] += row[s] * d[i];
        }
        sum += datt[s] * row[s];
      }
      for (s = 0; s <= t; ++s) {
        float const* const k = qkv + (b * T + s) * 3 * C + C + h * HS;
        float* const dk = dqkv + (b * T + s) * 3 * C + C + h * HS;
        float const dscore = row[s] * (datt[s] - sum) / sqrtf(HS);
        for (i = 0; i < HS; ++i) {
          dq[i] += dscore * k[i];
          dk[i] += dscore * q[i];
        }
      }
    }
  }
}

static void gelu_forward(float* out, float const* x, int count) {
  int i;
#pragma omp parallel for
  for (i = 0; i < count; ++i) out[i] = 0.5f * x[i] * (1 + tanhf(0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

static void gelu_backward(float* dx, float const* dout, float const* x, int count) {
  int i;
#pragma omp parallel for
  for (i = 0; i < count; ++i) {
    float const inner = tanhf(0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
    float const slope = 0.79788456f * (1 + 3 * 0.044715f * x[i] * x[i]);
    dx[i] = dout[i] * (0.5f * (1 + inner) + 0.5f * x[i] * (1 - inner * inner) * slope);
  }
}

/* ---- the model ---- */

static void model_create(model* m) {
  array const rest[] = {{&m->lnf, N * C},      {&m->lnf_mean, N},   {&m->lnf_rstd, N}, {&m->logits, N * V},
                        {&m->dx, N * C},       {&m->d1, N * C},     {&m->d2, N * C},   {&m->d4, N * 4 * C},
                        {&m->dqkv, N * 3 * C}, {&m->d4b, N * 4 * C}};
  unsigned state = 1337;
  size_t i, floats;
  m->p_memory = make_params(&m->p, &m->p_floats);
  m->g_memory = make_params(&m->g, &m->p_floats);
  m->m_memory = calloc(m->p_floats, sizeof(float));
  m->v_memory = calloc(m->p_floats, sizeof(float));
  make_acts(m);
  carve(rest, sizeof rest / sizeof rest[0], &floats);
  for (i = 0; i < m->p_floats; ++i) {
    state = state * 1664525u + 1013904223u;
    m->p_memory[i] = ((float)(state >> 8) / (1 << 24) - 0.5f) * 0.08f;
  }
  for (i = 0; i < L * C; ++i) m->p.ln1w[i] = m->p.ln2w[i] = 1;
  for (i = 0; i < C; ++i) m->p.lnfw[i] = 1;
}

static void embedding_forward(float* out, unsigned char const* tokens, params const* p) {
  int n, i;
  for (n = 0; n < N; ++n) {
    for (i = 0; i < C; ++i) out[n * C + i] = p->wte[tokens[n] * C + i] + p->wpe[n % T * C + i];
  }
}

static void embedding_backward(float const* dx, unsigned char const* tokens, params const* g) {
  int n, i;
  for (n = 0; n < N; ++n) {
    for (i = 0; i < C; ++i) {
      g->wte[tokens[n] * C + i] += dx[n * C + i];
      g->wpe[n % T * C + i] += dx[n * C + i];
    }
  }
}

static int layer_forward(ferry_segment_call const* s, void* user) {
  model const* const m = user;
  int const l = (int)s->index;
  params const p = m->p;
  acts const a = m->a;
  float const* const x = ferry_segment_float(s, -1);
  float* const out = ferry_segment_float(s, -2);
  layernorm_forward(a.ln1 + l * N * C, a.ln1_mean + l * N, a.ln1_rstd + l * N, x, p.ln1w + l * C, p.ln1b + l * C);
  matmul_forward(a.qkv + l * N * 3 * C, NULL, a.ln1 + l * N * C, p.qkvw + l * 3 * C * C, p.qkvb + l * 3 * C, C, 3 * C);
  attention_forward(a.atty + l * N * C, a.att + l * B * NH * T * T, a.qkv + l * N * 3 * C);
  matmul_forward(a.mid + l * N * C, x, a.atty + l * N * C, p.projw + l * C * C, p.projb + l * C, C, C);
  layernorm_forward(a.ln2 + l * N * C, a.ln2_mean + l * N, a.ln2_rstd + l * N, a.mid + l * N * C, p.ln2w + l * C,
                    p.ln2b + l * C);
  matmul_forward(a.fch + l * N * 4 * C, NULL, a.ln2 + l * N * C, p.fcw + l * 4 * C * C, p.fcb + l * 4 * C, C, 4 * C);
  gelu_forward(a.gelu + l * N * 4 * C, a.fch + l * N * 4 * C, N * 4 * C);
  matmul_forward(out, a.mid + l * N * C, a.gelu + l * N * 4 * C, p.outw + l * 4 * C * C, p.outb + l * C, 4 * C, C);
  return 0;
}

static int layer_backward(ferry_segment_call const* s, void* user) {
  model const* const m = user;
  int const l = (int)s->index;
  params const p = m->p, g = m->g;
  acts const a = m->a;
  float const* const x = ferry_segment_float(s, -1);
  matmul_backward(m->d4, g.outw + l * 4 * C * C, g.outb + l * C, m->dx, a.gelu + l * N * 4 * C, p.outw + l * 4 * C * C,
                  4 * C, C);
  gelu_backward(m->d4b, m->d4, a.fch + l * N * 4 * C, N * 4 * C);
  matmul_backward(m->d1, g.fcw + l * 4 * C * C, g.fcb + l * 4 * C, m->d4b, a.ln2 + l * N * C, p.fcw + l * 4 * C * C, C,
                  4 * C);
  layernorm_backward(m->dx, g.ln2w + l * C, g.ln2b + l * C, m->d1, a.mid + l * N * C, p.ln2w + l * C,
                     a.ln2_mean + l * N, a.ln2_rstd + l * N);
  matmul_backward(m->d2, g.projw + l * C * C, g.projb + l * C, m->dx, a.atty + l * N * C, p.projw + l * C * C, C, C);
  attention_backward(m->dqkv, m->d2, a.att + l * B * NH * T * T, a.qkv + l * N * 3 * C);
  matmul_backward(m->d1, g.qkvw + l * 3 * C * C, g.qkvb + l * 3 * C, m->dqkv, a.ln1 + l * N * C, p.qkvw + l * 3 * C * C,
                  C, 3 * C);
  layernorm_backward(m->dx, g.ln1w + l * C, g.ln1b + l * C, m->d1, x, p.ln1w + l * C, a.ln1_mean + l * N,
                     a.ln1_rstd + l * N);
  return 0;
}

/* The mean loss. x: (N, C), tokens, targets: (B, T) */
static float head_forward(model* m, float const* x, unsigned char const* targets) {
  float loss = 0;
  int n, v;
  layernorm_forward(m->lnf, m->lnf_mean, m->lnf_rstd, x, m->p.lnfw, m->p.lnfb);
  matmul_forward(m->logits, NULL, m->lnf, m->p.headw, NULL, C, V);
  for (n = 0; n < N; ++n) { /* probabilities where the logits were */
    float* const row = m->logits + n * V;
    float most = row[0], sum = 0;
    for (v = 1; v < V; ++v) most = row[v] > most ? row[v] : most;
    for (v = 0; v < V; ++v) sum += row[v] = expf(row[v] - most);
    for (v = 0; v < V; ++v) row[v] /= sum;
    loss -= logf(row[targets[n]]) / N;
  }
  return loss;
}

static void head_backward(model* m, float const* x, unsigned char const* targets) {
  int n, v;
  for (n = 0; n < N; ++n) { /* the logits' gradient where the probabilities were */
    m->logits[n * V + targets[n]] -= 1;
    for (v = 0; v < V; ++v) m->logits[n * V + v] /= N;
  }
  matmul_backward(m->d1, m->g.headw, NULL, m->logits, m->lnf, m->p.headw, C, V);
  memset(m->dx, 0, sizeof(float) * N * C);
  layernorm_backward(m->dx, m->g.lnfw, m->g.lnfb, m->d1, x, m->p.lnfw, m->lnf_mean, m->lnf_rstd);
}

static void backward(model* m, float const* last, unsigned char const* tokens, unsigned char const* targets) {
  memset(m->g_memory, 0, m->p_floats * sizeof(float));
  head_backward(m, last, targets);
  ferry_require(ferry_segments_backward(m->layers));
  embedding_backward(m->dx, tokens, &m->g);
}

/* The mean loss; in training, leaves the gradients. tokens, targets: (B, T) */
static float run(model* m, unsigned char const* tokens, unsigned char const* targets, int training) {
  void* x;
  float loss;
  ferry_require(ferry_segments_begin_step(m->layers, !training, &x));
  embedding_forward(x, tokens, &m->p);
  ferry_require(ferry_segments_forward(m->layers, &x));
  loss = head_forward(m, x, targets);
  if (training) backward(m, x, tokens, targets);
  ferry_require(ferry_segments_end_step(m->layers));
  return loss;
}

/* AdamW; steps count from 1. */
static void model_update(model* m, int step) {
  float const share1 = 1 - powf(0.9f, (float)step), share2 = 1 - powf(0.95f, (float)step);
  size_t i;
  for (i = 0; i < m->p_floats; ++i) {
    float const g = m->g_memory[i];
    m->m_memory[i] = 0.9f * m->m_memory[i] + 0.1f * g;
    m->v_memory[i] = 0.95f * m->v_memory[i] + 0.05f * g * g;
    m->p_memory[i] -=
        1e-3f * (m->m_memory[i] / share1 / (sqrtf(m->v_memory[i] / share2) + 1e-8f) + 0.01f * m->p_memory[i]);
  }
}

/* ---- text and loop ---- */

static char const text[] =
    "A crate that is wanted tomorrow crosses the river today. A crate that is quickly built is not carried at all. "
    "What "
    "is wanted within the hour stays on the pier, as long as the pier has room. The ferryman reads his list from the "
    "end, "
    "because whatever was loaded last is called for first, and when the wind drops he builds instead of rowing.\n";

static void batch(int number, unsigned char* tokens, unsigned char* targets) {
  size_t const starts = sizeof text - T - 2;
  int b;
  for (b = 0; b < B; ++b) {
    size_t const from = (size_t)(number * B + b) * T % starts;
    memcpy(tokens + b * T, text + from, T);
    memcpy(targets + b * T, text + from + 1, T);
  }
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* trainer [STEPS [time]]: with `time`, how long the steps took but the first of each kind, on standard error. */
int main(int count, char** arguments) {
  static model m;
  unsigned char tokens[N], targets[N];
  unsigned long long hash = 0xcbf29ce484222325u;
  int const steps = count > 1 ? atoi(arguments[1]) : 10;
  double began, training = 0, evaluation = 0;
  int step;
  size_t i;
  model_create(&m);
  ferry_require(ferry_segments_forward_by(m.layers, layer_forward, &m));
  ferry_require(ferry_segments_backward_by(m.layers, layer_backward, &m));
  for (step = 0; step < steps; ++step) {
    if (step % 4 == 0) { /* how it does on another part of the text */
      batch(1000 + step, tokens, targets);
      began = now();
      printf("evaluation %a\n", run(&m, tokens, targets, 0));
      if (step > 0) evaluation += now() - began;
    }
    batch(step, tokens, targets);
    began = now();
    printf("step %d loss %a\n", step, run(&m, tokens, targets, 1));
    if (step > 0) training += now() - began;
    model_update(&m, step + 1);
  }
  for (i = 0; i < m.p_floats * sizeof(float); ++i) hash = (hash ^ ((unsigned char*)m.p_memory)[i]) * 0x100000001b3u;
  printf("weights %016llx\n", hash);
  if (count > 2) fprintf(stderr, "training %.6f evaluation %.6f\n", training, evaluation);
  ferry_require(ferry_segments_destroy(m.layers));
  return 0;
}
