// Out-of-memory messages: which amounts a text names, of the wordings of PyTorch (1.x to 2.x), JAX and XLA, TensorFlow,
// ggml (llama.cpp), NCCL, bitsandbytes, DeepSpeed, trainers in the style of llm.c and of Ferry's own. The text may be a
// whole log with messages anywhere in it. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ferry::command {

enum class oom_source : std::uint8_t {
  torch_device,   ///< PyTorch's allocator of device memory
  torch_plain,    ///< "CUDA error: out of memory" and the like, without amounts
  host,           ///< host memory, pinned or not
  ferry_device,   ///< Ferry: the budget, or the device
  ferry_pinned,   ///< Ferry: pinned memory
  ferry_no_plan,  ///< Ferry: no plan fits the budget
  xla,            ///< JAX and other programs of XLA
  tensorflow,     ///< TensorFlow's allocator of device memory
  ggml,           ///< llama.cpp and others that run on ggml
  nccl,           ///< NCCL's own buffers
  cuda_trainer,   ///< "[CUDA ERROR]", as llm.c and its like write it
  bitsandbytes,   ///< an 8-bit or paged optimizer
};

/// Amounts that the message does not name are not there.
struct oom_message {
  oom_source source{};
  std::string line{};  ///< where it begins, shortened between words
  std::optional<std::size_t> requested{};
  std::optional<std::size_t> capacity{};  ///< of the GPU; with Ferry the budget or the device
  std::optional<std::size_t> free{};
  std::optional<std::size_t> allocated{};    ///< by this program, in tensors
  std::optional<std::size_t> reserved{};     ///< by this program in all, allocated or not
  std::optional<std::size_t> process{};      ///< of this process, with what is not the allocator's
  std::optional<std::size_t> others{};       ///< of other processes, as far as they are named
  std::optional<std::size_t> in_use{};       ///< Ferry: by blocks and leases
  std::optional<std::size_t> kept{};         ///< Ferry: for backward
  std::optional<std::size_t> smallest{};     ///< Ferry: the smallest budget that works
  std::optional<std::size_t> program{};      ///< XLA: what the compiled program needs at once
  std::optional<std::size_t> temporaries{};  ///< XLA: of that, what is neither its arguments nor its results
  std::string item{};                        ///< whose memory it was, where the message says so
  bool kept_everything = false;              ///< Ferry: the policy was `keep`
  bool absurd = false;                       ///< PyTorch: "more than 1EB"

  std::size_t line_number = 0;  ///< of `line` in the text, from 1; 0 if the text was cut in front
  std::size_t number = 1;       ///< among all messages of the text
  std::size_t of_messages = 1;
};

inline constexpr std::size_t most_oom_text_bytes = std::size_t{16} << 20;

/// Of several messages the last that names an amount counts: what follows it without any is its echo. Nothing if no
/// message is found. Linear in the text; text beyond `most_oom_text_bytes` is not looked at from the front.
[[nodiscard]] std::optional<oom_message> parse_oom(std::string_view text);

}  // namespace ferry::command
