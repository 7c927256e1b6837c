// Memory and copies: bounded spaces, reuse, and bytes that come back as they went.
#include <algorithm>
#include <limits>
#include <random>

#include "contract/device_contract.hpp"

namespace ferry::testing {

TEST_P(DeviceContract, SaysWhatItHas) {
  EXPECT_FALSE(dev().capabilities().name.empty());
  EXPECT_GE(dev().capabilities().device_bytes, device_bytes);
  EXPECT_GE(dev().capabilities().pinned_bytes, pinned_bytes);
}

TEST_P(DeviceContract, RunsOutOfDeviceMemory) {
  std::size_t const limit = dev().capabilities().device_bytes;
  try {
    static_cast<void>(dev().allocate(memory_space::device, limit + 1));
    FAIL() << "more than the device has was handed out";
  } catch (out_of_device_memory const& full) {
    EXPECT_EQ(full.needed_bytes(), limit + 1);
    EXPECT_EQ(full.limit_bytes(), limit);
    EXPECT_THAT(full.what(), ::testing::HasSubstr("free"));
  }
}

TEST_P(DeviceContract, RunsOutOfPinnedMemory) {
  std::size_t const limit = dev().capabilities().pinned_bytes;
  memory const most(dev(), memory_space::pinned, limit / 2);
  try {
    static_cast<void>(dev().allocate(memory_space::pinned, limit));
    FAIL() << "more than the device has was handed out";
  } catch (out_of_pinned_memory const& full) {
    EXPECT_EQ(full.needed_bytes(), limit);
    EXPECT_EQ(full.limit_bytes(), limit);
  }
}

TEST_P(DeviceContract, RejectsSizesThatMakeNoSense) {
  for (auto const space : {memory_space::device, memory_space::pinned}) {
    EXPECT_THROW(static_cast<void>(dev().allocate(space, 0)), invalid_argument);
    EXPECT_THROW(static_cast<void>(dev().allocate(space, std::numeric_limits<std::size_t>::max())), out_of_memory);
  }
}

TEST_P(DeviceContract, FreedMemoryComesBack) {
  for (int round = 0; round < 3; ++round) {
    memory const all(dev(), memory_space::device, device_bytes);
    EXPECT_THROW(memory(dev(), memory_space::device, 1), out_of_device_memory);
  }
  memory const left(dev(), memory_space::device, device_bytes / 2);
  memory const right(dev(), memory_space::device, device_bytes / 2);
  EXPECT_NE(left.data(), right.data());
}

TEST_P(DeviceContract, AlignsMemoryForAnyKernel) {
  memory const odd(dev(), memory_space::device, 1);
  memory const next(dev(), memory_space::device, 3);
  memory const pinned(dev(), memory_space::pinned, 5);
  for (auto const* const each : {&odd, &next, &pinned}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each->data()) % 256, 0U);
  }
}

TEST_P(DeviceContract, FreeingWhatItNeverGaveIsSurvived) {
  int stray = 0;
  dev().deallocate(memory_space::device, &stray);
  dev().deallocate(memory_space::pinned, nullptr);
}

TEST_P(DeviceContract, BytesMakeTheRoundTrip) {
  if (!dev().capabilities().holds_bytes) GTEST_SKIP() << "this memory is addresses only";
  stream const out(dev(), stream_kind::copy, "out");
  stream const in(dev(), stream_kind::copy, "in");
  event const arrived(dev());
  std::mt19937 random(7);
  // Sizes around chunk borders and cache lines, and chunks that do not divide them.
  for (std::size_t const bytes : {std::size_t{1}, std::size_t{63}, std::size_t{4097}, (std::size_t{1} << 20) + 13}) {
    for (std::size_t const chunk : {std::size_t{64} << 10, std::size_t{300'001}}) {
      memory const there(dev(), memory_space::device, bytes);
      memory const source(dev(), memory_space::pinned, bytes);
      memory const result(dev(), memory_space::pinned, bytes);
      std::generate_n(source.as<unsigned char>(), bytes, [&random] { return static_cast<unsigned char>(random()); });
      std::fill_n(result.as<unsigned char>(), bytes, static_cast<unsigned char>(0));
      for (std::size_t at = 0; at < bytes; at += chunk) {
        dev().copy(in, "in", copy_direction::host_to_device, there.as<std::byte>() + at, source.as<std::byte>() + at,
                   std::min(chunk, bytes - at));
      }
      arrived.record(in);
      dev().wait(out, arrived);
      for (std::size_t at = 0; at < bytes; at += chunk) {
        dev().copy(out, "out", copy_direction::device_to_host, result.as<std::byte>() + at, there.as<std::byte>() + at,
                   std::min(chunk, bytes - at));
      }
      out.synchronize();
      EXPECT_TRUE(std::equal(source.as<std::byte>(), source.as<std::byte>() + bytes, result.as<std::byte>()))
          << bytes << " bytes in chunks of " << chunk;
    }
  }
}

TEST_P(DeviceContract, CopiesUnalignedRangesExactly) {
  if (!dev().capabilities().holds_bytes) GTEST_SKIP() << "this memory is addresses only";
  constexpr std::size_t bytes = (std::size_t{1} << 20) + 77;
  constexpr std::size_t from = 5;
  constexpr std::size_t to = 19;
  stream const one(dev(), stream_kind::copy, "one");
  memory const there(dev(), memory_space::device, bytes + 256);
  memory const source(dev(), memory_space::pinned, bytes + 256);
  memory const result(dev(), memory_space::pinned, bytes + 256);
  for (std::size_t i = 0; i < bytes; ++i)
    source.as<unsigned char>()[from + i] = static_cast<unsigned char>(i * 31 % 251);
  std::fill_n(result.as<unsigned char>(), bytes + 256, static_cast<unsigned char>(0xee));
  dev().copy(one, "in", copy_direction::host_to_device, there.as<std::byte>() + to, source.as<std::byte>() + from,
             bytes);
  dev().copy(one, "out", copy_direction::device_to_host, result.as<std::byte>() + from, there.as<std::byte>() + to,
             bytes);
  one.synchronize();
  auto const* const back = result.as<unsigned char>();
  EXPECT_TRUE(std::equal(back + from, back + from + bytes, source.as<unsigned char>() + from));
  EXPECT_EQ(back[from - 1], 0xee);
  EXPECT_EQ(back[from + bytes], 0xee);
}

TEST_P(DeviceContract, RejectsCopiesOfNullPointers) {
  stream const one(dev(), stream_kind::copy, "one");
  memory const there(dev(), memory_space::device, 64);
  auto const in = copy_direction::host_to_device;
  EXPECT_THROW(dev().copy(one, "in", in, there.data(), nullptr, 64), invalid_argument);
  EXPECT_THROW(dev().copy(one, "in", in, nullptr, there.data(), 64), invalid_argument);
  EXPECT_NO_THROW(dev().copy(one, "in", in, nullptr, nullptr, 0));
}

}  // namespace ferry::testing
