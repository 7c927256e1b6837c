#include "doctor/oom_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace ferry::command {

namespace {

constexpr std::size_t most_message_bytes = 4096;  // from where a message begins
constexpr std::size_t most_line_bytes = 200;
constexpr std::size_t nowhere = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Bytes of a unit as messages write it; 0 if it is none. PyTorch and Ferry mean powers of two by all of them.
double unit_bytes(std::string_view word) {
  struct unit {
    std::string_view name;
    double bytes;
  };
  constexpr std::array units{unit{"bytes", 1},   unit{"byte", 1},     unit{"B", 1},       unit{"KiB", 0x1p10},
                             unit{"KB", 0x1p10}, unit{"MiB", 0x1p20}, unit{"MB", 0x1p20}, unit{"GiB", 0x1p30},
                             unit{"GB", 0x1p30}, unit{"TiB", 0x1p40}, unit{"TB", 0x1p40}, unit{"G", 0x1p30},
                             unit{"M", 0x1p20}};
  for (auto const& one : units) {
    if (one.name == word) return one.bytes;
  }
  return 0;
}

struct amount {
  std::size_t bytes = 0;
  std::size_t begin = 0;  // in the text
  std::size_t end = 0;
};

/// The amount that begins at `at`: digits, perhaps a fraction, a unit.
std::optional<amount> amount_at(std::string_view text, std::size_t at) {
  double value = 0;
  char const* const begin = text.data() + at;
  char const* const most = text.data() + std::min(text.size(), at + 40);
  auto const [stop, status] = std::from_chars(begin, most, value, std::chars_format::fixed);
  if (status != std::errc{} || !(value >= 0)) return std::nullopt;
  auto next = at + static_cast<std::size_t>(stop - begin);
  while (next < text.size() && is_space(text[next]) && next < at + 48) ++next;
  std::size_t end = next;
  while (end < text.size() && is_letter(text[end]) && end < next + 8) ++end;
  double const bytes = value * unit_bytes(text.substr(next, end - next));
  bool const zero_bytes = value == 0 && unit_bytes(text.substr(next, end - next)) > 0;
  if (!(bytes > 0 || zero_bytes) || bytes > 0x1p60) return std::nullopt;
  return amount{static_cast<std::size_t>(std::llround(bytes)), at, end};
}

/// The first amount after `words`, close behind them.
std::optional<std::size_t> after(std::string_view text, std::string_view words) {
  constexpr std::size_t close = 16;
  std::size_t const found = text.find(words);
  if (found == nowhere) return std::nullopt;
  std::size_t const from = found + words.size();
  for (std::size_t at = from; at < std::min(text.size(), from + close); ++at) {
    if (!is_digit(text[at])) continue;
    auto const here = amount_at(text, at);
    return here ? std::optional(here->bytes) : std::nullopt;
  }
  return std::nullopt;
}

/// The amount that ends right before `words`.
std::optional<std::size_t> before(std::string_view text, std::string_view words) {
  constexpr std::size_t longest = 40;
  std::size_t const found = text.find(words);
  if (found == nowhere) return std::nullopt;
  std::size_t const least = found > longest ? found - longest : 0;
  for (std::size_t at = least; at < found; ++at) {
    bool const begins = is_digit(text[at]) && (at == 0 || (!is_digit(text[at - 1]) && text[at - 1] != '.'));
    if (!begins) continue;
    auto const here = amount_at(text, at);
    if (!here || here->end > found) continue;
    bool const right_before = std::all_of(text.begin() + static_cast<std::ptrdiff_t>(here->end),
                                          text.begin() + static_cast<std::ptrdiff_t>(found), is_space);
    if (right_before) return here->bytes;
  }
  return std::nullopt;
}

template <typename Value, typename... More>
std::optional<Value> first_of(std::optional<Value> one, More... more) {
  if constexpr (sizeof...(more) == 0) {
    return one;
  } else {
    return one ? one : first_of<Value>(more...);
  }
}

/// "Process 123 has 4.00 GiB memory in use." of others; of this process the text says "this process has".
std::optional<std::size_t> other_processes(std::string_view text) {
  constexpr std::string_view opening = "Process ";
  constexpr int most_processes = 64;
  std::optional<std::size_t> sum;
  std::size_t at = 0;
  for (int i = 0; i < most_processes; ++i) {
    at = text.find(opening, at);
    if (at == nowhere) break;
    at += opening.size();
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end == at || text.substr(end, 5) != " has ") continue;
    if (auto const used = amount_at(text, end + 5)) sum = sum.value_or(0) + used->bytes;
  }
  return sum;
}

/// "... for 'qkv' ..."
std::string item_in(std::string_view text) {
  std::size_t const open = text.find(" for '");
  if (open == nowhere) return {};
  std::size_t const begin = open + 6;
  std::size_t const close = text.find('\'', begin);
  return close == nowhere || close - begin > 64 ? std::string() : std::string(text.substr(begin, close - begin));
}

