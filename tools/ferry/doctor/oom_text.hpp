// Out-of-memory messages: which amounts a text names, of PyTorch's wordings (1.x to 2.x) and of Ferry's own. The text
// may be a whole log with a message somewhere in it; the last one counts. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ferry::command {

enum class oom_source : std::uint8_t {
  torch_device,   ///< PyTorch's CUDA allocator
  torch_plain,    ///< "CUDA error: out of memory" and the like, without amounts
  host,           ///< host memory, pinned or not
  ferry_device,   ///< Ferry: the budget, or the device
  ferry_pinned,   ///< Ferry: pinned memory
  ferry_no_plan,  ///< Ferry: no plan fits the budget
};

/// Amounts that the message does not name are not there.
struct oom_message {
  oom_source source{};
  std::string line{};  ///< where it begins, shortened
  std::optional<std::size_t> requested{};
  std::optional<std::size_t> capacity{};  ///< of the GPU; with Ferry the budget or the device
  std::optional<std::size_t> free{};
  std::optional<std::size_t> allocated{};  ///< by PyTorch, in tensors
  std::optional<std::size_t> reserved{};   ///< by PyTorch in all, allocated or not
  std::optional<std::size_t> process{};    ///< of this process, with what is not PyTorch's
  std::optional<std::size_t> others{};     ///< of other processes, as far as they are named
  std::optional<std::size_t> in_use{};     ///< Ferry: by blocks and leases
  std::optional<std::size_t> kept{};       ///< Ferry: for backward
  std::optional<std::size_t> smallest{};   ///< Ferry: the smallest budget that works
  std::string item{};                      ///< Ferry: whose memory it was
  bool kept_everything = false;            ///< Ferry: the policy was `keep`
};

inline constexpr std::size_t most_oom_text_bytes = std::size_t{16} << 20;

/// Nothing if no message is found. Linear in the text; text beyond `most_oom_text_bytes` is not looked at from the
/// front.
[[nodiscard]] std::optional<oom_message> parse_oom(std::string_view text);

}  // namespace ferry::command
