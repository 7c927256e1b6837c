#include "doctor/oom_advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ferry/config.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::size_t less(std::size_t from, std::size_t what) { return from > what ? from - what : 0; }

/// A tensor of the model that is as large as the request: allocators round up, to 2 MiB.
std::optional<std::string> known_tensor(model const& of, std::size_t bytes) {
  double const rows = static_cast<double>(of.batch) * of.context;
  auto const each = static_cast<double>(element_bytes(of.numbers));
  struct tensor {
    char const* what;
    double elements;
  };
  auto const like = [bytes](double exact) {
    double const off = static_cast<double>(bytes) - exact;
    return exact >= static_cast<double>(mib) && std::abs(off) <= std::max(2.0 * mib, 0.005 * exact);
  };
  for (auto const& [what, elements] :
       {tensor{"one layer's attention probabilities (batch x heads x context x context)", rows * of.heads * of.context},
        tensor{"all logits (batch x context x vocabulary)", rows * of.vocabulary},
        tensor{"one hidden layer (batch x context x hidden)", rows * of.hidden},
        tensor{"one block's input (batch x context x width)", rows * of.width}}) {
    if (like(elements * each)) return fmt::format("{} in {}", what, to_string(of.numbers));
    if (each < 4 && like(elements * 4)) return fmt::format("{} in fp32", what);
  }
  return std::nullopt;
}

void add_other_processes(oom_message const& message, std::vector<finding>& to) {
  std::size_t others = message.others.value_or(0);
  std::size_t const worth_saying = message.others ? 256 * mib : 1024 * mib;
  if (!message.others && message.capacity && message.free) {
    // Of a process of its own CUDA has a context: that much is nobody else's.
    constexpr std::size_t context = 1024 * mib;
    std::size_t const own = message.process.value_or(message.reserved.value_or(0) + context);
    others = less(*message.capacity, *message.free + own);
  }
  if (!message.capacity || others < worth_saying || share(others, *message.capacity) < 0.02) return;
  to.push_back({"other_process",
                fmt::format("{} of the GPU's {} are held by something else: another process, or one that did not end",
                            format_bytes(others), format_bytes(*message.capacity)),
                "see who it is with nvidia-smi, and end it or take another GPU (CUDA_VISIBLE_DEVICES)"});
}

void add_huge_tensor(oom_message const& message, std::optional<model> const& of, std::vector<finding>& to) {
  if (!message.requested || !message.capacity) return;
  auto const named = of ? known_tensor(*of, *message.requested) : std::nullopt;
  bool const beyond = *message.requested > *message.capacity;
  if (!beyond && share(*message.requested, *message.capacity) < 0.2 && !named) return;
  std::string const size =
      fmt::format("one tensor of {}, {:.0f}% of the GPU's memory", format_bytes(*message.requested),
                  100 * share(*message.requested, *message.capacity));
  to.push_back({beyond ? "larger_than_the_gpu" : "huge_tensor",
                fmt::format("{}{}: {}", size, beyond ? ", more than there is," : "",
                            named ? "as large as " + *named
                                  : "usually attention probabilities (batch x heads x context x context) or logits "
                                    "(batch x context x vocabulary)"),
                "flash attention for the former; logits in portions, or a fused loss, for the latter; else a smaller "
                "micro-batch"});
}

/// Reserved by PyTorch and in no tensor.
std::size_t gaps_of(oom_message const& message) {
  return message.allocated && message.reserved ? less(*message.reserved, *message.allocated) : 0;
}

constexpr char const* cure_of_gaps =
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; sizes that vary less; Ferry's arena takes its memory once and "
    "does not fragment so";

/// There was room for the request, but not in one piece.
bool lies_in_pieces(oom_message const& message) {
  if (!message.requested || gaps_of(message) == 0) return false;
  std::size_t const free = message.free.value_or(0);
  return free < *message.requested && free + gaps_of(message) > *message.requested;
}