oom_message read_torch(std::string_view text) {
  oom_message read{.source = oom_source::torch_device};
  read.requested = after(text, "Tried to allocate");
  // "has a total capacity of 23.65 GiB of which ..."; one release wrote "capacty". Before: "23.65 GiB total capacity;".
  read.capacity =
      first_of(after(text, "total capacity of"), after(text, "total capacty of"), before(text, "total capacity"));
  read.free = first_of(before(text, "is free"), before(text, "free;"));
  read.allocated = first_of(before(text, "is allocated by PyTorch"), before(text, "already allocated"));
  read.process = after(text, "this process has");
  read.others = other_processes(text);
  auto const gaps = before(text, "is reserved by PyTorch but unallocated");
  if (gaps && read.allocated) {
    read.reserved = *read.allocated + *gaps;
  } else {
    read.reserved = first_of(before(text, "reserved in total by PyTorch"), before(text, "cached"));
  }
  return read;
}

oom_message read_ferry_device(std::string_view text) {
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
  read.kept_everything = text.find("a step with --policy keep ") != nowhere;
  return read;
}

oom_message read_ferry_pinned(std::string_view text) {
  oom_message read{.source = oom_source::ferry_pinned};
  read.requested = first_of(before(text, "needed"), after(text, "FERRY_HOST_BUDGET asks for"));
  read.free = before(text, "free of");
  read.capacity = first_of(after(text, "free of"), after(text, "but the device can pin"));
  return read;
}

oom_message read_no_plan(std::string_view text) {
  oom_message read{.source = oom_source::ferry_no_plan};
  read.capacity = after(text, "fits a budget of");
  read.smallest = first_of(after(text, "the smallest that works is --budget"), after(text, "at least"));
  return read;
}

oom_message read_plain(std::string_view /*text*/) { return {.source = oom_source::torch_plain}; }

oom_message read_host(std::string_view text) {
  oom_message read{.source = oom_source::host};
  // "can't allocate memory: you tried to allocate 4294967296 bytes."
  read.requested = first_of(after(text, "you tried to allocate"), after(text, "memory of size:"),
                            after(text, "failed to alloc"), after(text, "Unable to allocate"));
  return read;
}

struct wording {
  std::string_view words;  // how a message begins
  oom_message (*read)(std::string_view);
};
/// Those that say more first: of two at the same place the first counts.
constexpr std::array wordings{
    wording{"CUDA out of memory. Tried to allocate", read_torch},
    wording{"CUDA out of memory Tried to allocate", read_torch},
    wording{"HIP out of memory. Tried to allocate", read_torch},
    wording{"Tried to allocate", read_torch},
    wording{"no plan for ", read_no_plan},
    wording{"out of pinned memory for", read_ferry_pinned},
    wording{"FERRY_HOST_BUDGET asks for", read_ferry_pinned},
    wording{"out of device memory", read_ferry_device},
    wording{"FERRY_BUDGET asks for", read_ferry_device},
    wording{"DefaultCPUAllocator", read_host},
    wording{"could not allocate pinned host memory", read_host},
    wording{"on host: CUDA_ERROR_OUT_OF_MEMORY", read_host},
    wording{"cudaHostAlloc", read_host},
    wording{"Unable to allocate", read_host},
    wording{"std::bad_alloc", read_host},
    wording{"CUDA error: out of memory", read_plain},
    wording{"CUDA out of memory", read_plain},
    wording{"CUDA_ERROR_OUT_OF_MEMORY", read_plain},
    wording{"cudaErrorMemoryAllocation", read_plain},
    wording{"CUBLAS_STATUS_ALLOC_FAILED", read_plain},
};

/// "Tried to allocate" inside of a longer wording is that one's.
std::size_t last_message(std::string_view text, wording const*& how) {
  std::size_t best = nowhere;
  std::size_t best_end = 0;
  for (auto const& one : wordings) {
    std::size_t const at = text.rfind(one.words);
    if (at == nowhere) continue;
    std::size_t const end = at + one.words.size();
    bool const inside = best != nowhere && at >= best && end <= best_end;
    if (best != nowhere && (at < best || inside)) continue;
    best = at;
    best_end = end;
    how = &one;
  }
  return best;
}

std::string_view line_of(std::string_view text, std::size_t at) {
  std::size_t const begin = text.rfind('\n', at);
  text.remove_prefix(begin == nowhere ? 0 : begin + 1);
  return text.substr(0, std::min(text.find('\n'), most_line_bytes));
}

}  // namespace

std::optional<oom_message> parse_oom(std::string_view text) {
  if (text.size() > most_oom_text_bytes) text.remove_prefix(text.size() - most_oom_text_bytes);
  wording const* how = nullptr;
  std::size_t const at = last_message(text, how);
  if (at == nowhere) return std::nullopt;
  // Some wordings name the amount before what they are known by.
  constexpr std::size_t run_up = 120;
  std::size_t const begin = how->read == read_host && at > run_up ? at - run_up : how->read == read_host ? 0 : at;
  oom_message read = how->read(text.substr(begin, most_message_bytes));
  read.line = line_of(text, at);
  return read;
}

}  // namespace ferry::command
