// Runs a program with a mistake in it and the same program put right.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "world.hpp"

namespace cuda_test {

using program = std::function<void(world&, bool right)>;

inline std::vector<std::string> violations_of(program const& tested, bool right, cudasim::options const& with) {
  world w(with);
  tested(w, right);
  w.finish();
  return cudasim::violations();
}

/// As it should be, the program is silent; with its mistake, `text` is part of what is reported. Unless it is for
/// stepped mode alone, streams are threads at first, and then the same is reported where they are not.
inline void expect_reported(std::string const& text, program const& tested, cudasim::options with = {}) {
  EXPECT_THAT(violations_of(tested, true, with), ::testing::IsEmpty());
  auto const reported = violations_of(tested, false, with);
  EXPECT_THAT(reported, ::testing::Contains(::testing::HasSubstr(text)));
  if (with.stepped) return;
  with.stepped = true;
  EXPECT_THAT(violations_of(tested, true, with), ::testing::IsEmpty());
  EXPECT_EQ(violations_of(tested, false, with), reported);
}

}  // namespace cuda_test