void add_fragmentation(oom_message const& message, std::vector<finding>& to) {
  std::size_t const gaps = gaps_of(message);
  if (lies_in_pieces(message)) {
    std::string const free = message.free ? fmt::format("{} free and ", format_bytes(*message.free)) : "";
    return to.push_back({"fragmentation",
                         fmt::format("fragmentation: {}{} reserved by PyTorch but not in use are more than the {} that "
                                     "were asked for, only not in one piece",
                                     free, format_bytes(gaps), format_bytes(*message.requested)),
                         cure_of_gaps});
  }
  if (gaps < 256 * mib || share(gaps, *message.reserved) < 0.15) return;
  to.push_back({"fragmentation",
                fmt::format("fragmentation: {} are reserved by PyTorch and not in use", format_bytes(gaps)),
                cure_of_gaps});
}

void add_free_but_refused(oom_message const& message, std::vector<finding>& to) {
  if (!message.requested || !message.free || *message.free < *message.requested) return;
  to.push_back({"free_but_refused",
                fmt::format("{} are free and {} were refused: a limit for this process, another process that had the "
                            "memory at that moment, or a driver that cannot give it in one piece",
                            format_bytes(*message.free), format_bytes(*message.requested)),
                "look for set_per_process_memory_fraction and for other processes on this GPU"});
}

void add_full(oom_message const& message, std::vector<finding>& to) {
  if (!message.allocated || !message.capacity) return;
  if (share(*message.allocated, *message.capacity) < 0.6) return;
  to.push_back(
      {"activations",
       fmt::format(
           "the GPU is full of tensors in use: {} of {} are allocated{}. In training these are weights, "
           "gradients, the optimizer's state and, growing with batch and context, activations",
           format_bytes(*message.allocated), format_bytes(*message.capacity),
           message.requested ? fmt::format(", and {} more were asked for", format_bytes(*message.requested)) : ""),
       "a policy for activations, a smaller micro-batch with gradient accumulation, or less state (ZeRO, an "
       "8-bit optimizer): the model's shape tells which"});
}

void add_torch(oom_message const& message, std::optional<model> const& of, std::vector<finding>& to) {
  if (message.absurd) {
    to.push_back({"impossible_size",
                  "more than 1 EB was asked for: a size that was computed wrongly, or data that another failure left "
                  "behind; no GPU has that",
                  "look at the shapes at that line, and for an earlier failure of a collective operation in the log"});
    return;
  }
  bool const in_pieces = lies_in_pieces(message);
  if (in_pieces) add_fragmentation(message, to);
  add_huge_tensor(message, of, to);
  add_other_processes(message, to);
  if (!in_pieces) add_fragmentation(message, to);
  add_free_but_refused(message, to);
  add_full(message, to);
  if (!to.empty()) return;
  to.push_back({"unclear",
                "the message's amounts point at nothing in particular: tensors in use and the request together "
                "do not fit",
                "see the whole picture with the model's shape, below"});
}

void add_ferry_device(oom_message const& message, std::vector<finding>& to) {
  std::string const budget = message.capacity ? fmt::format(" of {}", format_bytes(*message.capacity)) : "";
  std::string const raise = message.smallest
                                ? fmt::format("raise FERRY_BUDGET to {} or more", format_bytes(*message.smallest))
                                : "raise FERRY_BUDGET";
  std::string const cure =
      message.kept_everything ? "set FERRY_POLICY=auto, which moves or rebuilds what does not fit, or " + raise
      : message.smallest      ? raise + ", or use a smaller micro-batch"
                         : raise + ", let Ferry move or drop items (FERRY_POLICY=auto), or use a smaller micro-batch";
  if (message.requested && message.in_use && message.capacity &&
      *message.requested + *message.in_use > *message.capacity) {
    to.push_back(
        {"one_segment",
         fmt::format("one segment alone needs more than the budget{}: {} are in use at once and {} more were asked "
                     "for; no policy helps",
                     budget, format_bytes(*message.in_use), format_bytes(*message.requested)),
         cure});
  } else if (message.kept && message.capacity && share(*message.kept, *message.capacity) > 0.3) {
    to.push_back(
        {"activations",
         fmt::format("activations fill the budget{}: {} are kept for backward", budget, format_bytes(*message.kept)),
         cure});
  } else {
    to.push_back({"budget", fmt::format("the step does not fit the budget or the device{}", budget), cure});
  }
}

std::string words_of_request(oom_message const& message) {
  return message.requested ? fmt::format(" of {}", format_bytes(*message.requested)) : "";
}

