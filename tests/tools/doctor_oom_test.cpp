// Out-of-memory messages: the amounts of every wording, and what they mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "doctor/oom_advice.hpp"
#include "doctor/oom_text.hpp"
#include "support/mib.hpp"

namespace ferry::command {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::mib;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr double gib_of_message = 0x1p30;
std::size_t of_gib(double amount) { return static_cast<std::size_t>(amount * gib_of_message + 0.5); }

constexpr char const* before_2_0 =
    "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 10.00 GiB total capacity; 7.25 GiB already "
    "allocated; 512.00 MiB free; 8.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try "
    "setting max_split_size_mb to avoid fragmentation.";
constexpr char const* since_2_1 =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 1 has a total capacity of 39.50 GiB "
    "of which 128.00 MiB is free. Process 1234 has 4.00 GiB memory in use. Process 99 has 512.00 MiB memory in use. "
    "Including non-PyTorch memory, this process has 34.75 GiB memory in use. Of the allocated memory 33.00 GiB is "
    "allocated by PyTorch, and 1.25 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
    "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";

TEST(DoctorOomText, ReadsTheOldWording) {
  auto const read = parse_oom(before_2_0);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::torch_device);
  EXPECT_EQ(read->requested, of_gib(1.5));
  EXPECT_EQ(read->capacity, of_gib(10));
  EXPECT_EQ(read->allocated, of_gib(7.25));
  EXPECT_EQ(read->free, 512 * mib);
  EXPECT_EQ(read->reserved, of_gib(8));
  EXPECT_FALSE(read->process);
  EXPECT_FALSE(read->others);
}

TEST(DoctorOomText, ReadsTheNewWording) {
  auto const read = parse_oom(std::string("Traceback (most recent call last):\n  File \"t.py\", line 3\n") + since_2_1);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requested, 256 * mib);
  EXPECT_EQ(read->capacity, of_gib(39.5));
  EXPECT_EQ(read->free, 128 * mib);
  EXPECT_EQ(read->others, of_gib(4.5));
  EXPECT_EQ(read->process, of_gib(34.75));
  EXPECT_EQ(read->allocated, of_gib(33));
  EXPECT_EQ(read->reserved, of_gib(34.25));
  EXPECT_THAT(read->line, HasSubstr("torch.OutOfMemoryError"));
}

TEST(DoctorOomText, ReadsWordingsInBetween) {
  auto const misspelt = parse_oom(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty of 6.00 "
      "GiB "
      "of which 0 bytes is free. Of the allocated memory 2.50 GiB is allocated by PyTorch, and 2.25 GiB is reserved by "
      "PyTorch but unallocated.");
  ASSERT_TRUE(misspelt);
  EXPECT_EQ(misspelt->capacity, of_gib(6));
  EXPECT_EQ(misspelt->free, 0U);
  EXPECT_EQ(misspelt->reserved, of_gib(4.75));
  auto const oldest = parse_oom(
      "CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.75 GiB total capacity; 8.50 MiB already allocated; "
      "9.25 "
      "GiB free; 4.50 MiB cached)");
  ASSERT_TRUE(oldest);
  EXPECT_EQ(oldest->requested, 25 * mib / 2);
  EXPECT_EQ(oldest->free, of_gib(9.25));
  EXPECT_EQ(oldest->reserved, 9 * mib / 2);
}

