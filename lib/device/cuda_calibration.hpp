// How fast the link to a GPU is: measured once, and remembered in the user's cache folder.
#pragma once

#include <filesystem>
#include <optional>

#include "ferry/cuda_device.hpp"

namespace ferry::cuda {

/// In 1e9 bytes a second, each way alone; and what is left of that beside the other way.
struct measured_speed {
  double device_to_host = 0;
  double host_to_device = 0;
  double out_beside_back = 1;
  double back_beside_out = 1;
};

/// $XDG_CACHE_HOME/ferry, or ~/.cache/ferry; empty where there is neither.
[[nodiscard]] std::filesystem::path cache_folder();

/// What was measured of this GPU in this slot; nothing if that is not known or the file is of no use.
[[nodiscard]] std::optional<measured_speed> remembered_speed(cuda_description const& gpu,
                                                             std::filesystem::path const& folder = cache_folder());
/// False if it could not be written; that only means that it is measured again the next time.
bool remember_speed(cuda_description const& gpu, measured_speed const& speed,
                    std::filesystem::path const& folder = cache_folder());

/// Copies through the device for some milliseconds. Throws: what the device throws.
[[nodiscard]] measured_speed measure_speed(device& on);

}  // namespace ferry::cuda
