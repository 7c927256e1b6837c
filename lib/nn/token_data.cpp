// How tokens are read and checked, and where the windows of a batch start.
#include "ferry/nn/token_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/nn/file_error.hpp"
#include "ferry/nn/mapped_file.hpp"
#include "nn/data/shipped_text.hpp"

namespace ferry::nn {

namespace {

static_assert(std::endian::native == std::endian::little, "tokens are copied as they are in the file");

constexpr std::size_t byte_vocabulary = 256;
constexpr std::size_t most_vocabulary = std::size_t{1} << 31;  // what batches can carry

template <typename Token>
std::vector<Token> copied(std::span<std::byte const> bytes) {
  std::vector<Token> tokens(bytes.size() / sizeof(Token));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

template <typename Token>
std::vector<Token> checked_tokens(std::filesystem::path const& file, std::span<std::byte const> bytes,
                                  std::size_t vocabulary) {
  auto tokens = copied<Token>(bytes);
  auto const bad = std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return token >= vocabulary; });
  if (bad != tokens.end()) {
    throw file_error(
        file,
        fmt::format("token number {} is {}, but the vocabulary is only {}", bad - tokens.begin(), *bad, vocabulary),
        fmt::format("raise --vocab to what the tokens were made with, at least {}, or check that they "
                    "have {} bits",
                    *std::max_element(tokens.begin(), tokens.end()) + std::uint64_t{1}, 8 * sizeof(Token)));
  }
  return tokens;
}

mapped_file open_data(std::filesystem::path const& file) {
  mapped_file opened(file);
  if (opened.bytes().empty()) throw file_error(file, "is empty", "give a file with something to train on");
  return opened;
}

/// The last step of splitmix64: every bit of the result depends on every bit of `value`.
std::uint64_t mixed(std::uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// `fraction` of 2^64, as the same share of `range`: below it.
std::size_t share_of(std::uint64_t fraction, std::size_t range) noexcept {
  __extension__ using wide = unsigned __int128;
  return static_cast<std::size_t>((static_cast<wide>(fraction) * range) >> 64);
}

/// Multiples of the golden ratio, whole parts dropped: any number of them in a row lies evenly in [0, 1).
std::uint64_t evenly_spread(std::uint64_t number) noexcept { return number * 0x9e3779b97f4a7c15; }

}  // namespace

token_data::token_data(std::filesystem::path source, any_tokens tokens, std::size_t vocabulary)
    : source_(std::move(source)), tokens_(std::move(tokens)), vocabulary_(vocabulary) {}

token_data token_data::from_text(std::filesystem::path const& file) {
  return {file, copied<std::uint8_t>(open_data(file).bytes()), byte_vocabulary};
}

token_data token_data::from_tokens(std::filesystem::path const& file, token_width width, std::size_t vocabulary) {
  if (vocabulary == 0 || vocabulary > most_vocabulary) {
    throw invalid_argument(fmt::format("a vocabulary of {}: use 1 to {}", vocabulary, most_vocabulary));
  }
  mapped_file const opened = open_data(file);
  auto const bytes = opened.bytes();
  auto const token_bytes = static_cast<std::size_t>(width);
  if (bytes.size() % token_bytes != 0) {
    throw file_error(file,
                     fmt::format("its {} bytes are no whole number of {}-bit tokens", bytes.size(), 8 * token_bytes),
                     "check the width of its tokens, or write it again");
  }
  if (width == token_width::u16) return {file, checked_tokens<std::uint16_t>(file, bytes, vocabulary), vocabulary};
  return {file, checked_tokens<std::uint32_t>(file, bytes, vocabulary), vocabulary};
}

token_data token_data::shipped() {
  return {"the shipped text", copied<std::uint8_t>(std::as_bytes(std::span(shipped_text()))), byte_vocabulary};
}

std::size_t token_data::size() const noexcept {
  return std::visit([](auto const& tokens) { return tokens.size(); }, tokens_);
}

std::size_t token_data::size(split part) const noexcept {
  std::size_t const validation = size() / 10;
  return part == split::validation ? validation : size() - validation;
}

void token_data::require_context(std::size_t context) const {
  // Never the longer one, so the only one to ask.
  std::size_t const validation = size(split::validation);
  if (context < validation) return;
  throw file_error(
      source_,
      fmt::format("has {} tokens, which leaves {} for validation: too few for a context of {}", size(), validation,
                  context),
      validation < 2 ? "use a longer file" : fmt::format("use --context {} or less, or a longer file", validation - 1));
}

void token_data::fill_batch(split part, std::uint64_t seed, std::uint64_t batch_index, std::size_t batch,
                            std::size_t context, std::int32_t* tokens, std::int32_t* targets) const {
  require_context(context);
  std::size_t const windows = size(part) - context;
  std::size_t const first = part == split::validation ? size(split::training) : 0;
  std::uint64_t const drawn = mixed(mixed(seed) ^ batch_index);
  std::visit(
      [&](auto const& all) {
        for (std::size_t row = 0; row < batch; ++row) {
          std::uint64_t const place =
              part == split::validation ? evenly_spread(batch_index * batch + row) : mixed(drawn ^ row);
          auto const* const window = all.data() + first + share_of(place, windows);
          std::copy_n(window, context, tokens + row * context);
          std::copy_n(window + 1, context, targets + row * context);
        }
      },
      tokens_);
}

}  // namespace ferry::nn