TEST(DoctorOomText, ReadsFerrysOwn) {
  auto read = parse_oom(
      "ferry: out of device memory: 512 MiB for 'qkv' do not fit the budget of 2.00 GiB, of which 1.75 GiB are in use "
      "by "
      "blocks and leases and 128 MiB are kept for backward; one segment needs at least 2.25 GiB at once: raise "
      "FERRY_BUDGET");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::ferry_device);
  EXPECT_EQ(read->requested, 512 * mib);
  EXPECT_EQ(read->capacity, of_gib(2));
  EXPECT_EQ(read->in_use, of_gib(1.75));
  EXPECT_EQ(read->kept, 128 * mib);
  EXPECT_EQ(read->smallest, of_gib(2.25));
  EXPECT_EQ(read->item, "qkv");

  read = parse_oom(
      "error: out of device memory: 64.0 KiB for 'h' (segment 3, micro-batch 0) do not fit the budget of 192 KiB, of "
      "which 0 B are in use by blocks and leases and 192 KiB are kept for backward; one segment needs at least 200 KiB "
      "at once: raise FERRY_BUDGET. FERRY_BUDGET=257KiB is enough for the step so far");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requested, 64ULL << 10);
  EXPECT_EQ(read->smallest, 257ULL << 10);
  EXPECT_EQ(read->item, "h");

  read = parse_oom("out of device memory on NVIDIA L4: 3.00 GiB needed, 1.00 GiB free of 22.0 GiB; lower FERRY_BUDGET");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requested, of_gib(3));
  EXPECT_EQ(read->free, of_gib(1));
  EXPECT_EQ(read->capacity, of_gib(22));

  read = parse_oom(
      "ferry: out of device memory: a step with --policy keep does not fit the budget of 28.0 MiB; the smallest that "
      "works "
      "is --budget 137408KiB");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->requested);
  EXPECT_EQ(read->capacity, 28 * mib);
  EXPECT_EQ(read->smallest, 137408ULL << 10);

  read = parse_oom(
      "no plan for 'gpt: 32 layers' fits a budget of 300 MiB: at least 736 MiB are needed, because of segment 0's "
      "backward; raise the budget (FERRY_BUDGET, --budget) or use a smaller batch");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::ferry_no_plan);
  EXPECT_EQ(read->capacity, 300 * mib);
  EXPECT_EQ(read->smallest, 736 * mib);

  read =
      parse_oom("out of pinned memory for cuda:0: 8.00 GiB needed, 1.00 GiB free of 4.00 GiB; lower FERRY_HOST_BUDGET");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::ferry_pinned);
  EXPECT_EQ(read->requested, of_gib(8));
  EXPECT_EQ(read->capacity, of_gib(4));
}

