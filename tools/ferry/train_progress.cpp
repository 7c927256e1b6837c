#include "train_progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace ferry::command {

namespace {

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

train_progress::train_progress(train_plan const& plan, std::uint64_t first_step)
    : plan_(plan),
      first_step_(first_step),
      lines_every_(std::max<std::uint64_t>(1, plan.flags.training.steps / 20)),
      terminal_(isatty(STDOUT_FILENO) == 1) {}

void train_progress::show(step_record const& record) {
  if (terminal_) return show_bar(record);
  bool const last = record.step == plan_.flags.training.steps;
  if (record.step == first_step_ || last || record.step % lines_every_ == 0) note(line_of(record));
}

void train_progress::show_bar(step_record const& record) {
  constexpr std::size_t bar_width = 16;
  std::uint64_t const steps = plan_.flags.training.steps;
  std::size_t const filled = bar_width * record.step / std::max<std::uint64_t>(1, steps);
  std::string text = fmt::format("[{:<{}}] {}", std::string(filled, '='), bar_width, line_of(record));
  text.resize(std::min(text.size(), terminal_width() - 1));
  fmt::print("\r\033[K{}", text);
  std::fflush(stdout);
  bar_is_up_ = true;
}

std::string train_progress::line_of(step_record const& record) const {
  std::string text =
      fmt::format("step {:>{}}/{}  loss {:.4f}  {:>6.0f} tokens/s  device {} of {}", record.step,
                  std::to_string(plan_.flags.training.steps).size(), plan_.flags.training.steps, record.result.loss,
                  record.tokens_per_second, format_bytes(record.peak_device_bytes), format_bytes(plan_.budget_bytes));
  if (record.ferried_bytes > 0) text += fmt::format("  ferried {}", format_bytes(record.ferried_bytes));
  if (record.recomputed > 0) {
    text += fmt::format("  rebuilt {} ({:.1f} GFLOP)", record.recomputed, record.recompute_flops * 1e-9);
  }
  if (record.waiting_us >= 100) text += fmt::format("  waited {:.1f} ms", record.waiting_us / 1000);
  return text;
}

void train_progress::note(std::string_view text) {
  if (bar_is_up_) fmt::print("\r\033[K");
  bar_is_up_ = false;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void train_progress::finish() {
  if (bar_is_up_) fmt::print("\n");
  bar_is_up_ = false;
}

}  // namespace ferry::command
