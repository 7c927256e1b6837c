#include "doctor/oom_wordings.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "doctor/oom_amounts.hpp"

namespace ferry::command::oom {

namespace {

constexpr std::size_t nowhere = std::string_view::npos;

bool has(std::string_view text, std::string_view words) { return text.find(words) != nowhere; }
std::string_view last_of(std::string_view text, std::size_t bytes) {
  return text.substr(text.size() - std::min(text.size(), bytes));
}

/// "Process 123 has 4.00 GiB memory in use." In a container a process has no name for itself: then the one whose bytes
/// hold what PyTorch has reserved is this one.
void read_processes(std::string_view text, oom_message& into) {
  constexpr std::string_view opening = "Process ";
  constexpr int most_processes = 64;
  std::optional<std::size_t> own;
  std::optional<std::size_t> sum;
  std::size_t at = 0;
  for (int i = 0; i < most_processes; ++i) {
    at = text.find(opening, at);
    if (at == nowhere) break;
    at += opening.size();
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end == at || text.substr(end, 5) != " has ") continue;
    auto const used = amount_at(text, end + 5);
    if (!used) continue;
    sum = sum.value_or(0) + used->bytes;
    bool const holds = !into.process && into.reserved && used->bytes >= *into.reserved;
    if (holds && (!own || used->bytes < *own)) own = used->bytes;
  }
  if (own) {
    into.process = own;
    *sum -= *own;
    if (*sum == 0) sum.reset();
  }
  into.others = sum;
}

oom_message read_torch(place const& at) {
  auto const text = at.text;
  oom_message read{.source = oom_source::torch_device};
  read.requested = after(text, "Tried to allocate");
  read.absurd = has(text, "Tried to allocate more than 1EB");
  // On Apple's GPUs "(MPS allocated: 16.98 GB, other allocations: 1.26 GB, max allowed: 18.13 GB)".
  // "has a total capacity of 23.65 GiB of which ..."; one release wrote "capacty". Before: "23.65 GiB total capacity;".
  read.capacity = first_of(after(text, "total capacity of"), after(text, "total capacty of"),
                           before(text, "total capacity"), after(text, "max allowed:"));
  read.free = first_of(before(text, "is free"), before(text, "free;"));
  read.allocated = first_of(before(text, "is allocated by PyTorch"), before(text, "already allocated"),
                            after(text, "MPS allocated:"));
  read.process = after(text, "this process has");
  auto const gaps = before(text, "is reserved by PyTorch but unallocated");
  if (gaps && read.allocated) {
    read.reserved = *read.allocated + *gaps;
  } else {
    read.reserved = first_of(before(text, "reserved in total by PyTorch"), before(text, "cached"));
  }
  read_processes(text, read);
  if (!read.others) read.others = after(text, "other allocations:");
  return read;
}

/// "... for 'qkv' (segment 3, ...". A quote inside a word is part of the name.
std::string item_in(std::string_view text) {
  constexpr std::size_t longest = 64;
  std::size_t const open = text.find(" for '");
  if (open == nowhere) return {};
  std::size_t const begin = open + 6;
  for (std::size_t close = text.find('\'', begin); close != nowhere && close - begin <= longest;
       close = text.find('\'', close + 1)) {
    bool const inside = close + 1 < text.size() && (is_letter(text[close + 1]) || is_digit(text[close + 1]));
    if (!inside) return std::string(text.substr(begin, close - begin));
  }
  return {};
}

oom_message read_ferry_device(place const& at) {
  auto const text = at.text;
  oom_message read{.source = oom_source::ferry_device};
  read.requested = first_of(after(text, "out of device memory:"), before(text, "needed"));
  read.capacity = first_of(after(text, "do not fit the budget of"), after(text, "does not fit the budget of"),
                           after(text, "free of"), after(text, "the device has"));
  read.free = before(text, "free of");
  read.in_use = before(text, "are in use by blocks and leases");
  read.kept = before(text, "are kept for backward");
  read.smallest =
      first_of(after(text, "FERRY_BUDGET="), after(text, "raise FERRY_BUDGET to at least"),
               after(text, "one segment needs at least"), after(text, "the smallest that works is --budget"));
  read.item = item_in(text);
  read.kept_everything = has(text, "a step with --policy keep ");
  return read;
}

oom_message read_ferry_pinned(place const& at) {
  oom_message read{.source = oom_source::ferry_pinned};
  read.requested = first_of(before(at.text, "needed"), after(at.text, "FERRY_HOST_BUDGET asks for"));
  read.free = before(at.text, "free of");
  read.capacity = first_of(after(at.text, "free of"), after(at.text, "but the device can pin"));
  return read;
}

oom_message read_no_plan(place const& at) {
  oom_message read{.source = oom_source::ferry_no_plan};
  read.capacity = after(at.text, "fits a budget of");
  read.smallest = first_of(after(at.text, "the smallest that works is --budget"), after(at.text, "at least"));
  return read;
}

/// Without amounts, but for those that DeepSpeed has printed before ("MA 12.3 GB  Max_MA 14.1 GB  CA 15.0 GB ..."). In
/// a call that pins memory it is the host's, as with DeepSpeed's offloading.
oom_message read_plain(place const& at) {
  constexpr std::size_t of_a_traceback = 1500;
  if (has(last_of(at.before, of_a_traceback), "pin_memory(")) return {.source = oom_source::host};
  oom_message read{.source = oom_source::torch_plain};
  std::size_t const usage = at.before.rfind("Max_MA");
  if (usage == nowhere) return read;
  constexpr std::size_t of_a_line = 60;
  auto const line = at.before.substr(usage - std::min(usage, of_a_line), 3 * of_a_line);
  read.allocated = after(line, "MA ");
  read.reserved = after(line, " CA ");
  return read;
}

oom_message read_host(place const& at) {
  oom_message read{.source = oom_source::host};
  // "can't allocate memory: you tried to allocate 4294967296 bytes."
  read.requested = first_of(after(at.text, "you tried to allocate"), after(at.text, "memory of size:"),
                            after(at.text, "Unable to allocate"), after(at.text, "host_malloc: failed to allocate"));
  constexpr std::size_t run_up = 120;  // some name the amount before what they are known by
  if (!read.requested) read.requested = after(last_of(at.before, run_up), "failed to alloc");
  return read;
}

/// JAX: "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.", then what the program needs.
/// On a TPU: "Used 21.95G of 15.48G hbm", "Attempting to reserve 3.95G ... There are 1.92G free".
oom_message read_xla(place const& at) {
  auto const text = at.text;
  oom_message read{.source = oom_source::xla};
  read.requested = first_of(after(text, "trying to allocate"), after(text, "Out of memory allocating"),
                            after(text, "Failed to allocate request for"), after(text, "Attempting to allocate"),
                            after(text, "Attempting to reserve"));
  read.free = after(text, "There are");
  read.program = first_of(after(text, "total allocation:"), after(text, "memory space hbm. Used"));
  read.temporaries = after(text, "preallocated temp allocation:");
  std::size_t const used = text.find("memory space hbm. Used");
  constexpr std::size_t of_a_sentence = 80;
  read.capacity = first_of(used == nowhere ? std::nullopt : after(text.substr(used, of_a_sentence), " of "),
                           after(text, "HBM capacity"));
  read.allocated = after(text, "Currently allocated:");
  return read;
}

/// What the allocator says at the end of its report: "Limit:  10619240448\nInUse:  ...".
void read_bfc_report(std::string_view text, oom_message& into) {
  into.capacity = bytes_after_last(text, "Limit:");
  into.allocated = bytes_after_last(text, "\nInUse:");
}

/// "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB (rounded to 2147483648)requested by op ..."
oom_message read_bfc(place const& at) {
  oom_message read{.source = oom_source::tensorflow};
  read.requested = after(at.text, "trying to allocate");
  read_bfc_report(at.text, read);
  return read;
}
/// "... with freed_by_count=0. The caller indicates that this is not a failure, but ..."
bool is_failure(std::string_view behind) {
  constexpr std::size_t of_a_sentence = 160;
  return !has(behind.substr(0, of_a_sentence), "this is not a failure");
}

std::size_t bytes_of_type(std::string_view text) {
  struct type {
    std::string_view name;
    std::size_t bytes;
  };
  constexpr std::array types{type{"float", 4},  type{"half", 2},  type{"bfloat16", 2},
                             type{"double", 8}, type{"int32", 4}, type{"int64", 8},
                             type{"uint8", 1},  type{"int8", 1},  type{"bool", 1}};
  std::size_t end = 0;
  while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
  for (auto const& one : types) {
    if (one.name == text.substr(0, end)) return one.bytes;
  }
  return 0;
}

/// "shape[16,112,112,147] and type float on ...": its bytes; nothing where that is no sensible number.
std::optional<std::size_t> bytes_of_shape(std::string_view text) {
  constexpr std::string_view opening = "shape[";
  constexpr std::size_t most = std::size_t{1} << 60;
  std::size_t at = text.find(opening);
  std::size_t const types = text.find("] and type ");
  if (at == nowhere || types == nowhere || types < at) return std::nullopt;
  std::size_t bytes = bytes_of_type(text.substr(types + 11));
  for (at += opening.size(); at < types; ++at) {
    std::size_t size = 0;
    auto const [stop, status] = std::from_chars(text.data() + at, text.data() + types, size);
    if (status != std::errc{} || size == 0 || bytes > most / size) return std::nullopt;
    bytes *= size;
    at = static_cast<std::size_t>(stop - text.data());
  }
  return bytes == 0 ? std::nullopt : std::optional(bytes);
}

/// "OOM when allocating tensor with shape[16,112] and type float on .../device:GPU:0 by allocator GPU_0_bfc"
oom_message read_tensor(place const& at) {
  constexpr std::size_t of_a_line = 400;
  auto const line = at.text.substr(0, of_a_line);
  bool const on_host = has(line, "by allocator cpu") || has(line, "by allocator mklcpu");
  oom_message read{.source = on_host ? oom_source::host : oom_source::tensorflow};
  read.requested = bytes_of_shape(line);
  std::size_t const open = line.find("shape[");
  std::size_t const close = line.find(']');
  if (open != nowhere && close != nowhere && open < close) read.item = line.substr(open, close + 1 - open);
  if (!on_host) read_bfc_report(at.before, read);
  return read;
}

/// "allocating 144817.04 MiB on device 0: cudaMalloc failed: out of memory", then "failed to allocate CUDA0 buffer of
/// size 151851674624".
oom_message read_ggml(place const& at) {
  constexpr std::size_t of_a_line = 100;
  oom_message read{.source = oom_source::ggml};
  auto const line = last_of(at.before, of_a_line);
  std::size_t const words = line.rfind("allocating ");
  if (words != nowhere) read.requested = after(line.substr(words), "allocating ");
  if (!read.requested) read.requested = bytes_after_last(at.text.substr(0, 4 * of_a_line), "of size ");
  return read;
}

/// "NCCL WARN Cuda failure 2 'out of memory'", then "NCCL WARN Failed to CUDA calloc 6291456 bytes".
oom_message read_nccl(place const& at) {
  oom_message read{.source = oom_source::nccl};
  read.requested = first_of(after(at.text, "Failed to CUDA calloc async"), after(at.text, "Failed to CUDA calloc"));
  return read;
}

/// "[CUDA ERROR] at file train_gpt2.cu:1234:\nout of memory"; before it llm.c says "allocating 18564 MiB for ...".
oom_message read_cuda_trainer(place const& at) {
  oom_message read{.source = oom_source::cuda_trainer};
  constexpr std::string_view behind = " MiB for ";
  constexpr std::size_t longest_number = 10;
  constexpr int most = 64;
  std::size_t from = 0;
  for (int i = 0; i < most; ++i) {
    std::size_t const found = at.before.find(behind, from);
    if (found == nowhere) break;
    auto const line = at.before.substr(found - std::min(found, longest_number), longest_number + behind.size());
    if (auto const bytes = before(line, " for ")) {
      if (read.requested) read.allocated = read.allocated.value_or(0) + *read.requested;
      read.requested = bytes;
      auto const words = at.before.substr(found + behind.size());
      read.item = words.substr(0, std::min<std::size_t>(words.find('\n'), 64));
    }
    from = found + behind.size();
  }
  return read;
}
bool is_out_of_memory(std::string_view behind) {
  constexpr std::size_t of_two_lines = 300;
  auto const words = behind.substr(0, of_two_lines);
  return has(words, "out of memory") || has(words, "cudaErrorMemoryAllocation");
}

oom_message read_bitsandbytes(place const& /*at*/) { return {.source = oom_source::bitsandbytes}; }

}  // namespace

