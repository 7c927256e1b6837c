// What the CUDA device does beyond the contract suite: where memory comes from, whose streams it runs on, and what it
// says when CUDA does not answer.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <vector>

#include "cuda/cuda_fixture.hpp"
#include "device/cuda_calibration.hpp"
#include "device/near_memory.hpp"
#include "path/transfer_engine.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::testing {
namespace {

using ::testing::HasSubstr;

class CudaDevice : public CudaTest {};

// Memory.

TEST_F(CudaDevice, TakesOneAllocationForEachRequest) {
  auto& dev = make();
  cudasim::reset_calls();
  {
    memory const there(dev, memory_space::device, 1 << 20);
    memory const here(dev, memory_space::pinned, 1 << 20);
    EXPECT_EQ(cudasim::live().device_bytes, 1U << 20);
    EXPECT_EQ(cudasim::live().pinned_bytes, 1U << 20);
  }
  EXPECT_EQ(cudasim::calls()["cudaMalloc"], 1U);
  EXPECT_EQ(cudasim::calls()["cudaHostAlloc"], 1U);
  EXPECT_EQ(cudasim::live().device_bytes + cudasim::live().pinned_bytes, 0U);
}

TEST_F(CudaDevice, WithoutALimitHasWhatIsFreeOnTheGpu) {
  cudasim::set_device_bytes(0, 3 << 20);
  device_ = make_cuda_device({.order = &cudasim::order()});
  EXPECT_LE(device_->capabilities().device_bytes, 3U << 20);
  EXPECT_GT(device_->capabilities().device_bytes, 2U << 20);
  EXPECT_GT(device_->capabilities().pinned_bytes, 1U << 20);
  EXPECT_EQ(device_->capabilities().name, "cuda:0");
  EXPECT_FALSE(device_->capabilities().host_addressable);
}

TEST_F(CudaDevice, SaysThatOthersUseTheGpusMemory) {
  auto& dev = make();
  cudasim::set_device_bytes(0, 1 << 20);
  auto const text = message_of<out_of_device_memory>([&] { memory(dev, memory_space::device, 2 << 20); });
  EXPECT_THAT(text, HasSubstr("cuda:0"));
  EXPECT_THAT(text, HasSubstr("others"));
  EXPECT_THAT(text, HasSubstr("FERRY_BUDGET"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a trainer's own check after a launch must not find it";
}

TEST_F(CudaDevice, SaysWhichMemoryCannotBePinned) {
  auto& dev = make();
  cudasim::fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  EXPECT_THAT(message_of<out_of_pinned_memory>([&] { memory(dev, memory_space::pinned, 4096); }),
              HasSubstr("FERRY_HOST_BUDGET"));
}

TEST_F(CudaDevice, TakesMemoryFromTheTrainersAllocator) {
  std::map<void*, std::size_t> handed_out;
  auto& dev = make({.allocate =
                        [&](std::size_t bytes) {
                          void* address = nullptr;
                          if (bytes <= 1 << 20) cudaMalloc(&address, bytes);
                          if (address != nullptr) handed_out[address] = bytes;
                          return address;
                        },
                    .deallocate =
                        [&](void* address) {
                          EXPECT_EQ(handed_out.erase(address), 1U);
                          cudaFree(address);
                        }});
  {
    memory const there(dev, memory_space::device, 4096);
    EXPECT_EQ(handed_out.at(there.data()), 4096U);
    EXPECT_THROW(memory(dev, memory_space::device, 2 << 20), out_of_device_memory);
  }
  EXPECT_TRUE(handed_out.empty());
}

TEST_F(CudaDevice, TakesMemoryFromAPool) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  {
    auto& dev = make({.pool = pool});
    cudasim::reset_calls();
    memory const there(dev, memory_space::device, 4096);
    EXPECT_EQ(cudasim::calls()["cudaMallocFromPoolAsync"], 1U);
    EXPECT_EQ(cudasim::calls()["cudaMalloc"], 0U);
    cudasim::fail("cudaMallocFromPoolAsync", 1, cudaErrorMemoryAllocation);
    EXPECT_THROW(memory(dev, memory_space::device, 4096), out_of_device_memory);
  }
  device_.reset();
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST_F(CudaDevice, RefusesHalfAnAllocatorAndTwoSources) {
  EXPECT_THROW(make({.allocate = [](std::size_t) -> void* { return nullptr; }}), invalid_argument);
  auto const allocate = [](std::size_t) -> void* { return nullptr; };
  auto const deallocate = [](void*) {};
  int any = 0;
  EXPECT_THROW(
      make({.allocate = allocate, .deallocate = deallocate, .pool = reinterpret_cast<CUmemPoolHandle_st*>(&any)}),
      invalid_argument);
}

TEST_F(CudaDevice, PinsMemoryThatIsHandedIn) {
  std::vector<std::byte> given(64 << 10);
  {
    auto& dev = make({.pinned = given});
    EXPECT_EQ(dev.capabilities().pinned_bytes, given.size());
    EXPECT_EQ(cudasim::live().registrations, 1U);
    memory const first(dev, memory_space::pinned, 16 << 10);
    memory const second(dev, memory_space::pinned, 16 << 10);
    EXPECT_GE(first.as<std::byte>(), given.data());
    EXPECT_LE(second.as<std::byte>() + second.bytes(), given.data() + given.size());
    EXPECT_NE(first.data(), second.data());
    EXPECT_THROW(memory(dev, memory_space::pinned, 60 << 10), out_of_pinned_memory);
  }
  device_.reset();
  EXPECT_EQ(cudasim::live().registrations, 0U);
  EXPECT_THROW(make({.pinned = std::span(given).first(100)}), invalid_argument);
}

TEST_F(CudaDevice, MemoryThatWasNotGivenBackGoesWithTheDevice) {
  auto& dev = make();
  static_cast<void>(dev.allocate(memory_space::device, 4096));
  static_cast<void>(dev.allocate(memory_space::pinned, 4096));
}

// Streams.

TEST_F(CudaDevice, CopyStreamsGoBeforeComputeStreams) {
  auto& dev = make();
  stream const compute(dev, stream_kind::compute, "compute");
  stream const copies(dev, stream_kind::copy, "copies");
  int low = 0;
  int high = 0;
  ASSERT_EQ(cudaStreamGetPriority(static_cast<cudaStream_t>(dev.native_handle(compute)), &low), cudaSuccess);
  ASSERT_EQ(cudaStreamGetPriority(static_cast<cudaStream_t>(dev.native_handle(copies)), &high), cudaSuccess);
  EXPECT_LT(high, low) << "smaller numbers go first";
}

TEST_F(CudaDevice, RunsOnAStreamOfTheTrainers) {
  auto& dev = make();
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), cudaSuccess);
  auto const lent = stream_ref::from_native(dev, own);
  EXPECT_EQ(dev.native_handle(lent), own);
  EXPECT_EQ(stream_ref::from_native(dev, own), lent) << "the same stream is known once";
  bool ran = false;
  dev.launch(lent, "work", {}, [&] { ran = true; });
  dev.synchronize(lent);
  EXPECT_TRUE(ran);
  dev.destroy_stream(lent);
  EXPECT_THROW(dev.synchronize(lent), invalid_argument);
  EXPECT_EQ(cudaStreamSynchronize(own), cudaSuccess) << "it is still the trainer's";
  dev.synchronize(stream_ref::from_native(dev, own));  // lent once more
  device_.reset();
  EXPECT_EQ(cudaStreamDestroy(own), cudaSuccess);
}

TEST_F(CudaDevice, RefusesDefaultStreams) {
  auto& dev = make();
  for (auto* const each : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
    EXPECT_THAT(message_of<invalid_argument>([&] { static_cast<void>(stream_ref::from_native(dev, each)); }),
                HasSubstr("cudaStreamNonBlocking"));
  }
}

TEST_F(CudaDevice, OtherDevicesHaveNoNativeStreams) {
  auto const host = make_host_device({.device_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  stream const compute(*host, stream_kind::compute, "compute");
  int any = 0;
  EXPECT_EQ(host->native_handle(compute), nullptr);
  EXPECT_THROW(static_cast<void>(stream_ref::from_native(*host, &any)), invalid_argument);
}

TEST_F(CudaDevice, EventsAreUsedAgain) {
  auto& dev = make();
  { event const first(dev); }
  { event const timed(dev, event_timing::on); }
  cudasim::reset_calls();
  for (int i = 0; i < 10; ++i) {
    event const plain(dev);
    event const timed(dev, event_timing::on);
  }
  EXPECT_EQ(cudasim::calls()["cudaEventCreateWithFlags"], 0U);
}

// Several GPUs.

TEST_F(CudaDevice, SeveralGpusWorkSideBySideAndLeaveTheCallersCurrent) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  auto& first = make();
  auto const second = make_cuda_device(
      {.ordinal = 1, .device_bytes = device_bytes, .pinned_bytes = pinned_bytes, .order = &cudasim::order()});
  for (auto* const dev : {static_cast<device*>(&first), static_cast<device*>(second.get())}) {
    stream const compute(*dev, stream_kind::compute, "compute");
    stream const copies(*dev, stream_kind::copy, "copies");
    event const copied(*dev);
    memory const there(*dev, memory_space::device, 4096);
    memory const here(*dev, memory_space::pinned, 4096);
    dev->copy(copies, "in", copy_direction::host_to_device, there.data(), here.data(), 4096);
    copied.record(copies);
    dev->wait(compute, copied);
    compute.synchronize();
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, 1);
  }
  EXPECT_EQ(second->capabilities().name, "cuda:1");
  EXPECT_EQ(second->ordinal(), 1);
}

TEST_F(CudaDevice, ASessionForEachGpu) {
  std::vector<std::unique_ptr<cuda_device>> gpus;
  for (int i = 0; i < 2; ++i) {
    gpus.push_back(make_cuda_device(
        {.ordinal = i, .device_bytes = device_bytes, .pinned_bytes = pinned_bytes, .order = &cudasim::order()}));
  }
  config settings;
  settings.budget = byte_amount::exactly(256 << 10);
  settings.host_budget = byte_amount::exactly(256 << 10);
  settings.policy.kind = policy_kind::offload;
  {
    session left(*gpus[0], settings);
    session right(*gpus[1], settings);
    stream const on_left(*gpus[0], stream_kind::compute, "left");
    stream const on_right(*gpus[1], stream_kind::compute, "right");
    for (auto* const on : {&left, &right}) on->begin_step();
    item_key const key{0, 0, "x"};
    left.save(key, left.allocate(64 << 10, on_left), on_left).end();
    right.save(key, right.allocate(64 << 10, on_right), on_right).end();
    EXPECT_THROW(static_cast<void>(left.restore(key, on_right)), invalid_argument);
    left.restore(key, on_left).end();
    right.restore(key, on_right).end();
    for (auto* const on : {&left, &right}) on->end_step();
  }
}

// What CUDA says.

TEST_F(CudaDevice, WithoutADriverSaysWhatToUse) {
  cudasim::remove_driver();
  EXPECT_EQ(message_of<no_cuda>([] { static_cast<void>(make_cuda_device()); }),
            "no CUDA driver; use FERRY_DEVICE=host");
  EXPECT_THAT(find_cuda().why_not, HasSubstr("no CUDA driver"));
  EXPECT_TRUE(find_cuda().in_this_build);
  config settings;
  EXPECT_EQ(make_device(settings)->capabilities().name, "host") << "auto takes what there is";
  settings.device = "cuda";
  EXPECT_THROW(static_cast<void>(make_device(settings)), no_cuda);
}

TEST_F(CudaDevice, WithoutAGpuSaysSo) {
  cudasim::remove_devices();
  EXPECT_THAT(message_of<no_cuda>([] { static_cast<void>(make_cuda_device()); }), HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST_F(CudaDevice, AnOldDriverIsNamed) {
  cudasim::fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  EXPECT_THAT(message_of<no_cuda>([] { static_cast<void>(make_cuda_device()); }), HasSubstr("too old"));
}

TEST_F(CudaDevice, AGpuThatIsNotThereIsNamed) {
  EXPECT_THAT(message_of<no_cuda>([] { static_cast<void>(make_cuda_device({.ordinal = 7})); }), HasSubstr("cuda:7"));
  EXPECT_THROW(static_cast<void>(make_cuda_device({.ordinal = -1})), no_cuda);
}

TEST_F(CudaDevice, AFailedCallIsNamedWithItsPlace) {
  auto& dev = make();
  stream const copies(dev, stream_kind::copy, "copies");
  memory const there(dev, memory_space::device, 4096);
  memory const here(dev, memory_space::pinned, 4096);
  cudasim::fail("cudaMemcpyAsync", 1, cudaErrorInvalidValue);
  auto const copy = [&] {
    dev.copy(copies, "in", copy_direction::host_to_device, there.data(), here.data(), here.bytes());
  };
  try {
    copy();
    FAIL();
  } catch (cuda_error const& failed) {
    EXPECT_EQ(failed.where().call, "cudaMemcpyAsync");
    EXPECT_EQ(failed.where().reason, "cudaErrorInvalidValue");
    EXPECT_EQ(failed.where().code, cudaErrorInvalidValue);
    EXPECT_THAT(failed.where().file, HasSubstr("cuda_stream.cpp"));
    EXPECT_GT(failed.where().line, 0);
    EXPECT_FALSE(failed.where().sticky);
    EXPECT_THAT(failed.what(), HasSubstr("cuda_stream.cpp:"));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  copy();  // the next one works
  copies.synchronize();
  EXPECT_EQ(device_->lost(), "");
}

TEST_F(CudaDevice, AnErrorThatStaysMakesTheDeviceLost) {
  auto& dev = make();
  stream const compute(dev, stream_kind::compute, "compute");
  event const mark(dev);
  mark.record(compute);
  cudasim::break_device(0, cudaErrorIllegalAddress);
  EXPECT_THAT(message_of<cuda_error>([&] { compute.synchronize(); }), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_THAT(device_->lost(), HasSubstr("cudaStreamSynchronize"));
  EXPECT_EQ(dev.query(mark), event_status::failed);
  EXPECT_THAT(message_of<cuda_error>([&] { mark.record(compute); }), HasSubstr("lost since"));
  EXPECT_THROW(memory(dev, memory_space::device, 4096), cuda_error);
  EXPECT_THROW(stream(dev, stream_kind::copy, "more"), cuda_error);
  EXPECT_THROW(event{dev}, cuda_error);
  EXPECT_THROW(mark.synchronize(), cuda_error);
}

TEST_F(CudaDevice, AQueryThatFailsMakesTheDeviceLost) {
  auto& dev = make();
  stream const compute(dev, stream_kind::compute, "compute");
  event const mark(dev);
  mark.record(compute);
  cudasim::fail("cudaEventQuery", 1, cudaErrorUnknown);
  EXPECT_EQ(dev.query(mark), event_status::failed) << "nobody knows what still runs";
  EXPECT_THAT(message_of<cuda_error>([&] { mark.record(compute); }), HasSubstr("cudaErrorUnknown"));
}

TEST_F(CudaDevice, EndsQuietlyAfterTheDriver) {
  auto& dev = make();
  auto const compute = dev.create_stream(stream_kind::compute, "compute");
  static_cast<void>(dev.create_event(event_timing::off));
  auto const adopted = dev.allocate(memory_space::device, 4096);
  cudasim::unload_driver();
  EXPECT_THAT(message_of<cuda_error>([&] { dev.synchronize(compute); }), HasSubstr("shutting down"));
  dev.deallocate(memory_space::device, adopted);
  device_.reset();
  cudasim::reset();  // what is left is the process's, which is ending
}

// What the machine tells.

TEST_F(CudaDevice, FindsTheMemoryThatIsNear) {
  temporary_folder const sysfs;
  auto const folder = sysfs.path() / "bus" / "pci" / "devices" / "0000:3b:00.0";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "numa_node") << "1\n";
  EXPECT_EQ(numa_node_of("0000:3B:00.0", sysfs.path().string()), 1);
  EXPECT_EQ(numa_node_of("0000:3c:00.0", sysfs.path().string()), -1);
  std::ofstream(folder / "numa_node") << "-1\n";
  EXPECT_EQ(numa_node_of("0000:3b:00.0", sysfs.path().string()), -1);
  std::ofstream(folder / "numa_node") << "what\n";
  EXPECT_EQ(numa_node_of("0000:3b:00.0", sysfs.path().string()), -1);
  near_memory const nowhere(-1);
  near_memory const absurd(std::numeric_limits<int>::max());
  near_memory const here(0);
  EXPECT_FALSE(std::vector<std::byte>(1 << 20).empty());
}

TEST_F(CudaDevice, DescribesTheGpus) {
  auto const found = find_cuda();
  EXPECT_EQ(found.why_not, "");
  ASSERT_EQ(found.devices.size(), 2U);
  EXPECT_FALSE(found.devices[0].name.empty());
  EXPECT_NE(found.devices[0].uuid, found.devices[1].uuid);
  EXPECT_EQ(found.devices[0].uuid.size(), 36U);
  EXPECT_FALSE(found.devices[0].pci_bus_id.empty());
  EXPECT_GE(found.devices[0].architecture, 80);
  EXPECT_GT(found.devices[0].total_bytes, 0U);
  EXPECT_GE(found.runtime_version, 12040);
}

// Calibration.

class CudaCalibration : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1);
  }
  void TearDown() override {
    CudaTest::TearDown();
    unsetenv("XDG_CACHE_HOME");
  }
  [[nodiscard]] static cuda_description gpu() { return find_cuda().devices.at(0); }
  [[nodiscard]] std::filesystem::path file() const {
    return cache_.path() / "ferry" / ("link-" + gpu().uuid + ".json");
  }

  temporary_folder cache_;
};

TEST_F(CudaCalibration, MeasuresTheLinkOnceAndRemembers) {
  cudasim::set_link(0, cudasim::direction::device_to_host, 2);
  cudasim::set_link(0, cudasim::direction::host_to_device, 1);
  auto const& first = make({.calibrate = true}).capabilities();
  EXPECT_GT(first.device_to_host_gbps, 0);
  EXPECT_GT(first.host_to_device_gbps, 0);
  EXPECT_DOUBLE_EQ(gpu().device_to_host_gbps, first.device_to_host_gbps);
  double const measured = first.host_to_device_gbps;
  cudasim::reset_calls();
  auto const& again = make({.calibrate = true}).capabilities();
  EXPECT_DOUBLE_EQ(again.host_to_device_gbps, measured);
  EXPECT_EQ(cudasim::calls()["cudaMemcpyAsync"], 0U);
}

TEST_F(CudaCalibration, SessionsBeginWithWhatWasMeasured) {
  ASSERT_TRUE(cuda::remember_speed(gpu(), {12, 11}));
  auto& dev = make();
  config settings;
  settings.budget = byte_amount::exactly(1 << 20);
  settings.host_budget = byte_amount::exactly(1 << 20);
  session const on(dev, settings);
  EXPECT_DOUBLE_EQ(on.stats().device_to_host.gbps, 12);
  EXPECT_DOUBLE_EQ(on.stats().host_to_device.gbps, 11);
}

TEST_F(CudaCalibration, WhatTheDirectionsCostEachOtherIsRememberedToo) {
  ASSERT_TRUE(cuda::remember_speed(gpu(), {24.8, 24.8, 0.97, 0.44}));
  EXPECT_EQ(gpu().beside, (contention{.out_beside_back = 0.97, .back_beside_out = 0.44}));
  auto& dev = make();
  EXPECT_EQ(dev.capabilities().beside, gpu().beside);
  path::transfer_engine const engine(dev, {});
  EXPECT_EQ(engine.counters(copy_direction::device_to_host).share_beside.load(), 0.97);
  EXPECT_EQ(engine.counters(copy_direction::host_to_device).share_beside.load(), 0.44);
}

TEST_F(CudaCalibration, MeasuresEachDirectionBesideTheOther) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  link_speed const fast{.gbps = 20};
  link_speed const slow{.gbps = 5};
  contention const disturbed{.out_beside_back = 0.9, .back_beside_out = 0.4};
  for (auto const& [out, back] : {std::pair(fast, fast), std::pair(slow, fast), std::pair(fast, slow)}) {
    for (auto const& beside : {disturbed, contention{}}) {
      auto const sim = make_sim_device({.device_bytes = 64 * mebibyte,
                                        .pinned_bytes = 64 * mebibyte,
                                        .device_to_host = out,
                                        .host_to_device = back,
                                        .beside = beside});
      auto const speed = cuda::measure_speed(*sim);
      EXPECT_NEAR(speed.device_to_host, out.gbps, 1e-4);
      EXPECT_NEAR(speed.host_to_device, back.gbps, 1e-4);
      EXPECT_NEAR(speed.out_beside_back, beside.out_beside_back, 1e-4);
      EXPECT_NEAR(speed.back_beside_out, beside.back_beside_out, 1e-4);
    }
  }
}

