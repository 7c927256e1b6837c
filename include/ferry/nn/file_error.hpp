// The one error of everything here that reads or writes files.
#pragma once

#include <filesystem>
#include <string_view>

#include "ferry/error.hpp"
#include "ferry/export.h"

namespace ferry::nn {

/// A file that cannot be read or written, or does not hold what it should.
class FERRY_API file_error : public error {
 public:
  /// The message is one line of the three; control characters in them are replaced.
  file_error(std::filesystem::path const& file, std::string_view problem, std::string_view fix);
  ~file_error() override;
};

}  // namespace ferry::nn
