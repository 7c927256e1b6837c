// What a JSON parser reads from when anybody may have written the file: it comes in portions, and neither the whole nor
// what the parser has to hold of it at once grows beyond a limit. Threads: values; any thread.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <streambuf>
#include <string>
#include <utility>

#include "plan/json_reader.hpp"
#include "plan/limits.hpp"

namespace ferry::planning {

class bounded_source final : public std::streambuf {
 public:
  /// `from` is lent. `fix` is what to do about a file of more than `most_bytes`. Reading throws: `misfit`.
  bounded_source(std::streambuf& from, std::size_t most_bytes, std::string fix)
      : from_(from), most_bytes_(most_bytes), fix_(std::move(fix)) {}

  /// The parser got somewhere: what it held of the text is done with.
  void progress() noexcept { done_bytes_ = read_bytes_; }
  [[nodiscard]] std::size_t read_bytes() const noexcept { return read_bytes_; }

 private:
  int_type underflow() override {
    if (read_bytes_ - done_bytes_ > limits::token_bytes) {
      throw misfit("", "has a text, a number or a gap of more than 1 MiB", "it is no file of Ferry's: write it again");
    }
    auto const count = from_.sgetn(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    if (count <= 0) return traits_type::eof();
    read_bytes_ += static_cast<std::size_t>(count);
    if (read_bytes_ > most_bytes_) {
      throw misfit("", fmt::format("is larger than {} MiB", most_bytes_ >> 20), fix_);
    }
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return traits_type::to_int_type(buffer_.front());
  }

  std::streambuf& from_;
  std::size_t most_bytes_;
  std::string fix_;
  std::array<char, std::size_t{1} << 16> buffer_{};
  std::size_t read_bytes_ = 0;
  std::size_t done_bytes_ = 0;
};

}  // namespace ferry::planning