void add_xla(oom_message const& message, std::vector<finding>& to) {
  std::string const room = message.capacity ? fmt::format(", and there are {}", format_bytes(*message.capacity)) : "";
  if (message.program) {
    std::string const temporaries = message.temporaries
                                        ? fmt::format(", of which {} are temporaries: activations and workspace",
                                                      format_bytes(*message.temporaries))
                                        : "";
    to.push_back(
        {"program",
         fmt::format("the compiled program needs {} at once{}{}", format_bytes(*message.program), temporaries, room),
         "jax.checkpoint (a policy of jax.checkpoint_policies keeps or offloads by name), a smaller "
         "micro-batch, donate_argnums so that results take the place of arguments"});
  } else {
    to.push_back({"program",
                  fmt::format("XLA found no room for a request{}{}{}", words_of_request(message),
                              message.free ? fmt::format(" with {} free", format_bytes(*message.free)) : "", room),
                  "jax.checkpoint, a smaller micro-batch, donate_argnums so that results take the place of arguments"});
  }
  to.push_back({"preallocation",
                "on a GPU, JAX takes three quarters of its memory at the start and no more after that; another program "
                "there has the rest",
                "XLA_PYTHON_CLIENT_MEM_FRACTION=.9, and nvidia-smi for other processes"});
}

void add_tensorflow(oom_message const& message, std::vector<finding>& to) {
  bool const known = message.capacity && message.allocated && message.requested;
  if (known && *message.allocated + *message.requested < *message.capacity) {
    to.push_back({"fragmentation",
                  fmt::format("fragmentation: {} of {} are in use, and {} more would fit, only not in one piece",
                              format_bytes(*message.allocated), format_bytes(*message.capacity),
                              format_bytes(*message.requested)),
                  "TF_GPU_ALLOCATOR=cuda_malloc_async; sizes that vary less"});
    return;
  }
  to.push_back({"activations",
                fmt::format("TensorFlow found no room for a request{}{}", words_of_request(message),
                            message.allocated ? fmt::format(": {} are in use", format_bytes(*message.allocated)) : ""),
                "a smaller micro-batch, tf.recompute_grad around blocks, mixed precision"});
}

void add_programs(oom_message const& message, std::vector<finding>& to) {
  auto const request = words_of_request(message);
  switch (message.source) {
    case oom_source::xla:
      return add_xla(message, to);
    case oom_source::tensorflow:
      return add_tensorflow(message, to);
    case oom_source::ggml:
      return to.push_back({"inference",
                           fmt::format("ggml found no room for a buffer{}: weights, the cache of keys and values, or "
                                       "what one batch computes with",
                                       request),
                           "fewer layers on the GPU (-ngl), a shorter context (-c) or a cache in q8_0, a smaller -ub; "
                           "no activations are kept for a backward there"});
    case oom_source::nccl:
      return to.push_back({"nccl",
                           fmt::format("NCCL found no room for its own buffers{}: they lie beside what the framework's "
                                       "allocator has taken",
                                       request),
                           "leave some room: a smaller micro-batch, "
                           "torch.cuda.set_per_process_memory_fraction(0.9); NCCL_BUFFSIZE and NCCL_MAX_NCHANNELS make "
                           "the buffers smaller"});
    case oom_source::cuda_trainer:
      return to.push_back({"activations",
                           fmt::format("the trainer's cudaMalloc found no room{}{}", request.empty() ? "" : " for one",
                                       request.empty() ? "" : request),
                           "llm.c: a smaller -b, or -r 1 or 2 to rebuild; such a trainer is what Ferry is made for "
                           "(docs/linking.md)"});
    default:
      return to.push_back({"optimizer_state",
                           "bitsandbytes found no room for an optimizer's state: on the GPU, or for a paged optimizer "
                           "in memory that both share",
                           "a smaller micro-batch leaves room for it; paged optimizers (paged_adamw_8bit) move it to "
                           "host memory, which has to hold it"});
  }
}

