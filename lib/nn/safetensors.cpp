// Reading and writing of safetensors; the header is taken apart with every claim in it checked.
#include "ferry/nn/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "ferry/nn/file_error.hpp"
#include "nn/atomic_file.hpp"

namespace ferry::nn {

namespace {

using nlohmann::json;
using std::filesystem::path;

static_assert(std::endian::native == std::endian::little, "the format's numbers are copied as they are");

constexpr char const* metadata_name = "__metadata__";
constexpr std::size_t length_bytes = 8;
constexpr std::size_t most_header_bytes = 100'000'000;  // the format's limit

struct element_type {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array element_types{
    element_type{"F32", 4},  element_type{"F16", 2},     element_type{"BF16", 2},    element_type{"F64", 8},
    element_type{"I64", 8},  element_type{"I32", 4},     element_type{"I16", 2},     element_type{"I8", 1},
    element_type{"U64", 8},  element_type{"U32", 4},     element_type{"U16", 2},     element_type{"U8", 1},
    element_type{"BOOL", 1}, element_type{"F8_E4M3", 1}, element_type{"F8_E5M2", 1}, element_type{"F8_E8M0", 1},
    element_type{"C64", 8},
};

/// A tensor as the header has it.
struct claim {
  stored_tensor tensor;
  std::size_t begin;  // in the bytes behind the header
  std::size_t end;
};

[[noreturn]] void refuse(path const& file, std::string_view problem) {
  throw file_error(file, problem, "it is damaged or no safetensors file: download or save it again");
}

/// The names in messages: JSON's have any length.
std::string shown(std::string_view name) {
  constexpr std::size_t longest = 80;
  return fmt::format("'{}{}'", name.substr(0, longest), name.size() > longest ? "..." : "");
}

std::optional<std::size_t> product(std::span<std::size_t const> factors, std::size_t result) {
  for (std::size_t const factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) return std::nullopt;
  }
  return result;
}

std::string_view header_text(path const& file, std::span<std::byte const> bytes) {
  if (bytes.empty()) refuse(file, "is empty");
  if (bytes.size() < length_bytes) refuse(file, fmt::format("has only {} bytes", bytes.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), length_bytes);
  if (length > most_header_bytes) refuse(file, fmt::format("claims a header of {} bytes, more than any has", length));
  auto const rest = bytes.subspan(length_bytes);
  if (length > rest.size()) {
    refuse(file, fmt::format("claims a header of {} bytes, but only {} follow", length, rest.size()));
  }
  return {reinterpret_cast<char const*>(rest.data()), static_cast<std::size_t>(length)};
}

/// Refuses what the parser would let pass: names that are used twice (it keeps the last), and any depth.
class header_watch {
 public:
  explicit header_watch(path const& file) : file_(file) {}

  bool operator()(int depth, json::parse_event_t event, json const& value) {
    auto const level = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (level + 1 == names_.size()) refuse(file_, "its header is nested too deeply");
      names_[level + 1].clear();
    } else if (event == json::parse_event_t::key) {
      auto const& name = value.get_ref<std::string const&>();
      if (!names_[level].insert(name).second) refuse(file_, fmt::format("its header has {} twice", shown(name)));
    }
    return true;
  }