std::span<wording const> wordings() noexcept {
  static constexpr std::array all{
      wording{"CUDA out of memory. Tried to allocate", read_torch},
      wording{"CUDA out of memory Tried to allocate", read_torch},
      wording{"HIP out of memory. Tried to allocate", read_torch},
      wording{"XPU out of memory. Tried to allocate", read_torch},
      wording{"MPS backend out of memory", read_torch},
      wording{"Tried to allocate", read_torch, true},
      wording{"no plan for ", read_no_plan},
      wording{"out of pinned memory for", read_ferry_pinned},
      wording{"FERRY_HOST_BUDGET asks for", read_ferry_pinned},
      wording{"out of device memory", read_ferry_device},
      wording{"FERRY_BUDGET asks for", read_ferry_device},
      wording{"DefaultCPUAllocator", read_host},
      wording{"could not allocate pinned host memory", read_host},
      wording{"on host: CUDA_ERROR_OUT_OF_MEMORY", read_host},
      wording{"ggml_cuda_host_malloc: failed to allocate", read_host},
      wording{"cudaHostAlloc", read_host},
      wording{"Unable to allocate", read_host},
      wording{"std::bad_alloc", read_host},
      wording{"Out of memory while trying to allocate", read_xla},
      wording{"Out of memory allocating", read_xla},
      wording{"Ran out of memory in memory space", read_xla},
      wording{"Failed to allocate request for", read_xla},
      wording{"Attempting to allocate", read_xla, false,
              [](std::string_view behind) { return has(behind.substr(0, 160), "That was not possible"); }},
      wording{"Attempting to reserve", read_xla, false,
              [](std::string_view behind) { return has(behind.substr(0, 160), "That was not possible"); }},
      wording{"_bfc) ran out of memory trying to allocate", read_bfc, false, is_failure},
      wording{"OOM when allocating tensor with shape", read_tensor},
      wording{"cudaMalloc failed: out of memory", read_ggml},
      wording{"failed to allocate CUDA", read_ggml, true},
      wording{"unable to allocate CUDA", read_ggml, true},
      wording{"ggml_vulkan: Device memory allocation of size", read_ggml},
      wording{"Cuda failure 'out of memory'", read_nccl},
      wording{"Cuda failure 2 'out of memory'", read_nccl},
      wording{"Failed to CUDA calloc", read_nccl, true},
      wording{"[CUDA ERROR] at file", read_cuda_trainer, false, is_out_of_memory},
      wording{"Error out of memory at line", read_bitsandbytes},
      wording{"CUDA error: out of memory", read_plain},
      wording{"CUDA out of memory", read_plain},
      wording{"CUDA_ERROR_OUT_OF_MEMORY", read_plain},
      wording{"cudaErrorMemoryAllocation", read_plain},
      wording{"CUBLAS_STATUS_ALLOC_FAILED", read_plain},
  };
  return all;
}

}  // namespace ferry::command::oom