void add_others(oom_message const& message, std::vector<finding>& to) {
  std::string const amount = words_of_request(message);
  switch (message.source) {
    case oom_source::ferry_pinned:
      to.push_back(
          {"pinned_memory",
           fmt::format("it is the host's pinned memory that ran out, not the GPU's{}",
                       message.capacity ? fmt::format(": {} may be pinned", format_bytes(*message.capacity)) : ""),
           "lower FERRY_HOST_BUDGET, or raise FERRY_PINNED_BYTES and the limit on locked memory (ulimit -l)"});
      break;
    case oom_source::ferry_no_plan:
      to.push_back({"one_segment",
                    "no schedule exists with so little: a segment's backward needs its items, its input and "
                    "its gradients at once",
                    message.smallest ? fmt::format("give a budget of {} or more, or use a smaller micro-batch",
                                                   format_bytes(*message.smallest))
                                     : "raise the budget, or use a smaller micro-batch"});
      break;
    case oom_source::host:
      to.push_back(
          {"host_memory",
           fmt::format("it is the host's memory that ran out, pinned or not, not the GPU's: a request{}",
                       amount.empty() ? " without its size" : amount),
           "fewer loader workers, pin_memory off, less offloaded to the host (FERRY_HOST_BUDGET), or a machine "
           "with more"});
      break;
    default:
      to.push_back(
          {"no_amounts",
           "the GPU had no memory left, and this message does not say how much was asked for or held; of cuBLAS it "
           "is the workspace that did not fit",
           "see nvidia-smi for other processes; lower the batch a little to leave room, and look for a message "
           "with \"Tried to allocate\""});
  }
}

/// GPUs whose memory is what the message says; drivers report a little less than the data sheet.
std::vector<std::string> of_that_memory(planning::gpu_catalogue const& known, std::size_t capacity) {
  std::vector<std::string> names;
  for (auto const& one : known.all()) {
    double const ratio = share(capacity, one.device_bytes);
    if (ratio > 0.9 && ratio < 1.02) names.push_back(one.name);
  }
  return names;
}

}  // namespace

std::optional<calibration> calibrated(oom_message const& message, memory_report const& estimate) {
  bool const of_tensors = message.source == oom_source::torch_device || message.source == oom_source::torch_plain ||
                          message.source == oom_source::xla || message.source == oom_source::tensorflow ||
                          message.source == oom_source::cuda_trainer;
  if (!of_tensors || !message.allocated) return std::nullopt;
  calibration found;
  found.estimated = estimate.states.sum() + estimate.activations.sum();
  found.measured = *message.allocated + message.requested.value_or(0);
  if (found.estimated == 0) return std::nullopt;
  bool const same_gpu =
      message.capacity && std::abs(1 - share(*message.capacity, estimate.device_bytes)) < 0.1;  // drivers keep some
  if (same_gpu && message.process && *message.process >= *message.allocated)
    found.beside = *message.process - *message.allocated + message.others.value_or(0);
  return found;
}

diagnosis diagnose_oom(oom_message message, std::optional<model> const& of, bool gpu_given,
                       planning::gpu_catalogue const& known) {
  diagnosis made;
  switch (message.source) {
    case oom_source::torch_device:
      add_torch(message, of, made.findings);
      break;
    case oom_source::ferry_device:
      add_ferry_device(message, made.findings);
      break;
    case oom_source::xla:
    case oom_source::tensorflow:
    case oom_source::ggml:
    case oom_source::nccl:
    case oom_source::cuda_trainer:
    case oom_source::bitsandbytes:
      add_programs(message, made.findings);
      break;
    default:
      add_others(message, made.findings);
  }
  if (!of) {
    made.asks.emplace_back(
        "the model: its config.json, or --model gpt|llama with --layers --width --heads; and --context --batch");
  }
  if (!gpu_given) {
    bool const from_torch = message.source == oom_source::torch_device || message.source == oom_source::tensorflow;
    auto const like =
        from_torch && message.capacity ? of_that_memory(known, *message.capacity) : std::vector<std::string>{};
    made.asks.push_back(like.empty() ? "the GPU: --gpu NAME"
                                     : fmt::format("the GPU: --gpu NAME; with {} it may be {}",
                                                   format_bytes(*message.capacity), fmt::join(like, ", ")));
  }
  made.message = std::move(message);
  return made;
}

}  // namespace ferry::command
