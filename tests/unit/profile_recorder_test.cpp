// What a step looks like, written down as a profile; without a session.
#include "decide/profile_recorder.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "support/sim_of.hpp"

namespace ferry::decide {
namespace {

using namespace std::chrono_literals;

/// Kernels take 100 us.
class ProfileRecorder : public ::testing::Test {
 protected:
  ~ProfileRecorder() override {
    while (!store_.live().empty()) store_.release(store_.live().front());
  }
  void begin(bool wanted = true) {
    clock_.begin_step();
    recorder_.begin_step(wanted);
  }
  void enter(pass which, std::uint32_t segment, std::uint32_t micro_batch = 0) {
    item_key const place{micro_batch, segment, {}};
    clock_.entered(which, place, compute_, store_.events());
    recorder_.entered(which, place);
  }
  void kernel() {
    device_->launch(compute_, "kernel", {}, [] {});
  }
  store::entry& save(item_key const& key, std::size_t bytes) {
    auto& e = store_.admit(key);
    store_.make_resident(e, std::move(*store_.device_tier().allocate(bytes, key.name)),
                         store_.events().record(compute_));
    e.record.stats.bytes = bytes;
    recorder_.saved(e);
    return e;
  }
  std::optional<profile> end() {
    clock_.end_step(store_.events());
    compute_.synchronize();
    return recorder_.take("step");
  }

  std::unique_ptr<sim_device> device_ = testing::make_sim_of(std::size_t{1} << 20, 100us);
  stream compute_{*device_, stream_kind::compute, "compute"};
  store::tiered_store store_{*device_, {std::size_t{1} << 20, std::size_t{1} << 20, std::size_t{1} << 20}};
  step_clock clock_{*device_};
  profile_recorder recorder_{clock_};
};

TEST_F(ProfileRecorder, HasTimesItemsAndTheOrderOfNeeds) {
  begin();
  enter(pass::forward, 0);
  kernel();
  auto& x = save({0, 0, "x"}, 1000);
  enter(pass::forward, 1);
  kernel();
  kernel();
  auto& h = save({0, 1, "h"}, 2000);
  h.rebuild.possible = h.rebuild.was_possible = true;
  h.rebuild.how = std::make_unique<recipe>();
  h.rebuild.how->inputs = {{0, 0, "x"}};
  h.record.stats.recipe_us = 70;
  enter(pass::backward, 1);
  recorder_.restored(h);
  recorder_.restored(x);
  recorder_.restored(h);
  kernel();
  enter(pass::backward, 0);
  kernel();
  kernel();
  kernel();
  auto const step = end();
  ASSERT_TRUE(step);
  ASSERT_EQ(step->segments.size(), 2U);
  EXPECT_EQ(step->segments[0].forward_us, 100);
  EXPECT_EQ(step->segments[1].forward_us, 200);
  EXPECT_EQ(step->segments[1].backward_us, 100);
  EXPECT_EQ(step->segments[0].backward_us, 300);
  EXPECT_EQ(step->segments[0].items,
            (std::vector<profile_item>{{.name = "x", .bytes = 1000, .recipe_us = {}, .inputs = {}}}));
  EXPECT_EQ(step->segments[1].items,
            (std::vector<profile_item>{{.name = "h", .bytes = 2000, .recipe_us = 70, .inputs = {{0, "x"}}}}));
  EXPECT_EQ(step->need_order, (std::vector<item_name>{{1, "h"}, {0, "x"}})) << "each once";
}

TEST_F(ProfileRecorder, ScratchThatBecomesAnItemIsNone) {
  begin();
  enter(pass::forward, 0);
  recorder_.scratch(300);
  recorder_.scratch(1300);
  recorder_.scratch_saved(300);
  save({0, 0, "x"}, 1000);
  enter(pass::backward, 0);
  recorder_.scratch(200);
  recorder_.handed_out(200, 200, store_);
  auto const step = end();
  ASSERT_TRUE(step);
  EXPECT_EQ(step->segments.at(0).forward_scratch_bytes, 300U);
  EXPECT_EQ(step->segments.at(0).backward_scratch_bytes, 200U);
}

TEST_F(ProfileRecorder, ASegmentBehindAllItemsBelongsToTheLastOne) {
  begin();
  enter(pass::forward, 0);
  save({0, 0, "x"}, 1000);
  enter(pass::forward, 7);
  kernel();
  enter(pass::backward, 7);
  kernel();
  enter(pass::backward, 0);
  kernel();
  auto const step = end();
  ASSERT_TRUE(step);
  ASSERT_EQ(step->segments.size(), 1U);
  EXPECT_EQ(step->segments[0].forward_us, 100);
  EXPECT_EQ(step->segments[0].backward_us, 200);
}

TEST_F(ProfileRecorder, NothingOfInterleavedMicroBatches) {
  begin();
  enter(pass::forward, 0, 0);
  save({0, 0, "x"}, 1000);
  enter(pass::forward, 0, 1);
  save({1, 0, "x"}, 1000);
  enter(pass::backward, 0, 0);
  enter(pass::backward, 0, 1);
  EXPECT_FALSE(end());
}

TEST_F(ProfileRecorder, NothingWithoutBackwardOrOfAStepThatNobodyWanted) {
  begin();
  enter(pass::forward, 0);
  save({0, 0, "x"}, 1000);
  EXPECT_FALSE(end());
  begin(false);
  EXPECT_FALSE(recorder_.on());
  EXPECT_FALSE(recorder_.saw_work());
  recorder_.record_always(true);
  begin(false);
  EXPECT_TRUE(recorder_.on());
  enter(pass::forward, 0);
  EXPECT_TRUE(recorder_.saw_work());
  recorder_.abandon_step();
  EXPECT_FALSE(recorder_.saw_work());
}

}  // namespace
}  // namespace ferry::decide