 private:
  path const& file_;
  std::array<std::set<std::string>, 4> names_;  // by depth: of the header, of a tensor in it, of a list in that
};

json parsed_header(path const& file, std::string_view text) {
  // The parser would skip blanks in front, and end at a zero byte as if the text did.
  if (!text.starts_with('{')) refuse(file, "its header is no JSON object");
  if (auto const zero = text.find('\0'); zero != text.npos) {
    refuse(file, fmt::format("its header is not JSON at byte {}", zero + 1));
  }
  try {
    return json::parse(text, header_watch(file));
  } catch (json::parse_error const& problem) {
    refuse(file, fmt::format("its header is not JSON at byte {}", problem.byte));
  } catch (json::exception const&) {  // a number beyond all types
    refuse(file, "its header has a number that is too large");
  }
}

json const& field(path const& file, std::string const& name, json const& entry, char const* key) {
  auto const found = entry.find(key);
  if (found == entry.end()) refuse(file, fmt::format("tensor {} has no '{}'", shown(name), key));
  return *found;
}

std::vector<std::size_t> counts(path const& file, std::string const& name, json const& entry, char const* key) {
  json const& list = field(file, name, entry, key);
  auto const is_count = [](json const& value) { return value.is_number_unsigned(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_count)) {
    refuse(file, fmt::format("the '{}' of tensor {} is no list of whole numbers", key, shown(name)));
  }
  return list.get<std::vector<std::size_t>>();
}

std::size_t element_bytes(path const& file, std::string const& name, std::string_view dtype) {
  auto const* const type = std::find_if(element_types.begin(), element_types.end(),
                                        [&](element_type const& candidate) { return candidate.name == dtype; });
  if (type == element_types.end()) {
    throw file_error(file, fmt::format("tensor {} has the unknown dtype {}", shown(name), shown(dtype)),
                     "save it with another, such as F32");
  }
  return type->bytes;
}

claim read_claim(path const& file, std::string const& name, json const& entry) {
  if (!entry.is_object()) refuse(file, fmt::format("the entry of tensor {} is no JSON object", shown(name)));
  json const& dtype = field(file, name, entry, "dtype");
  if (!dtype.is_string()) refuse(file, fmt::format("the 'dtype' of tensor {} is no text", shown(name)));
  claim read{{name, dtype.get<std::string>(), counts(file, name, entry, "shape"), {}}, 0, 0};

  auto const offsets = counts(file, name, entry, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    refuse(file, fmt::format("the 'data_offsets' of tensor {} are no begin and end", shown(name)));
  }
  std::tie(read.begin, read.end) = std::pair(offsets[0], offsets[1]);

  auto const needed = product(read.tensor.shape, element_bytes(file, name, read.tensor.dtype));
  if (!needed) refuse(file, fmt::format("the shape of tensor {} is too large", shown(name)));
  if (*needed != read.end - read.begin) {
    refuse(file, fmt::format("tensor {} needs {} bytes for its shape but has {}", shown(name), *needed,
                             read.end - read.begin));
  }
  return read;
}

std::map<std::string, std::string> read_metadata(path const& file, json const& texts) {
  auto const is_text = [](json const& value) { return value.is_string(); };
  if (!texts.is_object() || !std::all_of(texts.begin(), texts.end(), is_text)) {
    refuse(file, fmt::format("its '{}' is no JSON object of texts", metadata_name));
  }
  return texts.get<std::map<std::string, std::string>>();
}

/// Gives every tensor its bytes. Requires: `claims` in the order of their bytes.
std::vector<stored_tensor> lay_out(path const& file, std::vector<claim>&& claims, std::span<std::byte const> data) {
  std::vector<stored_tensor> tensors;
  std::size_t covered = 0;
  for (auto& [tensor, begin, end] : claims) {
    if (begin < covered) {
      refuse(file, fmt::format("tensors {} and {} overlap", shown(tensors.back().name), shown(tensor.name)));
    }
    if (begin > covered) refuse(file, fmt::format("there is a gap before tensor {}", shown(tensor.name)));
    if (end > data.size()) {
      refuse(file, fmt::format("is cut short: tensor {} ends at byte {} of the data, of which there are {}",
                               shown(tensor.name), end, data.size()));
    }
    tensor.bytes = data.subspan(begin, end - begin);
    covered = end;
    tensors.push_back(std::move(tensor));
  }
  if (covered != data.size()) {
    refuse(file, fmt::format("has {} bytes behind its last tensor", data.size() - covered));
  }
  return tensors;
}

/// 5 bits of exponent and 10 of fraction; each of these numbers is one of fp32, too.
float from_half(std::uint16_t bits) noexcept {
  std::uint32_t const sign = (bits & 0x8000U) << 16U;
  std::uint32_t const exponent = (bits >> 10U) & 31U;
  std::uint32_t const fraction = bits & 1023U;
  if (exponent == 0) {  // zero, and what is too small for an exponent
    float const size = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -size : size;
  }
  std::uint32_t const wide = exponent == 31 ? 255 : exponent + 112;  // infinite or no number; else by the other bias
  return std::bit_cast<float>(sign | (wide << 23U) | (fraction << 13U));
}

/// The upper half of fp32.
float from_bfloat(std::uint16_t bits) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

/// Requires: two bytes for each of `values`.
void widen(std::span<std::byte const> bytes, float (*one)(std::uint16_t) noexcept, std::span<float> values) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, &bytes[2 * i], sizeof bits);
    values[i] = one(bits);
  }
}

