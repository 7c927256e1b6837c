#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace ferry::testing {

/// Equal bit for bit, NaNs and signs of zeros included.
template <typename T>
::testing::AssertionResult same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " values and " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure() << "[" << i << "] is " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace ferry::testing
