// The text to train on when no other is given; README.md here says which it is. Any thread may call this.
#pragma once

#include <string_view>

namespace ferry::nn {

/// Lives as long as the program.
[[nodiscard]] std::string_view shipped_text() noexcept;

}  // namespace ferry::nn