TEST(DoctorOomText, ReadsHostAndPlainMessages) {
  auto read = parse_oom(
      "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory: you tried "
      "to "
      "allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::host);
  EXPECT_EQ(read->requested, of_gib(4));
  read = parse_oom(
      "E cuda_driver.cc:802] failed to alloc 1073741824 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::host);
  EXPECT_EQ(read->requested, of_gib(1));
  for (char const* plain : {"RuntimeError: CUDA error: out of memory",
                            "CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`", "cudaErrorMemoryAllocation"}) {
    read = parse_oom(plain);
    ASSERT_TRUE(read) << plain;
    EXPECT_EQ(read->source, oom_source::torch_plain) << plain;
    EXPECT_FALSE(read->requested);
  }
}

TEST(DoctorOomText, ReadsJaxAndXla) {
  auto read = parse_oom(
      "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 "
      "bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n             parameter allocation:  "
      "372.76MiB\n     preallocated temp allocation:    4.44GiB\n                 total allocation:   14.44GiB\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::xla);
  EXPECT_EQ(read->requested, 4'770'354'232U);
  EXPECT_EQ(read->program, of_gib(14.44));
  EXPECT_EQ(read->temporaries, of_gib(4.44));
  read = parse_oom(
      "XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
      "Used 21.95G of 15.48G hbm.\n Exceeded hbm capacity by 6.47G.");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->program, of_gib(21.95));
  EXPECT_EQ(read->capacity, of_gib(15.48));
  read = parse_oom(
      "RESOURCE_EXHAUSTED: Attempting to reserve 3.95G at the bottom of memory. That was not possible. There are 1.92G "
      "free, 0B reserved, and 1.92G reservable.; \nHBM capacity 8.00G:\n          Currently allocated:    6.08G ");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requested, of_gib(3.95));
  EXPECT_EQ(read->free, of_gib(1.92));
  EXPECT_EQ(read->capacity, of_gib(8));
  EXPECT_EQ(read->allocated, of_gib(6.08));
  EXPECT_FALSE(parse_oom("RESOURCE_EXHAUSTED: Quota exceeded. Attempting to allocate a seat failed"));
}

TEST(DoctorOomText, ReadsTensorFlow) {
  std::string const dump =
      "W tensorflow/core/common_runtime/bfc_allocator.cc:275] Allocator (GPU_0_bfc) ran out of memory trying to "
      "allocate 2.00GiB (rounded to 2147483648)requested by op conv\nI bfc_allocator.cc:702] Stats:\nLimit:           "
      "      10619240448\nInUse:                  9000000000\nMaxInUse:               9500000000\n";
  auto read = parse_oom(dump);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::tensorflow);
  EXPECT_EQ(read->requested, of_gib(2));
  EXPECT_EQ(read->capacity, 10'619'240'448U);
  EXPECT_EQ(read->allocated, 9'000'000'000U);
  read = parse_oom(dump +
                   "ResourceExhaustedError: OOM when allocating tensor with shape[16,112,112,147] and type float on "
                   "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requested, 16U * 112 * 112 * 147 * 4);
  EXPECT_EQ(read->capacity, 10'619'240'448U);
  EXPECT_EQ(read->item, "shape[16,112,112,147]");
  EXPECT_EQ(read->of_messages, 2U);
  read = parse_oom("OOM when allocating tensor with shape[8,1024] and type half on .../device:CPU:0 by allocator cpu");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::host);
  EXPECT_EQ(read->requested, 16'384U);
  EXPECT_FALSE(
      parse_oom("Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.25GiB with freed_by_count=0. The "
                "caller indicates that this is not a failure, but may mean that there could be gains"));
  for (char const* shape : {"shape[4294967296,4294967296,4294967296] and type float", "shape[-1] and type float",
                            "shape[8] and type floaty", "shape[8"}) {
    auto const odd = parse_oom(std::string("OOM when allocating tensor with ") + shape);
    ASSERT_TRUE(odd) << shape;
    EXPECT_FALSE(odd->requested) << shape;
  }
}

TEST(DoctorOomText, ReadsGgml) {
  auto read = parse_oom(
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9866.00 MiB on device 1: cudaMalloc failed: out of "
      "memory\nggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 10345253120\n"
      "llama_kv_cache_update_impl: failed to allocate compute buffers\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::ggml);
  EXPECT_EQ(read->requested, 9866 * mib);
  EXPECT_EQ(read->of_messages, 1U) << "two lines of one failure";
  read = parse_oom("alloc_tensor_range: failed to allocate CUDA0 buffer of size 151851674624");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requested, 151'851'674'624U);
  read = parse_oom("ggml_cuda_host_malloc: failed to allocate 1900.00 MiB of pinned memory: invalid argument");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::host);
  EXPECT_EQ(read->requested, 1900 * mib);
}

TEST(DoctorOomText, ReadsNccl) {
  auto const read = parse_oom(
      "node:2134736:2285781 [0] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\nnode:2134736:2285781 [0] "
      "include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 bytes\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::nccl);
  EXPECT_EQ(read->requested, 6 * mib);
  EXPECT_EQ(read->of_messages, 1U);
  EXPECT_TRUE(
      parse_oom("ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of "
                "memory'"));
}

TEST(DoctorOomText, ReadsTrainersInTheStyleOfLlmc) {
  auto const read = parse_oom(
      "allocated 237 MiB for model parameters\nallocating 237 MiB for parameter gradients\nallocating 18564 MiB for "
      "activations\n[CUDA ERROR] at file train_gpt2.cu:1234:\nout of memory\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::cuda_trainer);
  EXPECT_EQ(read->requested, 18'564 * mib);
  EXPECT_EQ(read->allocated, 474 * mib);
  EXPECT_EQ(read->item, "activations");
  EXPECT_FALSE(parse_oom("[CUDA ERROR] at file train_gpt2.cu:99:\nan illegal memory access was encountered\n"));
}

TEST(DoctorOomText, ReadsBitsandbytesDeepSpeedAndApple) {
  auto read = parse_oom("Error out of memory at line 380 in file /home/x/bitsandbytes/csrc/pythonInterface.cpp");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::bitsandbytes);
  read = parse_oom(
      "MA 12.50 GB         Max_MA 14.1 GB         CA 15.0 GB         Max_CA 15 GB \nCPU Virtual Memory:  used = 30.34 "
      "GB\nRuntimeError: CUDA error: out of memory");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::torch_plain);
  EXPECT_EQ(read->allocated, of_gib(12.5));
  EXPECT_EQ(read->reserved, of_gib(15));
  read = parse_oom(
      "  File \"deepspeed/accelerator/cuda_accelerator.py\", line 296, in pin_memory\n    return "
      "tensor.cpu().pin_memory()\nRuntimeError: CUDA error: out of memory");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::host) << "it was to be pinned";
  read = parse_oom(
      "RuntimeError: MPS backend out of memory (MPS allocated: 16.98 GB, other allocations: 1.26 GB, max allowed: "
      "18.13 "
      "GB). Tried to allocate 372.00 MB on private pool.");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->of_messages, 1U);
  EXPECT_EQ(read->requested, 372 * mib);
  EXPECT_EQ(read->allocated, of_gib(16.98));
  EXPECT_EQ(read->capacity, of_gib(18.13));
  read = parse_oom("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.");
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->absurd);
}

TEST(DoctorOomText, InAContainerAProcessIsItself) {
  auto const read = parse_oom(
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 14.75 GiB of which 3.06 MiB is "
      "free. Process 2573 has 14.74 GiB memory in use. Of the allocated memory 14.25 GiB is allocated by PyTorch, and "
      "10.00 MiB is reserved by PyTorch but unallocated.");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->process, of_gib(14.74));
  EXPECT_FALSE(read->others);
}

TEST(DoctorOomText, QuotesEndWhereTheirWordsDo) {
  auto const item = parse_oom(
      "out of device memory: 512 MiB for 'layer's qkv' do not fit the budget of 2.00 GiB, of which 1.75 GiB are in "
      "use");
  ASSERT_TRUE(item);
  EXPECT_EQ(item->item, "layer's qkv");
  std::string words;
  for (int i = 0; i < 60; ++i) words += " wordiness";
  auto const longer = parse_oom("RuntimeError: CUDA error: out of memory" + words);
  ASSERT_TRUE(longer);
  EXPECT_LE(longer->line.size(), 204U);
  EXPECT_THAT(longer->line, AllOf(StartsWith("RuntimeError: "), EndsWith(" wordiness ...")));
  auto const later = parse_oom("begin" + words + " CUDA error: out of memory");
  ASSERT_TRUE(later);
  EXPECT_THAT(later->line, AllOf(StartsWith("... wordiness "), EndsWith("CUDA error: out of memory")));
}

TEST(DoctorOomText, OfSeveralTheLastThatNamesAnAmountCounts) {
  std::string const log =
      std::string(before_2_0) + "\nretrying\n" + since_2_1 +
      "\n[rank1]: NCCL WARN Cuda failure 'out of memory'\nRuntimeError: CUDA error: out of memory\n";
  auto const read = parse_oom(log);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, oom_source::torch_device);
  EXPECT_EQ(read->requested, 256 * mib);
  EXPECT_EQ(read->number, 2U);
  EXPECT_EQ(read->of_messages, 4U);
  EXPECT_EQ(read->line_number, 3U);
  EXPECT_THAT(text_of_diagnosis(diagnose_oom(*read, std::nullopt, false, {})),
              StartsWith("The message  number 2 of 4 (line 3): the last that names an amount\n"));
  auto const plain = parse_oom("CUDA error: out of memory\nthen\nCUDA error: out of memory");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->number, 2U);
}

