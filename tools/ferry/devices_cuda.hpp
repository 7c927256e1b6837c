// What `ferry devices` says of CUDA, in words and for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ferry/cuda_device.hpp"

namespace ferry::command {

/// Lines, each with its end.
[[nodiscard]] std::string cuda_text(cuda_presence const& found);
[[nodiscard]] nlohmann::ordered_json cuda_json(cuda_presence const& found);

/// The device that FERRY_DEVICE=auto is here, as `FERRY_DEVICE` names it.
[[nodiscard]] std::string automatic_device(cuda_presence const& found);

}  // namespace ferry::command
