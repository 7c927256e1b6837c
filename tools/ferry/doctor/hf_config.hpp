// Hugging Face's config.json: the shape of a model, as far as it matters for memory and time. Only known architectures;
// keys that say nothing about the shape are passed over. Values; any thread.
#pragma once

#include <filesystem>
#include <string_view>

#include "doctor/model.hpp"

namespace ferry::command {

/// Bounded in size and depth, whatever the text. What it does not say is left at 0 (see `completed`).
/// Throws: `format_error` that names the key and the fix.
[[nodiscard]] model parse_hf_config(std::string_view text);
/// The same from a file. Throws: `format_error` that names the file.
[[nodiscard]] model read_hf_config(std::filesystem::path const& file);

}  // namespace ferry::command