TEST(DoctorOomText, AmountsOfAnotherMessageAreNotTaken) {
  auto const read = parse_oom(
      "CUDA out of memory. Tried to allocate 1.00 GiB.\nCUDA out of memory. Tried to allocate "
      "2.00 GiB (GPU 0; 10.00 GiB total capacity)\nCUDA error: out of memory");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requested, of_gib(2));
  EXPECT_EQ(read->number, 2U);
  auto const alone = parse_oom(
      "CUDA out of memory. Tried to allocate 1.00 GiB.\nCUDA error: out of memory\n(GPU 0; "
      "10.00 GiB total capacity)");
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->requested, of_gib(1));
  EXPECT_FALSE(alone->capacity);
}

TEST(DoctorOomText, TheLastMessageOfALogCounts) {
  auto const read = parse_oom(std::string(before_2_0) + "\nretrying with a smaller batch\n" + since_2_1 + "\nbye\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requested, 256 * mib);
}

TEST(DoctorOomText, WhatIsNoMessageIsNone) {
  for (std::string const text : {"", "hello", "loss 3.1 at step 4", "out of memory lane", "Tried to open 4 GiB"}) {
    EXPECT_FALSE(parse_oom(text)) << text;
  }
}

TEST(DoctorOomText, BrokenAmountsAreNotThere) {
  auto const read = parse_oom(
      "CUDA out of memory. Tried to allocate 1e999 GiB. GPU 0 has a total capacity of -4 GiB of which nan is free. "
      "Process "
      "x has 3 GiB memory in use. Of the allocated memory 999999999999999 TiB is allocated by PyTorch");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->requested);
  EXPECT_FALSE(read->free);
  EXPECT_FALSE(read->others);
  EXPECT_FALSE(read->allocated);
}

