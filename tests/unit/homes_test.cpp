// Memory of the trainer's that items come back to, without a session.
#include "store/homes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "ferry/error.hpp"
#include "ferry/host_device.hpp"
#include "support/gate.hpp"

namespace ferry::store {
namespace {

constexpr std::size_t page = 4096;

class Homes : public ::testing::Test {
 protected:
  Homes() {
    for (auto& one : arrays_) {
      one.resize(3 * page, std::byte{7});
    }
  }
  home& at(std::size_t i) {
    std::array const pieces{device_view{arrays_[i].data(), arrays_[i].size()}};
    return homes_.at(pieces);
  }
  /// The first whole page: zero once it has been given back.
  std::byte inside(std::size_t i) const { return arrays_[i][page + page / 2]; }

  std::unique_ptr<host_device> device_ = make_host_device({.device_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  stream compute_{*device_, stream_kind::compute, "compute"};
  event_pool events_{*device_};
  budget budget_{*device_, 6 * page};  // two of them
  homes homes_{*device_, budget_};
  std::array<std::vector<std::byte>, 4> arrays_;
};

TEST_F(Homes, CountWhileTheyAreTaken) {
  auto held = homes_.take(at(0));
  ASSERT_TRUE(held);
  EXPECT_EQ(budget_.used_bytes(), 3 * page);
  EXPECT_FALSE(homes_.take(at(0))) << "it is taken";
  auto other = homes_.take(at(1));
  ASSERT_TRUE(other);
  EXPECT_FALSE(homes_.take(at(2))) << "the budget is used up";
  held.reset();
  homes_.leave(at(0), {});
  EXPECT_TRUE(homes_.take(at(2)));
  EXPECT_EQ(inside(0), std::byte{0}) << "its pages have gone, to make room";
  EXPECT_EQ(inside(1), std::byte{7});
}

TEST_F(Homes, KeepTheirPagesAsLongAsThereIsRoom) {
  for (int i = 0; i < 5; ++i) {
    auto a = homes_.take(at(0));
    auto b = homes_.take(at(1));
    ASSERT_TRUE(a && b);
    a.reset();
    homes_.leave(at(0), {});
    b.reset();
    homes_.leave(at(1), {});
  }
  EXPECT_EQ(inside(0), std::byte{7});
  EXPECT_EQ(inside(1), std::byte{7});
}

TEST_F(Homes, NoMoreIsResidentThanWasEverHeldAtOnce) {
  for (std::size_t i = 0; i < 4; ++i) {  // one after the other
    auto held = homes_.take(at(i));
    ASSERT_TRUE(held);
    held.reset();
    homes_.leave(at(i), {});
  }
  EXPECT_EQ(inside(0), std::byte{0});
  EXPECT_EQ(inside(1), std::byte{0});
  EXPECT_EQ(inside(2), std::byte{0});
  EXPECT_EQ(inside(3), std::byte{7});
}

TEST_F(Homes, PagesStayWhileTheDeviceUsesThem) {
  testing::gate open;
  device_->launch(compute_, "use", {}, [&] { open.wait(); });
  std::array const uses{events_.record(compute_)};
  auto a = homes_.take(at(0));
  auto b = homes_.take(at(1));
  ASSERT_TRUE(a && b);
  a.reset();
  homes_.leave(at(0), uses);
  EXPECT_TRUE(homes_.any_leaving());
  EXPECT_FALSE(homes_.take(at(2))) << "there will be room, not yet";
  EXPECT_EQ(at(0).uses.size(), 1U) << "whoever takes it next is ordered after that";
  open.open();
  compute_.synchronize();
  EXPECT_FALSE(homes_.any_leaving());
  EXPECT_TRUE(homes_.take(at(2)));
}

TEST_F(Homes, MayConsistOfSeveralPieces) {
  std::array const pieces{device_view{arrays_[0].data(), 2 * page}, device_view{arrays_[1].data(), page}};
  home& scattered = homes_.at(pieces);
  EXPECT_EQ(scattered.bytes, 3 * page);
  EXPECT_EQ(&homes_.at(pieces), &scattered) << "it is known by where it begins";
  auto const held = homes_.take(scattered);
  ASSERT_TRUE(held);
  EXPECT_THROW((void)at(0), invalid_argument) << "other memory that begins there, while it is taken";
}

TEST_F(Homes, NothingIsNoHome) {
  EXPECT_THROW((void)homes_.at({}), invalid_argument);
  std::array const null{device_view{nullptr, 5}};
  EXPECT_THROW((void)homes_.at(null), invalid_argument);
  std::array const empty{device_view{arrays_[0].data(), 0}};
  EXPECT_THROW((void)homes_.at(empty), invalid_argument);
}

}  // namespace
}  // namespace ferry::store
