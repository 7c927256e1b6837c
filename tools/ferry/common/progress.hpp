// What long work is at: one line on standard error that is written over, on a terminal only.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ferry::command {

class progress {  // takes its line back when it ends
 public:
  progress();
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress();

  void show(std::string_view what);
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
};

/// "1:30 left" after so many seconds with such a share done; empty if nothing is done yet.
[[nodiscard]] std::string words_of_time_left(double seconds, double share_done);

class time_left {  // of work that goes on as quickly as since this was made
 public:
  /// ", 1:30 left", or empty.
  [[nodiscard]] std::string words(double share_done) const;

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

/// "[=====     ] step 37 of 196, 0:31 left: auto", for at most so many columns: what has no room is left out.
[[nodiscard]] std::string bar_of(std::size_t done, std::size_t total, double seconds, std::string_view what,
                                 std::size_t columns);

class progress_bar {  // of steps that take about the same time
 public:
  explicit progress_bar(std::size_t total);

  void show(std::string_view what);
  void advance() noexcept { ++done_; }
  void clear() { line_.clear(); }

 private:
  progress line_;
  std::size_t total_;
  std::size_t done_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace ferry::command