/// Pieces of messages in any order, cut anywhere: no crash, and amounts stay within bounds.
TEST(DoctorOomText, SurvivesAnything) {
  std::mt19937 random(7);
  std::string const pieces = std::string(before_2_0) + since_2_1 + "Process 1 has Process 2 has 9 GiB 'for '" +
                             std::string(50, '9') + "\xff\x00\x1b[2J";
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (int k = 0; k < 4; ++k) {
      auto const from = random() % pieces.size();
      text += pieces.substr(from, random() % 200);
    }
    for (int k = 0; k < 3 && !text.empty(); ++k) text[random() % text.size()] = static_cast<char>(random() % 256);
    auto const read = parse_oom(text);
    if (!read) continue;
    EXPECT_LE(read->requested.value_or(0), std::size_t{1} << 60);
    static_cast<void>(diagnose_oom(*read, std::nullopt, false, {}));
  }
}

TEST(DoctorOomText, IsQuickWithALongLog) {
  std::string log(most_oom_text_bytes, 'P');
  for (std::size_t i = 0; i + 8 < log.size(); i += 9) log.replace(i, 8, "Process ");
  log += before_2_0;
  ASSERT_TRUE(parse_oom(log));
  // As many messages as there is room for.
  std::string many;
  while (many.size() + 30 < most_oom_text_bytes) many += "CUDA error: out of memory ";
  auto const read = parse_oom(many);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->of_messages, many.size() / 26);
}

std::vector<std::string> kinds_of(diagnosis const& made) {
  std::vector<std::string> kinds;
  for (auto const& one : made.findings) kinds.push_back(one.kind);
  return kinds;
}

diagnosis diagnosed(std::string const& text, std::optional<model> const& of = std::nullopt, bool gpu = false) {
  auto const read = parse_oom(text);
  EXPECT_TRUE(read) << text;
  return diagnose_oom(read.value_or(oom_message{}), of, gpu, planning::gpu_catalogue::shipped());
}

std::string torch_message(std::string const& requested, std::string const& free, std::string const& allocated,
                          std::string const& gaps) {
  return "CUDA out of memory. Tried to allocate " + requested + ". GPU 0 has a total capacity of 24.00 GiB of which " +
         free +
         " is free. Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the allocated memory " +
         allocated + " is allocated by PyTorch, and " + gaps + " is reserved by PyTorch but unallocated.";
}

TEST(DoctorOom, TellsFragmentationFromAFullGpu) {
  EXPECT_THAT(kinds_of(diagnosed(torch_message("1.00 GiB", "512.00 MiB", "14.00 GiB", "8.00 GiB"))),
              ElementsAre("fragmentation"));
  EXPECT_THAT(kinds_of(diagnosed(torch_message("64.00 MiB", "32.00 MiB", "22.00 GiB", "10.00 MiB"))),
              ElementsAre("activations"));
  // Gaps that are large beside the request count even in a full GPU.
  EXPECT_THAT(kinds_of(diagnosed(torch_message("300.00 MiB", "32.00 MiB", "21.50 GiB", "1.00 GiB"))),
              ElementsAre("fragmentation", "activations"));
}

