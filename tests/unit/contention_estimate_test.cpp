// What traffic costs the computation, from segments that had some at one time and less at another.
#include "decide/contention_estimate.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ferry::decide {
namespace {

constexpr std::uint32_t segments = 12;

class ContentionEstimate : public ::testing::Test {
 protected:
  /// Of every segment with traffic beside it: its time alone, and what of that the link was at work.
  struct beside_each {
    double out = 0;
    double back = 0;
    double both = 0;
  };
  static double alone_us(std::uint32_t segment) { return 1000 + 100 * segment; }

  /// A step in which the first `busy` segments have traffic beside them. A share `left` of the speed is left beside it.
  void step(std::uint32_t busy, beside_each use, contention const& left, double machine = 1, double noise = 0) {
    std::normal_distribution<double> spread(1, noise > 0 ? noise : 1);
    for (auto const which : {pass::forward, pass::backward}) {
      for (std::uint32_t s = 0; s < segments; ++s) {
        contention_estimate::sample seen{.which = which, .segment = s, .us = machine * alone_us(s)};
        if (s < busy) {
          // So long beside it that a stretch takes as much longer as was lost.
          double const lost = (1 - left.compute_beside_out) * use.out + (1 - left.compute_beside_back) * use.back +
                              (1 - left.compute_beside_both) * use.both;
          seen.us /= 1 - lost;
          seen.beside = {use.out * seen.us, use.back * seen.us, use.both * seen.us};
        }
        if (noise > 0) seen.us *= spread(random_);
        estimate_.add(seen);
      }
    }
    estimate_.end_step();
  }

  contention_estimate estimate_;
  std::mt19937 random_{1};
};

TEST_F(ContentionEstimate, NothingIsBelievedAtFirst) {
  EXPECT_FALSE(estimate_.beside().any());
  for (int i = 0; i < 5; ++i) step(segments, {.out = 1}, {.compute_beside_out = 0.5});
  EXPECT_FALSE(estimate_.beside().any());  // was it always so?
}

TEST_F(ContentionEstimate, FindsWhatEachKindCosts) {
  contention const left{.compute_beside_out = 0.9, .compute_beside_back = 0.7, .compute_beside_both = 0.5};
  for (int i = 0; i < 2; ++i) step(0, {}, left);
  step(6, {.out = 0.8}, left);
  EXPECT_NEAR(estimate_.beside().compute_beside_out, 0.9, 1e-9);
  EXPECT_EQ(estimate_.beside().compute_beside_back, 1);
  EXPECT_NEAR(estimate_.beside().compute_beside_both, 0.9, 1e-9);  // nothing is known but that
  step(6, {.back = 0.8}, left);
  EXPECT_NEAR(estimate_.beside().compute_beside_back, 0.7, 1e-9);
  EXPECT_NEAR(estimate_.beside().compute_beside_both, 0.7, 1e-9);
  step(6, {.both = 0.8}, left);
  EXPECT_NEAR(estimate_.beside().compute_beside_both, 0.5, 1e-9);
  EXPECT_NEAR(estimate_.lost_us({.out_us = 10, .back_us = 100, .both_us = 1000}), 1 + 30 + 500, 1e-6);
}

TEST_F(ContentionEstimate, AColdStepIsNoMeasure) {
  contention const left{.compute_beside_out = 0.8};
  step(0, {}, left, 3);
  step(0, {}, left);
  step(6, {.out = 0.8}, left);
  EXPECT_NEAR(estimate_.beside().compute_beside_out, 0.8, 1e-9);
}

TEST_F(ContentionEstimate, TrafficThatCostsNothingIsLeftAtThat) {
  for (int i = 0; i < 2; ++i) step(0, {}, {}, 1, 0.05);
  for (int i = 0; i < 30; ++i) {
    step(6, {.out = 0.9}, {}, 1, 0.05);
    EXPECT_GE(estimate_.beside().compute_beside_out, 0.9) << i;
  }
}

TEST_F(ContentionEstimate, AMachineThatGetsSlowerIsNotBlamedOnTheLink) {
  for (int i = 0; i < 2; ++i) step(0, {}, {});
  for (int i = 0; i < 10; ++i) step(6, {.out = 0.9}, {}, 1.3);
  EXPECT_FALSE(estimate_.beside().any());
}

TEST_F(ContentionEstimate, IsFoundInNoise) {
  contention const left{.compute_beside_out = 0.7};
  for (int i = 0; i < 3; ++i) step(0, {}, left, 1, 0.05);
  for (int i = 0; i < 10; ++i) step(6, {.out = 0.9}, left, 1.1, 0.05);
  EXPECT_NEAR(estimate_.beside().compute_beside_out, 0.7, 0.1);
}

TEST_F(ContentionEstimate, StretchesOfWhichLittleWasComputationProveNothing) {
  contention const left{.compute_beside_out = 0.5};
  for (int i = 0; i < 2; ++i) step(0, {}, left);
  for (std::uint32_t s = 0; s < segments; ++s) {
    estimate_.add({.which = pass::forward,
                   .segment = s,
                   .us = 2 * alone_us(s),
                   .beside = {.out_us = alone_us(s)},
                   .certainty = 0.5});
  }
  estimate_.end_step();
  EXPECT_FALSE(estimate_.beside().any());
}

}  // namespace
}  // namespace ferry::decide
