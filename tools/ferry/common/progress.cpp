#include "common/progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace ferry::command {

progress::progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

progress::~progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void progress::show(std::string_view what) {
  if (!terminal_) return;
  std::string const line = "\r\033[K" + std::string(what);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

void progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace ferry::command
