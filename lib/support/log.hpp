// The log: one object per session, made from FERRY_LOG and passed to whoever reports. Writes lines such as
// "ferry: warning: ..." to standard error. This header is the only way to spdlog.
//
// Threads: any. A message below the level costs one comparison; its text is never built. Nothing throws,
// so that destructors may report.
#pragma once

#include <fmt/format.h>

#include <memory>

#include "ferry/config.hpp"

namespace spdlog {
class logger;
}

namespace ferry::support {

class logger {
 public:
  explicit logger(log_level level);
  logger(logger&&) noexcept;
  logger& operator=(logger&&) noexcept;
  ~logger();

  [[nodiscard]] bool enabled(log_level level) const noexcept { return level != log_level::off && level <= level_; }

  template <typename... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) const noexcept {
    if (enabled(log_level::error)) write(log_level::error, text, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void warning(fmt::format_string<Args...> text, Args&&... args) const noexcept {
    if (enabled(log_level::warning)) write(log_level::warning, text, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> text, Args&&... args) const noexcept {
    if (enabled(log_level::info)) write(log_level::info, text, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> text, Args&&... args) const noexcept {
    if (enabled(log_level::debug)) write(log_level::debug, text, fmt::make_format_args(args...));
  }

 private:
  void write(log_level level, fmt::string_view text, fmt::format_args args) const noexcept;

  log_level level_;
  std::unique_ptr<spdlog::logger> sink_;  // null when everything is off
};

}  // namespace ferry::support
