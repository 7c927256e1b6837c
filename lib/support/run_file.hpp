// A file that grows while a run goes on: what is written is there for others to read at once. A disk that fills up ends
// the file, not the run: that is reported once, and later texts are dropped. Threads: one at a time.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "support/log.hpp"

namespace ferry::support {

class run_file {
 public:
  /// Nothing is written anywhere if `path` is empty. Throws: `setting_error` that names `variable`.
  run_file(std::string_view variable, std::string const& path, logger const& log);

  [[nodiscard]] bool is_open() const noexcept { return file_ != nullptr; }
  void append(std::string_view text) noexcept;

 private:
  struct closer {
    void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
  };
  std::string_view variable_;
  std::string path_;
  logger const& log_;
  std::unique_ptr<std::FILE, closer> file_;
};

/// Text as a JSON string, with its quotes; bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace ferry::support
