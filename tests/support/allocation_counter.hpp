// Counts heap allocations of the thread that asks. The program links allocation_counter.cpp, which replaces the
// global operator new.
#pragma once

#include <cstdint>

namespace ferry::testing {

/// Of the calling thread, so far. May be set.
std::uint64_t& allocations() noexcept;

}  // namespace ferry::testing
