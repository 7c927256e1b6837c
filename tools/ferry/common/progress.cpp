#include "common/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
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

namespace {

std::size_t columns_of_terminal() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string words_of_time_left(double seconds, double share_done) {
  if (!(share_done > 0)) return {};
  constexpr double an_age = 1e9;
  auto const left = std::lround(std::clamp(seconds * (1 / share_done - 1), 0.0, an_age));
  auto const hours = left / 3600;
  auto const minutes = left / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02} left", hours, minutes, left % 60);
  return fmt::format("{}:{:02} left", minutes, left % 60);
}

std::string time_left::words(double share_done) const {
  std::chrono::duration<double> const passed = std::chrono::steady_clock::now() - since_;
  auto text = words_of_time_left(passed.count(), share_done);
  return text.empty() ? text : ", " + text;
}

std::string bar_of(std::size_t done, std::size_t total, double seconds, std::string_view what, std::size_t columns) {
  constexpr std::size_t width = 24;
  done = std::min(done, total);
  auto text = fmt::format("[{:<{}}]", std::string(total == 0 ? width : width * done / total, '='), width);
  auto const add = [&](std::string const& words) {
    if (text.size() + words.size() < columns) text += words;  // a line that wraps cannot be taken back
  };
  add(fmt::format(" step {} of {}", std::min(done + 1, total), total));
  if (done > 0) add(", " + words_of_time_left(seconds, static_cast<double>(done) / static_cast<double>(total)));
  if (!what.empty()) add(fmt::format(": {}", what));
  return text;
}

progress_bar::progress_bar(std::size_t total) : total_(total), since_(std::chrono::steady_clock::now()) {}

void progress_bar::show(std::string_view what) {
  std::chrono::duration<double> const passed = std::chrono::steady_clock::now() - since_;
  line_.show(bar_of(done_, total_, passed.count(), what, columns_of_terminal()));
}

}  // namespace ferry::command
