// A plain trainer in the style of llm.c: one file, buffers by hand, an explicit forward and its mirror backward, AdamW.
// It trains a small GPT on the bytes of a text. One thread computes, and a run gives the same bits every time.
// What backward will need of forward is in Ferry's care, which keeps, ferries or rebuilds it within `--memory` bytes.
// Weights, gradients and the optimizer's moments come on top.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"

namespace {

constexpr int B = 4;    // sequences in a batch
constexpr int T = 64;   // tokens in a sequence
constexpr int C = 64;   // features
constexpr int NH = 4;   // heads
constexpr int L = 8;    // blocks
constexpr int V = 256;  // bytes are tokens
constexpr int N = B * T;

/// The next tensor of that shape in a piece of memory.
float* take(float*& at, auto... shape) { return std::exchange(at, at + (std::size_t{1} * ... * shape)); }

/// What a block's backward reads of its forward, beside the block's input; or the gradients of it.
struct block_acts {
  static constexpr std::size_t floats = std::size_t{N} * (15 * C + NH * T + 4);
  float* at;
  float* ln1 = take(at, B, T, C);
  float* ln1_mean = take(at, B, T);
  float* ln1_rstd = take(at, B, T);
  float* qkv = take(at, B, T, 3 * C);
  float* att = take(at, B, NH, T, T);
  float* atty = take(at, B, T, C);
  float* mid = take(at, B, T, C);
  float* ln2 = take(at, B, T, C);
  float* ln2_mean = take(at, B, T);
  float* ln2_rstd = take(at, B, T);
  float* fch = take(at, B, T, 4 * C);
  float* gelu = take(at, B, T, 4 * C);
};

/// A block's weights, or their gradients.
struct block_weights {
  static constexpr std::size_t floats = 12 * C * C + 13 * C;
  float* at;
  float* ln1w = take(at, C);
  float* ln1b = take(at, C);
  float* qkvw = take(at, C, 3 * C);
  float* qkvb = take(at, 3 * C);
  float* projw = take(at, C, C);
  float* projb = take(at, C);
  float* ln2w = take(at, C);
  float* ln2b = take(at, C);
  float* fcw = take(at, C, 4 * C);
  float* fcb = take(at, 4 * C);
  float* outw = take(at, 4 * C, C);
  float* outb = take(at, C);
};

/// All weights, or all gradients.
struct weights {
  static constexpr std::size_t floats = (2 * V + T + 2) * C + L * block_weights::floats;
  float* at;
  float* wte = take(at, V, C);
  float* wpe = take(at, T, C);
  float* lnfw = take(at, C);
  float* lnfb = take(at, C);
  float* headw = take(at, C, V);
  float* blocks = take(at, L, block_weights::floats);
  [[nodiscard]] block_weights block(int l) const { return {blocks + l * block_weights::floats}; }
};

// ---- kernels; a gradient of weights is added to, any other is written unless it says so

/// Eight sums, so that the compiler may use vectors without changing the order of any.
float dot(float const* a, float const* b, int n) {
  float sums[8] = {};
  for (int i = 0; i < n; i += 8) {
    for (int j = 0; j < 8; ++j) sums[j] += a[i + j] * b[i + j];
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// y += a x
void axpy(float* y, float a, float const* x, int n) {
  for (int i = 0; i < n; ++i) y[i] += a * x[i];
}

/// out: (N, C)
void embedding_forward(float* out, unsigned char const* tokens, weights const& w) {
  for (int n = 0; n < N; ++n) {
    for (int c = 0; c < C; ++c) out[n * C + c] = w.wte[tokens[n] * C + c] + w.wpe[n % T * C + c];
  }
}

void embedding_backward(weights const& g, float const* dout, unsigned char const* tokens) {
  for (int n = 0; n < N; ++n) {
    axpy(g.wte + tokens[n] * C, 1, dout + n * C, C);
    axpy(g.wpe + n % T * C, 1, dout + n * C, C);
  }
}

/// out, x: (N, C); mean, rstd: (N)
void layernorm_forward(float* out, float* mean, float* rstd, float const* x, float const* w, float const* b) {
  for (int n = 0; n < N; ++n, x += C, out += C) {
    float m = 0;
    for (int c = 0; c < C; ++c) m += x[c];
    m /= C;
    float variance = 0;
    for (int c = 0; c < C; ++c) variance += (x[c] - m) * (x[c] - m);
    float const s = 1 / std::sqrt(variance / C + 1e-5F);
    for (int c = 0; c < C; ++c) out[c] = (x[c] - m) * s * w[c] + b[c];
    mean[n] = m;
    rstd[n] = s;
  }
}

/// Adds to dx.
void layernorm_backward(float* dx, float* dw, float* db, float const* dout, float const* x, float const* w,
                        float const* mean, float const* rstd) {
  for (int n = 0; n < N; ++n, x += C, dx += C, dout += C) {
    float sum = 0;
    float sum_norm = 0;
    for (int c = 0; c < C; ++c) {
      float const norm = (x[c] - mean[n]) * rstd[n];
      sum += w[c] * dout[c];
      sum_norm += w[c] * dout[c] * norm;
      dw[c] += norm * dout[c];
      db[c] += dout[c];
    }
    for (int c = 0; c < C; ++c) {
      float const norm = (x[c] - mean[n]) * rstd[n];
      dx[c] += (w[c] * dout[c] - sum / C - norm * sum_norm / C) * rstd[n];
    }
  }
}

/// y: (N, out), x: (N, in), w: (in, out), b: (out) or null; what y begins with is given: zeros, or a residual
void matmul_forward(float* y, float const* start, float const* x, float const* w, float const* b, int in, int out) {
  for (int n = 0; n < N; ++n, y += out, x += in) {
    for (int o = 0; o < out; ++o) y[o] = (start != nullptr ? start[n * out + o] : 0) + (b != nullptr ? b[o] : 0);
    for (int i = 0; i < in; ++i) axpy(y, x[i], w + i * out, out);
  }
}

void matmul_backward(float* dx, float* dw, float* db, float const* dy, float const* x, float const* w, int in,
                     int out) {
  for (int n = 0; n < N; ++n, dx += in, dy += out, x += in) {
    for (int i = 0; i < in; ++i) {
      dx[i] = dot(dy, w + i * out, out);
      axpy(dw + i * out, x[i], dy, out);
    }
    if (db != nullptr) axpy(db, 1, dy, out);
  }
}

constexpr int head_size = C / NH;

/// atty: (B, T, C), att: (B, NH, T, T), qkv: (B, T, 3C)
void attention_forward(float* atty, float* att, float const* qkv) {
  float const scale = 1 / std::sqrt(float{head_size});
  std::fill_n(atty, N * C, 0.0F);
  for (int row = 0; row < B * NH * T; ++row, att += T) {
    int const b = row / (NH * T);
    int const h = row / T % NH;
    int const t = row % T;
    float const* const q = qkv + (b * T + t) * 3 * C + h * head_size;
    float const* const k = qkv + b * T * 3 * C + C + h * head_size;
    float const* const v = k + C;
    float most = -INFINITY;
    for (int u = 0; u <= t; ++u) most = std::max(most, att[u] = scale * dot(q, k + u * 3 * C, head_size));
    float sum = 0;
    for (int u = 0; u <= t; ++u) sum += att[u] = std::exp(att[u] - most);
    for (int u = 0; u < T; ++u) att[u] = u <= t ? att[u] / sum : 0;
    for (int u = 0; u <= t; ++u) axpy(atty + (b * T + t) * C + h * head_size, att[u], v + u * 3 * C, head_size);
  }
}

/// datt: (B, NH, T, T), only written
void attention_backward(float* dqkv, float* datt, float const* datty, float const* att, float const* qkv) {
  float const scale = 1 / std::sqrt(float{head_size});
  std::fill_n(dqkv, N * 3 * C, 0.0F);
  for (int row = 0; row < B * NH * T; ++row, att += T, datt += T) {
    int const b = row / (NH * T);
    int const h = row / T % NH;
    int const t = row % T;
    int const q = (b * T + t) * 3 * C + h * head_size;
    int const k = b * T * 3 * C + C + h * head_size;
    int const v = k + C;
    float const* const d = datty + (b * T + t) * C + h * head_size;
    float sum = 0;
    for (int u = 0; u <= t; ++u) {
      datt[u] = dot(d, qkv + v + u * 3 * C, head_size);
      axpy(dqkv + v + u * 3 * C, att[u], d, head_size);
      sum += att[u] * datt[u];
    }
    for (int u = 0; u <= t; ++u) {
      float const dscore = scale * att[u] * (datt[u] - sum);
      axpy(dqkv + q, dscore, qkv + k + u * 3 * C, head_size);
      axpy(dqkv + k + u * 3 * C, dscore, qkv + q, head_size);
    }
  }
}

constexpr float gelu_scale = 0.7978845608F;  // sqrt(2 / pi)

void gelu_forward(float* y, float const* x, int n) {
  for (int i = 0; i < n; ++i)
    y[i] = 0.5F * x[i] * (1 + std::tanh(gelu_scale * (x[i] + 0.044715F * x[i] * x[i] * x[i])));
}

void gelu_backward(float* dx, float const* dy, float const* x, int n) {
  for (int i = 0; i < n; ++i) {
    float const t = std::tanh(gelu_scale * (x[i] + 0.044715F * x[i] * x[i] * x[i]));
    float const slope = (1 - t * t) * gelu_scale * (1 + 3 * 0.044715F * x[i] * x[i]);
    dx[i] = dy[i] * 0.5F * (1 + t + x[i] * slope);
  }
}

// ---- blocks: forward and its mirror

/// x: (B, T, C), the block's input. All that backward reads.
void block_forward(block_acts const& a, float const* x, block_weights const& w) {
  layernorm_forward(a.ln1, a.ln1_mean, a.ln1_rstd, x, w.ln1w, w.ln1b);
  matmul_forward(a.qkv, nullptr, a.ln1, w.qkvw, w.qkvb, C, 3 * C);
  attention_forward(a.atty, a.att, a.qkv);
  matmul_forward(a.mid, x, a.atty, w.projw, w.projb, C, C);
  layernorm_forward(a.ln2, a.ln2_mean, a.ln2_rstd, a.mid, w.ln2w, w.ln2b);
  matmul_forward(a.fch, nullptr, a.ln2, w.fcw, w.fcb, C, 4 * C);
  gelu_forward(a.gelu, a.fch, N * 4 * C);
}

/// out: (B, T, C), the next block's input
void block_output(float* out, block_acts const& a, block_weights const& w) {
  matmul_forward(out, a.mid, a.gelu, w.outw, w.outb, 4 * C, C);
}

/// dx: (B, T, C), of the block's output before, of its input after. d: scratch.
void block_backward(float* dx, block_acts const& d, block_acts const& a, float const* x, block_weights const& w,
                    block_weights const& g) {
  matmul_backward(d.gelu, g.outw, g.outb, dx, a.gelu, w.outw, 4 * C, C);
  gelu_backward(d.fch, d.gelu, a.fch, N * 4 * C);
  matmul_backward(d.ln2, g.fcw, g.fcb, d.fch, a.ln2, w.fcw, C, 4 * C);
  layernorm_backward(dx, g.ln2w, g.ln2b, d.ln2, a.mid, w.ln2w, a.ln2_mean, a.ln2_rstd);
  matmul_backward(d.atty, g.projw, g.projb, dx, a.atty, w.projw, C, C);
  attention_backward(d.qkv, d.att, d.atty, a.att, a.qkv);
  matmul_backward(d.ln1, g.qkvw, g.qkvb, d.qkv, a.ln1, w.qkvw, C, 3 * C);
  layernorm_backward(dx, g.ln1w, g.ln1b, d.ln1, x, w.ln1w, a.ln1_mean, a.ln1_rstd);
}

// ---- the model

class trainer {
 public:
  explicit trainer(std::size_t memory_bytes) : memory_bytes_(memory_bytes) {
    initialize();
    auto const acts = layers_.tensor("acts", block_acts::floats * sizeof(float));
    layers_.forward_by([this, acts](ferry::segment_call const& l) {
      block_forward({l.at<float>(acts)}, l.input<float>(), w_.block(l.index));
      block_output(l.output<float>(), {l.at<float>(acts)}, w_.block(l.index));
    });
    layers_.backward_by([this, acts](ferry::segment_call const& l) {
      block_backward(dx_, {dacts_}, {l.at<float>(acts)}, l.input<float>(), w_.block(l.index), g_.block(l.index));
    });
  }

  /// Forward and its mirror; gives the loss and leaves the gradients. tokens, targets: (B, T)
  float pass(unsigned char const* tokens, unsigned char const* targets) {
    std::ranges::fill(gradients_, 0.0F);
    ferry::segments::step_scope step(layers_);
    embedding_forward(layers_.input<float>(), tokens, w_);
    float const loss = head(layers_.forward<float>(), targets);
    layers_.backward();
    step.end();
    embedding_backward(g_, dx_, tokens);
    return loss;
  }

  /// AdamW; steps count from 1.
  void update(int step) {
    constexpr float rate = 1e-3F;
    constexpr float decay = 0.01F;
    float const share1 = 1 - std::pow(0.9F, static_cast<float>(step));
    float const share2 = 1 - std::pow(0.95F, static_cast<float>(step));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      float const g = gradients_[i];
      m_[i] = 0.9F * m_[i] + 0.1F * g;
      v_[i] = 0.95F * v_[i] + 0.05F * g * g;
      parameters_[i] -= rate * (m_[i] / share1 / (std::sqrt(v_[i] / share2) + 1e-8F) + decay * parameters_[i]);
    }
  }

  /// FNV-1a of all weights: one wrong bit anywhere in training, and it is another.
  [[nodiscard]] std::uint64_t checksum() const {
    std::uint64_t hash = 0xcbf29ce484222325U;
    auto const* const bytes = reinterpret_cast<unsigned char const*>(parameters_.data());
    for (std::size_t i = 0; i < parameters_.size() * sizeof(float); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3U;
    return hash;
  }

 private:
  static constexpr std::size_t scratch_floats = block_acts::floats + N * (3 * C + 2 + V);

  [[nodiscard]] std::vector<float> memory_for(std::size_t floats) const {
    std::size_t const bytes = floats * sizeof(float);
    if (bytes <= memory_bytes_) return std::vector<float>(floats);
    throw std::runtime_error("does not fit: activations need " + std::to_string(bytes) + " bytes, --memory is " +
                             std::to_string(memory_bytes_));
  }

  [[nodiscard]] ferry::config settings() const {
    ferry::config chosen = ferry::config::from_env();
    chosen.budget = ferry::byte_amount::exactly(memory_bytes_ - scratch_floats * sizeof(float));
    return chosen;
  }

  void initialize() {
    std::uint32_t state = 1337;
    for (float& p : parameters_) {
      state = state * 1664525U + 1013904223U;
      p = (static_cast<float>(state >> 8) / (1U << 24) - 0.5F) * 0.08F;
    }
    for (int l = 0; l < L; ++l) {
      std::fill_n(w_.block(l).ln1w, C, 1.0F);
      std::fill_n(w_.block(l).ln2w, C, 1.0F);
    }
    std::fill_n(w_.lnfw, C, 1.0F);
  }

  /// The mean loss; dx_ becomes its gradient. x: (B, T, C)
  float head(float const* x, unsigned char const* targets) {
    layernorm_forward(lnf_, lnf_mean_, lnf_rstd_, x, w_.lnfw, w_.lnfb);
    matmul_forward(logits_, nullptr, lnf_, w_.headw, nullptr, C, V);
    float loss = 0;
    for (int n = 0; n < N; ++n) {
      float* const p = logits_ + n * V;  // probabilities, then the logits' gradient, where the logits were
      float const most = *std::max_element(p, p + V);
      float sum = 0;
      for (int v = 0; v < V; ++v) sum += p[v] = std::exp(p[v] - most);
      for (int v = 0; v < V; ++v) p[v] /= sum;
      loss -= std::log(p[targets[n]]) / N;
      p[targets[n]] -= 1;
      for (int v = 0; v < V; ++v) p[v] /= N;
    }
    matmul_backward(dlnf_, g_.headw, nullptr, logits_, lnf_, w_.headw, C, V);
    std::fill_n(dx_, N * C, 0.0F);
    layernorm_backward(dx_, g_.lnfw, g_.lnfb, dlnf_, x, w_.lnfw, lnf_mean_, lnf_rstd_);
    return loss;
  }

  std::size_t memory_bytes_;
  std::vector<float> parameters_ = std::vector<float>(weights::floats);
  std::vector<float> gradients_ = std::vector<float>(weights::floats);
  std::vector<float> m_ = std::vector<float>(weights::floats);  // of AdamW
  std::vector<float> v_ = std::vector<float>(weights::floats);
  weights w_{parameters_.data()};
  weights g_{gradients_.data()};
  std::vector<float> memory_ = memory_for(scratch_floats);  // what follows points into it
  float* at_ = memory_.data();
  float* dacts_ = take(at_, block_acts::floats);
  float* dx_ = take(at_, B, T, C);
  float* lnf_ = take(at_, B, T, C);
  float* dlnf_ = take(at_, B, T, C);
  float* lnf_mean_ = take(at_, B, T);
  float* lnf_rstd_ = take(at_, B, T);
  float* logits_ = take(at_, B, T, V);
  ferry::segments layers_{settings(), L, N* C * sizeof(float)};
};

// ---- text, flags, loop

constexpr std::string_view shipped_text =
    "The ferry leaves the shore when the tide is right. What the far bank will need tomorrow is loaded today; what can "
    "be made anew over there is left behind, and what is wanted again within the hour stays in the shed by the pier. "
    "The ferryman has one boat and two hands, and the river is as wide as it is. He keeps a list. Each crate on it has "
    "a name, a weight, and a note: stay, cross, or build again. When the shed is full he does not curse the shed. He "
    "looks at the list, finds the crate that will be asked for last, and takes it over the water while others work. "
    "When the crate is called for, it is on the pier already, and nobody has seen him row.\n";

struct bad_flag : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct options {
  int steps = 20;
  std::size_t memory_bytes = std::size_t{16} << 20;
  std::string text{shipped_text};
  bool help = false;
};

std::size_t number(std::string_view flag, std::string_view text, std::size_t most) {
  std::size_t value = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value < 1 || value > most) {
    throw bad_flag(std::string(flag) + " '" + std::string(text) + "': not a whole number from 1 to " +
                   std::to_string(most));
  }
  return value;
}

std::string contents(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  std::string text = all.str();
  if (!file || !all) throw bad_flag("cannot read the text file '" + path + "'");
  if (text.size() < T + 2) throw bad_flag("the text file '" + path + "' needs " + std::to_string(T + 2) + " bytes");
  return text;
}

options read(std::vector<std::string> const& arguments) {
  options chosen;
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    bool const is_last = std::next(at) == arguments.end();
    if (*at == "--help") {
      chosen.help = true;
    } else if (*at == "--steps" || *at == "--memory") {
      if (is_last) throw bad_flag(*at + " needs a number");
      std::string const& flag = *at++;
      if (flag == "--steps") chosen.steps = static_cast<int>(number(flag, *at, 1'000'000));
      if (flag == "--memory") chosen.memory_bytes = number(flag, *at, std::size_t{1} << 40);
    } else if (at->starts_with("-")) {
      throw bad_flag("no flag '" + *at + "'; see --help");
    } else {
      chosen.text = contents(*at);
    }
  }
  return chosen;
}

void train(options const& chosen) {
  trainer model(chosen.memory_bytes);
  std::vector<unsigned char> tokens(N);
  std::vector<unsigned char> targets(N);
  std::size_t const starts = chosen.text.size() - T - 1;
  for (int step = 0; step < chosen.steps; ++step) {
    for (int b = 0; b < B; ++b) {
      std::size_t const from = static_cast<std::size_t>(step * B + b) * T % starts;
      std::memcpy(&tokens[b * T], &chosen.text[from], T);
      std::memcpy(&targets[b * T], &chosen.text[from + 1], T);
    }
    float const loss = model.pass(tokens.data(), targets.data());
    model.update(step + 1);
    std::printf("step %d loss %.6f %a\n", step, loss, loss);
  }
  std::printf("weights %016llx\n", static_cast<unsigned long long>(model.checksum()));
}

}  // namespace

int main(int count, char** arguments) try {
  options const chosen = read({arguments + 1, arguments + count});
  if (chosen.help) {
    std::printf(
        "usage: %s [--steps N] [--memory BYTES] [TEXT_FILE]\n\n"
        "Trains a GPT of %d blocks on a text, byte by byte.\n\n"
        "  --steps N        how many steps; 20 if not given\n"
        "  --memory BYTES   for activations, at most; 16777216 if not given\n",
        arguments[0], L);
    return 0;
  }
  train(chosen);
  return 0;
} catch (bad_flag const& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 2;
} catch (std::exception const& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
