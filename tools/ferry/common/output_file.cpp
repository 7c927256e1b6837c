#include "common/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

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

quiet_output::quiet_output(bool quiet) {
  if (!quiet) return;
  std::fflush(stdout);
  int const nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  kept_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (kept_ >= 0) dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
}

void quiet_output::end() noexcept {
  if (kept_ < 0) return;
  std::fflush(stdout);
  dup2(kept_, STDOUT_FILENO);
  close(kept_);
  kept_ = -1;
}

std::string text_of(nlohmann::ordered_json const& value) {
  return value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace ferry::command
