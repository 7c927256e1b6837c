// The wordings of out-of-memory messages, and how each is read. Values; any thread.
#pragma once

#include <span>
#include <string_view>

#include "doctor/oom_text.hpp"

namespace ferry::command::oom {

/// A message in its text. Both are bounded, and neither reaches into another message.
struct place {
  std::string_view before;  ///< what stands in front of it
  std::string_view text;    ///< from its first word on
};

struct wording {
  std::string_view words;  ///< how a message begins
  oom_message (*read)(place const&);
  bool continues = false;                      ///< close behind another message it belongs to that one
  bool (*is_one)(std::string_view) = nullptr;  ///< asked of what follows, if these words alone are no message
};

/// No two of them begin at the same place with the same length.
[[nodiscard]] std::span<wording const> wordings() noexcept;

}  // namespace ferry::command::oom
