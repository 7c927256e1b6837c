// Policies `sqrt` and `every=N` over items that nothing can rebuild: the session says once that it keeps them.
#include <optional>
#include <string>

#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

class UndroppableItems : public SessionTest {
 protected:
  void begin_with(char const* policy) {
    TearDown();
    start(policy_kind::keep, 16);
    config settings;
    settings.set("FERRY_POLICY", policy);
    settings.budget = byte_amount::exactly(16 * item_bytes);
    settings.host_budget = byte_amount::exactly(16 * item_bytes);
    session_.reset();
    session_.emplace(*device_, settings);
  }
  /// What a step has logged.
  std::string step(bool recipes, bool restores = true) {
    ::testing::internal::CaptureStderr();
    session_->begin_step();
    for (std::uint32_t s = 0; s < 6; ++s) {
      save_filled({0, s, "h"}, ones, recipes ? adding(ones, {}) : recipe());
      if (restores) restore_and_release({0, s, "h"}, ones);
    }
    session_->end_step();
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(UndroppableItems, AreNamedOnceAndInTheExplanation) {
  for (char const* const policy : {"every=2", "sqrt"}) {
    begin_with(policy);
    EXPECT_EQ(step(false, false), "") << "an evaluation";
    auto const said = step(false);
    bool const every = std::string(policy) == "every=2";
    auto const words = std::string("FERRY_POLICY=") + policy + " keeps more than it says: " + (every ? "3" : "4") +
                       " of a step's items that it would drop have no recipe, the first of them h (segment 1, "
                       "micro-batch 0)";
    EXPECT_NE(said.find("warning: " + words), std::string::npos) << said;
    EXPECT_EQ(step(false), "") << "once";
    auto const explained = session_->explain();
    EXPECT_NE(explained.find(words), std::string::npos) << explained;
    EXPECT_TRUE(explained.ends_with("\n"));
    EXPECT_EQ(explained.find(words), explained.rfind(words));
  }
}

TEST_F(UndroppableItems, NothingIsSaidWhereAllHaveRecipesOrThePolicyDropsNone) {
  begin_with("every=2");
  EXPECT_EQ(step(true), "");
  EXPECT_EQ(session_->explain().find("keeps more"), std::string::npos);
  begin_with("offload");
  EXPECT_EQ(step(false), "");
  EXPECT_EQ(session_->explain().find("keeps more"), std::string::npos);
}

}  // namespace
}  // namespace ferry::testing
