#include "support/run_file.hpp"

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ferry/error.hpp"

namespace ferry::support {

namespace {

std::string words_of(int error_number) { return std::generic_category().message(error_number); }

}  // namespace

run_file::run_file(std::string_view variable, std::string const& path, logger const& log)
    : variable_(variable), path_(path), log_(log) {
  if (path.empty()) return;
  file_.reset(std::fopen(path.c_str(), "we"));
  if (file_ == nullptr) {
    throw setting_error(fmt::format("{}='{}': the file cannot be written: {}", variable, path, words_of(errno)));
  }
}

void run_file::append(std::string_view text) noexcept {
  if (file_ == nullptr) return;
  errno = 0;
  bool const written =
      std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0;
  if (written) return;
  int const why = errno;
  file_.reset();
  log_.error("{}='{}': {}; the file ends here, the run goes on", variable_, path_, words_of(why));
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ferry::support
