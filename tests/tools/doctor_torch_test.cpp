// What PyTorch users can set instead, and the page of a prescription.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "doctor/doctor_page.hpp"
#include "doctor/doctor_text.hpp"
#include "doctor/torch_ways.hpp"

namespace ferry::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t a_gib = std::size_t{1} << 30;

desk small_desk(std::size_t budget = 4 * a_gib) {
  model of = *named_model("gpt2-medium");
  of.batch = 8;
  auto const on = named_hardware("rtx4090");
  return {.of = completed(of), .how = {}, .on = on, .budget = budget, .host_budget = 32 * a_gib, .between = {}};
}

question small_question() {
  model of = *named_model("gpt2-xl");
  of.batch = 8;
  auto const on = named_hardware("rtx4090");
  return {.of = completed(of),
          .how = {.optimizer = optimizer_kind::adamw8bit},
          .on = on,
          .reserve = a_gib,
          .host_memory = on.host_bytes};
}

forecast const& way_named(std::vector<torch_way> const& all, std::string const& name) {
  auto const found = std::ranges::find(all, name, &torch_way::name);
  if (found == all.end() || !found->cost) throw std::runtime_error("no way " + name);
  return *found->cost;
}

TEST(DoctorTorch, CheckpointingIsRecomputingEveryBlock) {
  auto const at = small_desk();
  auto const ways = torch_ways(at);
  auto const& made = way_named(ways, "gradient checkpointing");
  EXPECT_EQ(made.step_us, recomputing(at, at.of.batch)->step_us);
  EXPECT_EQ(made.host_bytes, 0U);
}

TEST(DoctorTorch, WaysStandInTheOrderThatTheirRulesDemand) {
  auto const ways = torch_ways(small_desk(6 * a_gib));
  auto const& full = way_named(ways, "gradient checkpointing");
  auto const& selective = way_named(ways, "selective checkpointing");
  auto const& second = way_named(ways, "selective checkpointing, every second product");
  auto const& offloaded = way_named(ways, "everything offloaded");
  auto const& on_cpu = way_named(ways, "everything on the CPU");
  auto const& inputs = way_named(ways, "block inputs offloaded, blocks rebuilt");
  EXPECT_LT(selective.step_us, full.step_us);
  EXPECT_GT(selective.peak_bytes, full.peak_bytes);
  EXPECT_LT(selective.step_us, second.step_us);
  EXPECT_LT(second.step_us, full.step_us);
  EXPECT_LT(second.peak_bytes, selective.peak_bytes);
  EXPECT_LT(inputs.peak_bytes, full.peak_bytes);
  EXPECT_GE(inputs.step_us, full.step_us);
  EXPECT_GT(on_cpu.step_us, offloaded.step_us) << "nothing beside it";
  EXPECT_EQ(on_cpu.host_bytes, offloaded.host_bytes);
  EXPECT_TRUE(
      std::ranges::is_sorted(ways, {}, [](torch_way const& one) { return one.cost ? one.cost->step_us : 1e300; }));
}

TEST(DoctorTorch, TheWholeBatchWherePossibleAndNothingBeyondTheBudget) {
  for (std::size_t const budget : {a_gib / 2, 2 * a_gib, 8 * a_gib}) {
    auto at = small_desk(budget);
    for (auto const& way : torch_ways(at)) {
      if (way.cost) {
        EXPECT_LE(way.cost->peak_bytes, budget) << way.name;
      }
      EXPECT_FALSE(way.setting.empty()) << way.name;
    }
    at.host_budget = 0;
    for (auto const& way : torch_ways(at)) {
      if (way.cost) {
        EXPECT_EQ(way.cost->host_bytes, 0U) << way.name;
      }
    }
  }
}

TEST(DoctorTorch, IsInTextAndJsonWhereSomethingMustBeDone) {
  auto const made = prescribe(small_question());
  auto const text = text_of_prescription(made);
  EXPECT_THAT(text, HasSubstr("In PyTorch without Ferry"));
  EXPECT_THAT(text, HasSubstr("gradient_checkpointing=True"));
  auto const all = json_of_prescription(made);
  EXPECT_EQ(all["in_pytorch"].size(), made.in_torch.size());
  EXPECT_TRUE(all["in_pytorch"][0]["forecast"].contains("overhead"));
  auto roomy = small_question();
  roomy.of.batch = 1;
  roomy.on = named_hardware("h100");
  EXPECT_THAT(text_of_prescription(prescribe(roomy)), Not(HasSubstr("In PyTorch")));
}

TEST(DoctorPage, SaysWhatTheTextSaysAndNeedsNothingElse) {
  auto const made = prescribe(small_question());
  auto const page = page_of_prescription(made);
  for (char const* words : {"<title>Ferry doctor: gpt2-xl on rtx4090</title>", "Where memory goes", "the prescription",
                            "selective checkpointing", "export FERRY_BUDGET=8651MiB", "Predicted, not measured",
                            "What this assumes", "Beware", "Content-Security-Policy"}) {
    EXPECT_THAT(page, HasSubstr(words));
  }
  for (char const* words : {"<script", "http://", "https://", "src=", "@import"})
    EXPECT_THAT(page, Not(HasSubstr(words)));
}

TEST(DoctorPage, NamesAreInert) {
  auto asked = small_question();
  asked.of.name = "<script>alert(1)</script>";
  auto const page = page_of_prescription(prescribe(asked));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
}

TEST(DoctorPage, IsThereForWhatHasNoPrescription) {
  auto asked = small_question();
  asked.of.context = 1 << 20;
  auto const made = prescribe(asked);
  ASSERT_FALSE(made.advised);
  EXPECT_THAT(page_of_prescription(made), HasSubstr("<b>none</b>"));
}

}  // namespace
}  // namespace ferry::command
