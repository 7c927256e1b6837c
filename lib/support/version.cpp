// What the library says of itself; FERRY_LIBRARY_VERSION comes from the build.
#include "ferry/version.hpp"

namespace ferry {

char const* version() noexcept { return FERRY_LIBRARY_VERSION; }

}  // namespace ferry
