// The data to train on: a long row of tokens, from which batches of windows are drawn. The last tenth is for
// validation and never trained on. A batch depends on its number, not on the batches before it, so that training
// can go on from anywhere; and it is the same on every machine.
// The file is read once and not needed after. Threads: any may draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <variant>
#include <vector>

#include "ferry/export.h"

namespace ferry::nn {

enum class split { training, validation };

/// Bytes of a token in a file.
enum class token_width : std::size_t { u16 = 2, u32 = 4 };

/// Tokens, and batches of them by number.
class token_data {
 public:
  /// Any file: its tokens are its bytes, the vocabulary is 256.
  /// Throws: `file_error`, as all below, if the file cannot be read or is empty.
  [[nodiscard]] FERRY_API static token_data from_text(std::filesystem::path const& file);
  /// Little-endian numbers, each below `vocabulary`, which is from 1 to 2^31.
  [[nodiscard]] FERRY_API static token_data from_tokens(std::filesystem::path const& file, token_width width,
                                                        std::size_t vocabulary);
  /// The text in the library, as `from_text` would read it.
  [[nodiscard]] FERRY_API static token_data shipped();

  [[nodiscard]] std::size_t vocabulary() const noexcept { return vocabulary_; }
  /// Tokens in `part`.
  [[nodiscard]] FERRY_API std::size_t size(split part) const noexcept;

  /// Throws: `file_error` if a split is shorter than a window of `context` tokens and the one that follows.
  FERRY_API void require_context(std::size_t context) const;

  /// Batch number `batch_index` of `part`: `targets` are `tokens` moved on by one. Training draws at random by `seed`;
  /// validation spreads its windows evenly over its part, however many batches are taken, whatever the seed.
  /// Throws: as `require_context`.
  FERRY_API void fill_batch(split part, std::uint64_t seed, std::uint64_t batch_index, std::size_t batch,
                            std::size_t context, std::int32_t* tokens /* (B, T) */,
                            std::int32_t* targets /* (B, T) */) const;

 private:
  using any_tokens = std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<std::uint32_t>>;

  token_data(std::filesystem::path source, any_tokens tokens, std::size_t vocabulary);
  [[nodiscard]] std::size_t size() const noexcept;

  std::filesystem::path source_;  // for messages
  any_tokens tokens_;
  std::size_t vocabulary_;
};

}  // namespace ferry::nn
