// Where results go: a file that is replaced only as a whole, or standard output for the name "-".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ferry::command {

[[nodiscard]] bool is_standard_output(std::string const& path) noexcept;

/// Before the work, not after it: nothing for an empty path. Throws: `nn::file_error`.
void require_usable_output(std::string const& path);

/// Throws: `nn::file_error`; the file that was there is still whole then.
void write_output(std::string const& path, std::string_view text);
/// The text of a file: numbers to the last bit, bytes that are not UTF-8 replaced, a line end.
[[nodiscard]] std::string text_of(nlohmann::ordered_json const& value);

class quiet_output {  // what is printed while it lasts goes nowhere: for a command whose results go to standard output
 public:
  explicit quiet_output(bool quiet);
  quiet_output(quiet_output const&) = delete;
  quiet_output& operator=(quiet_output const&) = delete;
  ~quiet_output() { end(); }

  void end() noexcept;

 private:
  int kept_ = -1;  ///< the real standard output; -1 if it is where it was
};

}  // namespace ferry::command