void require_valid(tensor_to_write const& tensor) {
  if (tensor.name == metadata_name) {
    throw invalid_argument(fmt::format("a tensor cannot be called '{}': rename it", metadata_name));
  }
  if (product(tensor.shape, 1) != tensor.data.size()) {
    throw invalid_argument(fmt::format("tensor {} has {} numbers, which is not what its shape has: pass all of them",
                                       shown(tensor.name), tensor.data.size()));
  }
}

std::string header_of(std::span<tensor_to_write const> tensors, std::map<std::string, std::string> metadata) {
  metadata.emplace("format", "pt");
  nlohmann::ordered_json header{{metadata_name, metadata}};
  std::set<std::string_view> names;
  std::size_t offset = 0;
  for (auto const& tensor : tensors) {
    require_valid(tensor);
    if (!names.insert(tensor.name).second) {
      throw invalid_argument(fmt::format("two tensors are called {}: rename one", shown(tensor.name)));
    }
    std::size_t const end = offset + tensor.data.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (json::exception const&) {
    throw invalid_argument("a tensor's name or a text of the metadata is not UTF-8: rename it");
  }
  // Blanks, so that the numbers start at a multiple of 8.
  text.resize((text.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');
  return text;
}

}  // namespace

safetensors_file::safetensors_file(path const& file) : path_(file), file_(file) {
  std::string_view const text = header_text(file, file_.bytes());
  std::vector<claim> claims;
  json const header = parsed_header(file, text);
  for (auto const& [name, entry] : header.items()) {
    if (name == metadata_name) {
      metadata_ = read_metadata(file, entry);
    } else {
      claims.push_back(read_claim(file, name, entry));
    }
  }
  std::sort(claims.begin(), claims.end(), [](claim const& a, claim const& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  tensors_ = lay_out(file, std::move(claims), file_.bytes().subspan(length_bytes + text.size()));
}

stored_tensor const* safetensors_file::find(std::string_view name) const noexcept {
  auto const found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](stored_tensor const& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

void safetensors_file::copy_floats(stored_tensor const& tensor, std::span<float> values) const {
  std::size_t const each = tensor.dtype == "F32" ? 4 : tensor.dtype == "F16" || tensor.dtype == "BF16" ? 2 : 0;
  if (each == 0) {
    throw file_error(path_,
                     fmt::format("tensor {} is of type {}, not F32, F16 or BF16", shown(tensor.name), tensor.dtype),
                     "save it as one of these");
  }
  if (tensor.bytes.size() != each * values.size()) {
    throw file_error(path_,
                     fmt::format("tensor {} has {} numbers where {} are needed", shown(tensor.name),
                                 tensor.bytes.size() / each, values.size()),
                     "use a file of a model with the same shape");
  }
  if (values.empty()) return;
  if (each == 4) {
    std::memcpy(values.data(), tensor.bytes.data(), values.size_bytes());
  } else {
    widen(tensor.bytes, tensor.dtype == "F16" ? from_half : from_bfloat, values);
  }
}

void write_safetensors(path const& file, std::span<tensor_to_write const> tensors,
                       std::map<std::string, std::string> const& metadata) {
  std::string const header = header_of(tensors, metadata);
  std::uint64_t const length = header.size();
  atomic_file saved(file);
  saved.write(std::as_bytes(std::span(&length, 1)));
  saved.write(std::as_bytes(std::span(header)));
  for (auto const& tensor : tensors) saved.write(std::as_bytes(tensor.data));
  saved.commit();
}

}  // namespace ferry::nn
