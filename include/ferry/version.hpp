/* Ferry's version: of these headers, as macros for C and C++, and of the library that a program runs with.
   CMakeLists.txt reads it here. */
#pragma once

#include "ferry/export.h"

#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 1
#define FERRY_VERSION_PATCH 0

#ifdef __cplusplus
namespace ferry {

/// The library's, "0.1.0"; another one than the headers' if a program was built with others. Lives as long as the
/// library.
FERRY_API char const* version() noexcept;

}  // namespace ferry
#endif