TEST(DoctorOom, RoomInPiecesIsSaidFirst) {
  // 32 MiB free and 100 MiB in gaps would do for 64 MiB, however full the GPU is.
  auto const full = diagnosed(torch_message("64.00 MiB", "32.00 MiB", "22.00 GiB", "100.00 MiB"));
  EXPECT_THAT(kinds_of(full), ElementsAre("fragmentation", "activations"));
  EXPECT_THAT(full.findings[0].words, HasSubstr("32.0 MiB free and 100 MiB reserved by PyTorch but not in use are more "
                                                "than the 64.0 MiB that were asked for, only not in one piece"));
  EXPECT_THAT(full.findings[0].cure, StartsWith("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
  // One tensor of a third of the GPU, too: there was room for it.
  EXPECT_THAT(kinds_of(diagnosed(torch_message("8.00 GiB", "2.00 GiB", "14.00 GiB", "7.00 GiB"))),
              ElementsAre("fragmentation", "huge_tensor"));
  EXPECT_THAT(kinds_of(diagnosed(torch_message("8.00 GiB", "2.00 GiB", "14.00 GiB", "5.00 GiB"))),
              ElementsAre("huge_tensor", "fragmentation"));
}

TEST(DoctorOom, SeesOneHugeTensor) {
  EXPECT_THAT(kinds_of(diagnosed(torch_message("9.00 GiB", "512.00 MiB", "12.00 GiB", "10.00 MiB"))),
              ElementsAre("huge_tensor"));
  auto const beyond = diagnosed(torch_message("55.00 GiB", "20.00 GiB", "1.00 GiB", "10.00 MiB"));
  EXPECT_THAT(kinds_of(beyond), ElementsAre("larger_than_the_gpu"));
  EXPECT_THAT(beyond.findings[0].words, HasSubstr("more than there is"));
}

TEST(DoctorOom, NamesTheTensorOfAGivenModel) {
  model const of = completed(
      {.kind = model_kind::gpt, .name = "gpt", .layers = 24, .width = 2048, .heads = 16, .context = 2048, .batch = 8});
  // 8 x 16 x 2048 x 2048 x 2 bytes
  auto const attention = diagnosed(torch_message("1.00 GiB", "512.00 MiB", "20.00 GiB", "10.00 MiB"), of);
  EXPECT_THAT(attention.findings.at(0).words, HasSubstr("attention probabilities"));
  EXPECT_THAT(attention.findings.at(0).cure, HasSubstr("flash"));
  // 8 x 2048 x 50257 x 4 bytes = 3.07 GiB
  auto const logits = diagnosed(torch_message("3.07 GiB", "512.00 MiB", "20.00 GiB", "10.00 MiB"), of);
  EXPECT_THAT(logits.findings.at(0).words, HasSubstr("all logits (batch x context x vocabulary) in fp32"));
  auto const other = diagnosed(torch_message("777.00 MiB", "512.00 MiB", "20.00 GiB", "10.00 MiB"), of);
  EXPECT_THAT(kinds_of(other), ElementsAre("activations"));
}

TEST(DoctorOom, SeesOtherProcesses) {
  EXPECT_THAT(kinds_of(diagnosed(since_2_1)), ElementsAre("fragmentation", "other_process", "activations"));
  // Without their names: 16 GiB of 24 are neither free nor PyTorch's.
  EXPECT_THAT(
      kinds_of(diagnosed("CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 24.00 GiB total capacity; 6.00 GiB "
                         "already allocated; 32.00 MiB free; 6.00 GiB reserved in total by PyTorch)")),
      ElementsAre("other_process"));
}

memory_report made_report(double states_gib, double activations_gib) {
  memory_report made;
  made.states.weights = of_gib(states_gib);
  made.activations.saved = of_gib(activations_gib);
  made.device_bytes = of_gib(24);
  return made;
}

TEST(DoctorOom, AnEstimateIsHeldAgainstWhatWasAllocated) {
  // 20 GiB in tensors and 1 more asked for; 2.5 of the process's 23 GiB are in none.
  auto const read = parse_oom(torch_message("1.00 GiB", "512.00 MiB", "20.00 GiB", "10.00 MiB"));
  ASSERT_TRUE(read);
  auto const low = calibrated(*read, made_report(12, 6));
  ASSERT_TRUE(low);
  EXPECT_TRUE(low->too_low());
  EXPECT_NEAR(low->off(), 21.0 / 18 - 1, 1e-9);
  EXPECT_EQ(low->missing(), of_gib(3));
  EXPECT_EQ(low->beside, of_gib(3));
  auto const enough = calibrated(*read, made_report(12, 12));
  ASSERT_TRUE(enough);
  EXPECT_FALSE(enough->too_low());
  EXPECT_EQ(enough->missing(), 0U);
  auto other_gpu = made_report(12, 6);
  other_gpu.device_bytes = of_gib(80);
  EXPECT_FALSE(calibrated(*read, other_gpu)->beside) << "what a GPU has beside is that GPU's";
  EXPECT_FALSE(calibrated(*parse_oom("CUDA error: out of memory"), made_report(1, 1)));
  EXPECT_FALSE(calibrated(*read, memory_report{}));
  auto made = diagnosed(torch_message("1.00 GiB", "512.00 MiB", "20.00 GiB", "10.00 MiB"));
  made.against = low;
  EXPECT_THAT(text_of_diagnosis(made), HasSubstr("16.7% above the"));
  made.against = enough;
  EXPECT_THAT(text_of_diagnosis(made), HasSubstr("12.5% below the"));
}

TEST(DoctorOom, OtherProgramsHaveTheirOwnCures) {
  struct wanted {
    char const* text;
    char const* kind;
    char const* cure;
  };
  for (auto const& [text, kind, cure] :
       {wanted{"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.", "program",
               "jax.checkpoint"},
        wanted{"OOM when allocating tensor with shape[64,2016] and type float on GPU:0 by allocator GPU_0_bfc",
               "activations", "tf.recompute_grad"},
        wanted{"allocating 100.00 MiB on device 0: cudaMalloc failed: out of memory", "inference", "-ngl"},
        wanted{"NCCL WARN Cuda failure 'out of memory'", "nccl", "NCCL_BUFFSIZE"},
        wanted{"[CUDA ERROR] at file train_gpt2.cu:12:\nout of memory", "activations", "Ferry"},
        wanted{"Error out of memory at line 88 in file csrc/ops.cu", "optimizer_state", "paged"},
        wanted{"CUDA out of memory. Tried to allocate more than 1EB memory.", "impossible_size", "shapes"}}) {
    auto const made = diagnosed(text);
    ASSERT_FALSE(made.findings.empty()) << text;
    EXPECT_EQ(made.findings[0].kind, kind);
    EXPECT_THAT(made.findings[0].cure, HasSubstr(cure));
  }
  EXPECT_THAT(kinds_of(diagnosed("Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.00GiB\nLimit:   "
                                 "10619240448\nInUse:    4000000000\n")),
              ElementsAre("fragmentation"));
}

TEST(DoctorOom, AsksOnlyForWhatItNeeds) {
  auto const nothing_given = diagnosed(since_2_1);
  ASSERT_THAT(nothing_given.asks, SizeIs(2));
  EXPECT_THAT(nothing_given.asks[0], HasSubstr("--layers"));
  EXPECT_THAT(nothing_given.asks[1], HasSubstr("with 39.5 GiB it may be a100-40"));
  model const of =
      completed({.kind = model_kind::gpt, .name = "gpt", .layers = 1, .width = 8, .heads = 1, .context = 8});
  EXPECT_THAT(diagnosed(since_2_1, of).asks, ElementsAre(HasSubstr("--gpu NAME")));
  EXPECT_THAT(diagnosed(since_2_1, of, true).asks, IsEmpty());
  EXPECT_THAT(diagnosed(since_2_1, std::nullopt, true).asks, ElementsAre(HasSubstr("the model")));
}

TEST(DoctorOom, FerrysOwnMessagesHaveTheirOwnCure) {
  auto const one = diagnosed(
      "out of device memory: 512 MiB for 'qkv' do not fit the budget of 2.00 GiB, of which 1.75 GiB are in use by "
      "blocks "
      "and leases and 128 MiB are kept for backward; one segment needs at least 2.25 GiB at once: raise FERRY_BUDGET");
  EXPECT_THAT(kinds_of(one), ElementsAre("one_segment"));
  EXPECT_THAT(one.findings[0].cure, HasSubstr("raise FERRY_BUDGET to 2.25 GiB"));
  auto const keeping = diagnosed(
      "ferry: out of device memory: a step with --policy keep does not fit the budget of 28.0 MiB; the smallest that "
      "works is --budget 137408KiB");
  EXPECT_THAT(keeping.findings[0].cure, HasSubstr("set FERRY_POLICY=auto"));
  EXPECT_THAT(keeping.findings[0].cure, HasSubstr("raise FERRY_BUDGET to 134 MiB"));
  EXPECT_THAT(kinds_of(diagnosed("out of pinned memory for cuda:0: 8.00 GiB needed, 1.00 GiB free of 4.00 GiB; lower")),
              ElementsAre("pinned_memory"));
  EXPECT_THAT(kinds_of(diagnosed("RuntimeError: CUDA error: out of memory")), ElementsAre("no_amounts"));
  EXPECT_THAT(kinds_of(diagnosed("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.")),
              ElementsAre("host_memory"));
}

}  // namespace
}  // namespace ferry::command
