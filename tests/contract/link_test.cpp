// The link's speed, where a device lets it be set: at any moment, from any thread, and no byte goes wrong.
#include <algorithm>
#include <atomic>
#include <limits>

#include "contract/device_contract.hpp"

namespace ferry::testing {

TEST_P(DeviceContract, RefusesAnImpossibleLinkOrAnyAtAll) {
  auto const out = copy_direction::device_to_host;
  if (!dev().set_link_gbps(out, 1)) GTEST_SKIP() << "this link is what it is";
  EXPECT_THROW(dev().set_link_gbps(out, -1), invalid_argument);
  EXPECT_THROW(dev().set_link_gbps(out, std::numeric_limits<double>::quiet_NaN()), invalid_argument);
  EXPECT_THROW(dev().set_link_gbps(out, std::numeric_limits<double>::infinity()), invalid_argument);
  EXPECT_TRUE(dev().set_link_gbps(out, 0));
  EXPECT_TRUE(dev().set_link_gbps(copy_direction::host_to_device, 1e4));
}

TEST_P(DeviceContract, LinkSpeedMayChangeWhileCopiesRun) {
  if (is_for_one_thread()) GTEST_SKIP() << "this device is for one thread";
  if (!dev().set_link_gbps(copy_direction::host_to_device, 1)) GTEST_SKIP() << "this link is what it is";
  constexpr std::size_t bytes = 256 << 10, chunk = 8 << 10;
  stream const in(dev(), stream_kind::copy, "in");
  stream const out(dev(), stream_kind::copy, "out");
  event const arrived(dev());
  memory const there(dev(), memory_space::device, bytes);
  memory const source(dev(), memory_space::pinned, bytes);
  memory const result(dev(), memory_space::pinned, bytes);
  bool const real = dev().capabilities().holds_bytes;
  if (real) std::fill_n(source.as<unsigned char>(), bytes, static_cast<unsigned char>(7));
  if (real) std::fill_n(result.as<unsigned char>(), bytes, static_cast<unsigned char>(0));
  std::atomic<bool> over{false};
  std::thread other([&] {
    for (int i = 0; !over; ++i) {
      dev().set_link_gbps(copy_direction::host_to_device, i % 7);
      dev().set_link_gbps(copy_direction::device_to_host, i % 5);
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 4; ++round) {
    for (std::size_t at = 0; at < bytes; at += chunk) {
      dev().copy(in, "in", copy_direction::host_to_device, there.as<std::byte>() + at, source.as<std::byte>() + at,
                 chunk);
    }
    arrived.record(in);
    dev().wait(out, arrived);
    for (std::size_t at = 0; at < bytes; at += chunk) {
      dev().copy(out, "out", copy_direction::device_to_host, result.as<std::byte>() + at, there.as<std::byte>() + at,
                 chunk);
    }
    out.synchronize();
  }
  over = true;
  other.join();
  if (real) {
    EXPECT_EQ(std::count(result.as<unsigned char>(), result.as<unsigned char>() + bytes, 7),
              static_cast<std::ptrdiff_t>(bytes));
  }
}

}  // namespace ferry::testing
