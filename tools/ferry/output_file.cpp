#include "output_file.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "nn/atomic_file.hpp"

namespace ferry::command {

bool is_standard_output(std::string const& path) noexcept { return path == "-"; }

void require_usable_output(std::string const& path) {
  if (!path.empty() && !is_standard_output(path)) nn::require_writable(path);
}

void write_output(std::string const& path, std::string_view text) {
  if (is_standard_output(path)) {
    std::fwrite(text.data(), 1, text.size(), stdout);  // whether it went well is asked at the program's end
    return;
  }
  nn::atomic_file file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

std::string text_of(nlohmann::ordered_json const& value) {
  return value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace ferry::command
