// What `ferry devices` says of GPUs, on machines that have none too.
#include "devices_cuda.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ferry::command {
namespace {

using ::testing::HasSubstr;

cuda_presence two_gpus() {
  constexpr std::size_t gib = std::size_t{1} << 30;
  return {.in_this_build = true,
          .runtime_version = 13010,
          .driver_version = 12040,
          .devices = {{.ordinal = 0,
                       .name = "NVIDIA A100",
                       .uuid = "an id",
                       .pci_bus_id = "0000:3B:00.0",
                       .architecture = 80,
                       .total_bytes = 80 * gib,
                       .free_bytes = 60 * gib,
                       .numa_node = 1,
                       .device_to_host_gbps = 24.96,
                       .host_to_device_gbps = 23,
                       .beside = {.back_beside_out = 0.5}},
                      {.ordinal = 1, .name = "NVIDIA H100", .pci_bus_id = "0000:AF:00.0", .architecture = 90}}};
}

TEST(DevicesCuda, NamesEachGpuAndWhatIsKnownOfIt) {
  auto const text = cuda_text(two_gpus());
  EXPECT_EQ(text, R"(cuda: NVIDIA GPUs
  CUDA runtime     13.1
  driver's CUDA    12.4
  cuda:0           NVIDIA A100, compute capability 8.0
    device memory  60.0 GiB free of 80.0 GiB
    PCI bus        0000:3B:00.0, NUMA node 1
    device to host 25 GB/s, as measured
    host to device 23 GB/s, as measured; 11.5 beside the other direction
  cuda:1           NVIDIA H100, compute capability 9.0
    device memory  0 B free of 0 B
    PCI bus        0000:AF:00.0, NUMA node unknown
    device to host not measured yet: the first run on it measures it
    host to device not measured yet: the first run on it measures it
)");
}

TEST(DevicesCuda, TellsMachinesTheSame) {
  auto const all = cuda_json(two_gpus());
  EXPECT_TRUE(all.at("available").get<bool>());
  EXPECT_FALSE(all.contains("why_not"));
  EXPECT_EQ(all.at("runtime_version"), "13.1");
  auto const& gpus = all.at("gpus");
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].at("name"), "cuda:0");
  EXPECT_EQ(gpus[0].at("compute_capability"), "8.0");
  EXPECT_EQ(gpus[0].at("numa_node"), 1);
  EXPECT_DOUBLE_EQ(gpus[0].at("host_to_device").at("gbps").get<double>(), 23);
  EXPECT_DOUBLE_EQ(gpus[0].at("host_to_device").at("share_beside").get<double>(), 0.5);
  EXPECT_TRUE(gpus[1].at("numa_node").is_null());
  EXPECT_TRUE(gpus[1].at("device_to_host").is_null());
}

TEST(DevicesCuda, SaysWhyThereIsNoGpu) {
  cuda_presence const none{.in_this_build = true, .why_not = "no CUDA driver; use FERRY_DEVICE=host"};
  EXPECT_THAT(cuda_text(none), HasSubstr("cuda: no CUDA driver; use FERRY_DEVICE=host\n"));
  EXPECT_THAT(cuda_text(none), HasSubstr("driver's CUDA    none"));
  EXPECT_EQ(cuda_json(none).at("why_not"), "no CUDA driver; use FERRY_DEVICE=host");
  EXPECT_FALSE(cuda_json(none).at("available").get<bool>());
}

TEST(DevicesCuda, SaysThatTheBuildHasNone) {
  cuda_presence const none{.why_not = "this build has no CUDA"};
  EXPECT_EQ(cuda_text(none), "cuda: not in this build; for NVIDIA GPUs build with -DFERRY_CUDA=ON\n");
  EXPECT_FALSE(cuda_json(none).at("in_this_build").get<bool>());
  EXPECT_FALSE(cuda_json(none).contains("gpus"));
}

TEST(DevicesCuda, AutoIsTheFirstGpuWhereThereIsOne) {
  EXPECT_EQ(automatic_device(two_gpus()), "cuda:0");
  EXPECT_EQ(automatic_device({.why_not = "this build has no CUDA"}), "host");
}

}  // namespace
}  // namespace ferry::command
