// The log on top of spdlog. No other file includes spdlog.
#include "support/log.hpp"

// As headers: the little that is needed of it becomes a part of this file, and nothing has to be linked.
#define SPDLOG_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <utility>

namespace ferry::support {

namespace {

spdlog::level::level_enum spdlog_level(log_level level) noexcept {
  switch (level) {
    case log_level::off:
      return spdlog::level::off;
    case log_level::error:
      return spdlog::level::err;
    case log_level::warning:
      return spdlog::level::warn;
    case log_level::info:
      return spdlog::level::info;
    case log_level::debug:
      return spdlog::level::debug;
  }
  return spdlog::level::off;
}

}  // namespace

logger::logger(log_level level) : level_(level) {
  if (level == log_level::off) return;
  // Not registered with spdlog: the session owns its logger, and the trainer's own spdlog stays untouched.
  sink_ = std::make_unique<spdlog::logger>("ferry", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  sink_->set_pattern("ferry: %l: %v");
  sink_->set_level(spdlog_level(level));
  sink_->flush_on(spdlog::level::debug);
}

logger::logger(logger&& other) noexcept
    : level_(std::exchange(other.level_, log_level::off)), sink_(std::move(other.sink_)) {}

logger& logger::operator=(logger&& other) noexcept {
  std::swap(level_, other.level_);
  std::swap(sink_, other.sink_);
  return *this;
}

logger::~logger() = default;

void logger::write(log_level level, fmt::string_view text, fmt::format_args args) const noexcept {
  try {
    sink_->log(spdlog_level(level), spdlog::string_view_t(fmt::vformat(text, args)));
  } catch (...) {  // a message that cannot be written has nobody to report to
    return;
  }
}

}  // namespace ferry::support
