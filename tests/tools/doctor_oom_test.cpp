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

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::mib;
using ::testing::SizeIs;

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
  EXPECT_THAT(kinds_of(diagnosed(torch_message("64.00 MiB", "32.00 MiB", "22.00 GiB", "100.00 MiB"))),
              ElementsAre("activations"));
  // Gaps that are large beside the request count even in a full GPU.
  EXPECT_THAT(kinds_of(diagnosed(torch_message("300.00 MiB", "32.00 MiB", "21.50 GiB", "1.00 GiB"))),
              ElementsAre("fragmentation", "activations"));
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
  EXPECT_THAT(kinds_of(diagnosed(since_2_1)), ElementsAre("other_process", "fragmentation", "activations"));
  // Without their names: 16 GiB of 24 are neither free nor PyTorch's.
  EXPECT_THAT(
      kinds_of(diagnosed("CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 24.00 GiB total capacity; 6.00 GiB "
                         "already allocated; 32.00 MiB free; 6.00 GiB reserved in total by PyTorch)")),
      ElementsAre("other_process"));
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
