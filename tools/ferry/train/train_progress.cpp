#include "train_progress.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace ferry::command {

namespace {

constexpr std::size_t narrow = 110;  // columns, below which words are short

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// The most telling first: where there is little room, the last ones are left out.
std::vector<std::string> words_of(step_record const& record, train_plan const& plan, bool is_short) {
  std::uint64_t const steps = plan.flags.training.steps;
  auto const used = format_bytes(record.peak_device_bytes);
  auto const budget = format_bytes(plan.budget_bytes);
  std::vector<std::string> words;
  if (is_short) {
    words = {fmt::format("{}/{}", record.step, steps), fmt::format("loss {:.3f}", record.result.loss),
             fmt::format("{:.0f} tok/s", record.tokens_per_second), fmt::format("{}/{}", used, budget)};
  } else {
    words = {fmt::format("step {:>{}}/{}", record.step, std::to_string(steps).size(), steps),
             fmt::format("loss {:.4f}", record.result.loss), fmt::format("{:>6.0f} tokens/s", record.tokens_per_second),
             fmt::format("device {} of {}", used, budget)};
  }
  if (record.ferried_bytes > 0) words.push_back(fmt::format("ferried {}", format_bytes(record.ferried_bytes)));
  if (record.recomputed > 0) {
    words.push_back(fmt::format("rebuilt {} ({:.1f} GFLOP)", record.recomputed, record.recompute_flops * 1e-9));
  }
  if (record.waiting_us >= 100) words.push_back(fmt::format("waited {:.1f} ms", record.waiting_us / 1000));
  return words;
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
  if (record.step == first_step_ || last || record.step % lines_every_ == 0) {
    note(fmt::format("{}", fmt::join(words_of(record, plan_, false), "  ")));
  }
}

void train_progress::show_bar(step_record const& record) {
  std::size_t const columns = terminal_width();
  bool const is_short = columns < narrow;
  std::size_t const bar_width = is_short ? 6 : 16;
  std::size_t const filled = bar_width * record.step / plan_.flags.training.steps;
  std::string text = fmt::format("[{:<{}}]", std::string(filled, '='), bar_width);
  auto const done = static_cast<double>(record.step + 1 - first_step_);
  auto const all = static_cast<double>(plan_.flags.training.steps + 1 - first_step_);
  text += left_.words(done / all).substr(1);  // behind the bar there is no comma
  for (auto const& word : words_of(record, plan_, is_short)) {
    if (text.size() + 2 + word.size() >= columns) break;  // a line that wraps cannot be taken back
    text += "  " + word;
  }
  fmt::print("\r\033[K{}", text);
  std::fflush(stdout);
  bar_is_up_ = true;
}

void train_progress::note(std::string_view text) {
  if (bar_is_up_) fmt::print("\r\033[K");
  bar_is_up_ = false;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void train_progress::finish() noexcept {
  if (!bar_is_up_) return;
  std::fputc('\n', stdout);
  std::fflush(stdout);
  bar_is_up_ = false;
}

}  // namespace ferry::command
