// How the message of a file error is put together.
#include "ferry/nn/file_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace ferry::nn {

namespace {

// Names of files and tensors come from outside: they must not break the line or talk to the terminal.
std::string one_line(std::string text) {
  auto const is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_if(text.begin(), text.end(), is_control, '?');
  return text;
}

}  // namespace

file_error::file_error(std::filesystem::path const& file, std::string_view problem, std::string_view fix)
    : error(one_line(fmt::format("'{}': {}; {}", file.string(), problem, fix))) {}

file_error::~file_error() = default;

}  // namespace ferry::nn