TEST_F(CudaCalibration, CopyEnginesThatDoNotDisturbEachOtherKeepTheirSpeed) {
  auto& dev = make();
  cudasim::use_virtual_time({.device_to_host_gbps = 10, .host_to_device_gbps = 5});
  auto const speed = cuda::measure_speed(dev);
  EXPECT_EQ(speed.out_beside_back, 1);
  EXPECT_EQ(speed.back_beside_out, 1);
}

TEST_F(CudaCalibration, AFileOfNoUseIsIgnored) {
  ASSERT_TRUE(cuda::remember_speed(gpu(), {12, 11}));
  EXPECT_TRUE(cuda::remembered_speed(gpu()));
  for (char const* const text : {"", "{", "[]", "{\"format\": 7}", "{\"format\": \"ferry-link-speed\", \"version\": 1}",
                                 R"({"format": "ferry-link-speed", "version": 2, "pci_bus_id": "elsewhere",
                                     "device_to_host_gbps": 1, "host_to_device_gbps": 1,
                                     "out_beside_back": 1, "back_beside_out": 1})",
                                 R"({"format": "ferry-link-speed", "version": 1, "pci_bus_id": "PCI",
                                     "device_to_host_gbps": 1, "host_to_device_gbps": 1})",
                                 R"({"format": "ferry-link-speed", "version": 2, "pci_bus_id": "PCI",
                                     "device_to_host_gbps": 1, "host_to_device_gbps": 1})",
                                 R"({"format": "ferry-link-speed", "version": 2, "pci_bus_id": "PCI",
                                     "device_to_host_gbps": 1, "host_to_device_gbps": 1,
                                     "out_beside_back": 0, "back_beside_out": 2})",
                                 R"({"format": "ferry-link-speed", "version": 2, "pci_bus_id": "PCI",
                                     "device_to_host_gbps": -1, "host_to_device_gbps": 1e300,
                                     "out_beside_back": 1, "back_beside_out": 1})"}) {
    std::string shown = text;
    if (auto const at = shown.find("PCI"); at != std::string::npos) shown.replace(at, 3, gpu().pci_bus_id);
    std::ofstream(file()) << shown;
    EXPECT_FALSE(cuda::remembered_speed(gpu())) << shown;
  }
}

TEST_F(CudaCalibration, WhereNothingCanBeWrittenItIsMeasuredAgain) {
  std::ofstream(cache_.path() / "ferry") << "a file where a folder should be";
  EXPECT_FALSE(cuda::remember_speed(gpu(), {12, 11}));
  EXPECT_FALSE(cuda::remember_speed(gpu(), {12, 11}, {}));
  EXPECT_FALSE(cuda::remembered_speed(gpu(), {}));
  EXPECT_GT(make({.calibrate = true}).capabilities().device_to_host_gbps, 0);
}

TEST_F(CudaCalibration, AFolderInThePlaceOfTheFileIsSurvived) {
  std::filesystem::create_directories(file());
  EXPECT_FALSE(cuda::remember_speed(gpu(), {12, 11}));
  EXPECT_FALSE(cuda::remembered_speed(gpu()));
}

TEST_F(CudaCalibration, TheCacheFolderIsTheUsers) {
  EXPECT_EQ(cuda::cache_folder(), cache_.path() / "ferry");
  std::string const home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/somewhere", 1);
  EXPECT_EQ(cuda::cache_folder(), "/somewhere/.cache/ferry");
  unsetenv("HOME");
  EXPECT_EQ(cuda::cache_folder(), "");
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace ferry::testing
