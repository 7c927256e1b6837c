// The segment interface: a chain of layers whose bits can be compared, under every policy, with memory of Ferry's and
// of the trainer's own, at once and enqueued; and what it says to those who use it wrongly.
#include "ferry/segments.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/gate.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

constexpr std::uint32_t layers = 6;
constexpr std::size_t width = 4096;  // floats
constexpr std::size_t x_bytes = width * sizeof(float);

/// A layer: a = 0.5 x + w, b = a * a, out = b - x. Backward: dx = dout * (2 a * 0.5 - 1), and the gradient of w.
struct layer_math {
  static void a_of(float* a, float const* x, float w) {
    for (std::size_t i = 0; i < width; ++i) a[i] = 0.5F * x[i] + w;
  }
  static void b_of(float* b, float const* a) {
    for (std::size_t i = 0; i < width; ++i) b[i] = a[i] * a[i];
  }
  static void out_of(float* out, float const* b, float const* x) {
    for (std::size_t i = 0; i < width; ++i) out[i] = b[i] - x[i];
  }
  static void backward(float* dx, float* dw, float const* a, float const* b, float const* x) {
    for (std::size_t i = 0; i < width; ++i) {
      *dw += dx[i] * 2 * a[i] + 1e-3F * b[i];
      dx[i] = dx[i] * (a[i] - 1) + 1e-6F * x[i];
    }
  }
};

/// What a step leaves: the last output, the input's gradient and the weights'.
struct outcome {
  std::vector<float> out;
  std::vector<float> dx;
  std::array<float, layers> dw{};
  friend bool operator==(outcome const&, outcome const&) = default;
};

float weight(std::uint32_t layer) { return 0.01F * static_cast<float>(layer + 1); }
float first_input(std::size_t i) { return std::sin(static_cast<float>(i)); }

/// Everything kept, by hand.
outcome by_hand() {
  std::vector<std::vector<float>> x(layers + 1, std::vector<float>(width));
  std::vector<std::vector<float>> a(layers, std::vector<float>(width));
  auto b = a;
  for (std::size_t i = 0; i < width; ++i) x[0][i] = first_input(i);
  for (std::uint32_t l = 0; l < layers; ++l) {
    layer_math::a_of(a[l].data(), x[l].data(), weight(l));
    layer_math::b_of(b[l].data(), a[l].data());
    layer_math::out_of(x[l + 1].data(), b[l].data(), x[l].data());
  }
  outcome done{x[layers], x[layers], {}};
  for (std::uint32_t l = layers; l-- > 0;) {
    layer_math::backward(done.dx.data(), &done.dw[l], a[l].data(), b[l].data(), x[l].data());
  }
  return done;
}

config settings_for(char const* policy, char const* budget) {
  config settings;
  settings.set("FERRY_POLICY", policy);
  settings.set("FERRY_BUDGET", budget);
  settings.min_bytes = 0;
  settings.chunk_bytes = 8 << 10;
  settings.link_gbps = {};
  settings.log = log_level::off;
  return settings;
}

/// A trainer over segments, whose functions run at once.
class chain_trainer {
 public:
  enum class memory_of : std::uint8_t { ferry, trainer };
  enum class declared : std::uint8_t { whole, by_operation };

  chain_trainer(config settings, memory_of whose, declared how)
      : it_(std::move(settings), layers, x_bytes, outputs(whose)) {
    declare(whose, how);
  }

  outcome step() {
    segments::step_scope scope(it_);
    auto done = forward();
    done.dx = done.out;
    now_ = &done;
    it_.backward();
    scope.end();
    return done;
  }
  std::vector<float> evaluate() {
    segments::step_scope scope(it_, step_kind::evaluate);
    auto done = forward();
    scope.end();
    return done.out;
  }
  segments& it() { return it_; }
  int forwards = 0;

 private:
  tensor_place outputs(memory_of whose) {
    if (whose == memory_of::ferry) return {};
    arrays_.resize(3 * layers * width);
    return {arrays_.data(), 0};
  }
  tensor_place array(memory_of whose, std::size_t number) {
    if (whose == memory_of::ferry) return {};
    return {arrays_.data() + number * layers * width, x_bytes};
  }
  void declare(memory_of whose, declared how) {
    auto const a = it_.tensor("a", x_bytes, array(whose, 1));
    auto const b = it_.tensor("b", x_bytes, array(whose, 2));
    if (how == declared::whole) {
      it_.forward_by([this, a, b](segment_call const& s) {
        ++forwards;
        layer_math::a_of(s.at<float>(a), s.input<float>(), weight(s.index));
        layer_math::b_of(s.at<float>(b), s.at<float>(a));
        layer_math::out_of(s.output<float>(), s.at<float>(b), s.input<float>());
      });
    } else {
      it_.operation("make a", {segment_input}, {a}, [this, a](segment_call const& s) {
        ++forwards;
        layer_math::a_of(s.at<float>(a), s.input<float>(), weight(s.index));
      });
      it_.operation("make b", {a}, {b},
                    [a, b](segment_call const& s) { layer_math::b_of(s.at<float>(b), s.at<float>(a)); });
      it_.operation("make out", {b, segment_input}, {segment_output}, [b](segment_call const& s) {
        layer_math::out_of(s.output<float>(), s.at<float>(b), s.input<float>());
      });
    }
    it_.backward_by([this, a, b](segment_call const& s) {
      layer_math::backward(now_->dx.data(), &now_->dw[s.index], s.at<float>(a), s.at<float>(b), s.input<float>());
    });
  }
  outcome forward() {
    auto* const x = it_.input<float>();
    for (std::size_t i = 0; i < width; ++i) x[i] = first_input(i);
    auto const* const out = it_.forward<float>();
    outcome done;
    done.out.assign(out, out + width);
    return done;
  }

  std::vector<float> arrays_;
  outcome* now_ = nullptr;
  segments it_;
};

using memory_of = chain_trainer::memory_of;
using declared = chain_trainer::declared;

TEST(Segments, EveryPolicyAndBudgetGivesTheSameBits) {
  auto const expected = by_hand();
  for (auto const whose : {memory_of::ferry, memory_of::trainer}) {
    for (auto const how : {declared::whole, declared::by_operation}) {
      for (char const* const policy : {"keep", "offload", "recompute", "auto", "every=2", "sqrt", "selective"}) {
        for (char const* const budget : {"100%", "70%", "50%"}) {
          if (std::string(policy) == "keep" && std::string(budget) != "100%") continue;
          SCOPED_TRACE(::testing::Message() << policy << " " << budget << " own " << (whose == memory_of::trainer)
                                            << " operations " << (how == declared::by_operation));
          chain_trainer trainer(settings_for(policy, budget), whose, how);
          for (int i = 0; i < 4; ++i) {
            EXPECT_EQ(trainer.evaluate(), expected.out);
            EXPECT_EQ(trainer.step(), expected);
          }
          auto const stats = trainer.it().in_session().stats();
          EXPECT_EQ(stats.steps, 4U);
          EXPECT_EQ(stats.evaluations, 4U);
          EXPECT_LE(stats.device.peak_bytes, stats.device.limit_bytes);
        }
      }
    }
  }
}

TEST(Segments, EveryFunctionIsCheckedWhereEverythingIsKept) {
  for (auto const whose : {memory_of::ferry, memory_of::trainer}) {
    for (auto const how : {declared::whole, declared::by_operation}) {
      SCOPED_TRACE(::testing::Message() << "own " << (whose == memory_of::trainer) << " operations "
                                        << (how == declared::by_operation));
      auto settings = settings_for("keep", "1GiB");
      settings.verify = verify_mode::recipes;
      chain_trainer trainer(settings, whose, how);
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(trainer.evaluate(), by_hand().out);
        EXPECT_EQ(trainer.step(), by_hand());
      }
      auto const checks = trainer.it().in_session().stats().recipe_checks.value();
      // Every item has had its turn once. The input of a segment cannot be made again by an operation that writes
      // arrays of the trainer's too.
      std::uint64_t const items = how == declared::whole ? layers : 2 * layers;
      bool const inputs_too = whose == memory_of::ferry || how == declared::by_operation;
      EXPECT_EQ(checks.checked, items + (inputs_too ? layers - 1 : 0));
      EXPECT_EQ(checks.inputs_away + checks.no_room + checks.not_comparable, 0U);
    }
  }
}

TEST(Segments, CheckedFunctionsGiveTheSameBitsUnderEveryPolicy) {
  for (auto const whose : {memory_of::ferry, memory_of::trainer}) {
    for (char const* const policy : {"offload", "recompute", "auto", "sqrt"}) {
      for (char const* const verify : {"recipes", "checksum,recipes"}) {
        auto settings = settings_for(policy, "50%");
        settings.set("FERRY_VERIFY", verify);
        chain_trainer trainer(settings, whose, declared::by_operation);
        for (int i = 0; i < 6; ++i) EXPECT_EQ(trainer.step(), by_hand());
        EXPECT_GT(trainer.it().in_session().stats().recipe_checks->checked, 0U);
      }
    }
  }
}

TEST(Segments, TensorsOfAnySizeAreChecked) {
  auto settings = settings_for("keep", "1GiB");
  settings.verify = verify_mode::recipes;
  segments it(settings, 3, 300);
  auto const a = it.tensor("a", 1001);
  auto const b = it.tensor("b", 77);
  it.forward_by([&](segment_call const& s) {
    std::memset(s.at<char>(a), 1, 1001);
    std::memset(s.at<char>(b), 2, 77);
    std::memcpy(s.out, s.in, 300);
  });
  it.backward_by([](segment_call const&) {});
  for (int i = 0; i < 4; ++i) {
    segments::step_scope step(it);
    std::memset(it.input(), i, 300);
    (void)it.forward();
    it.backward();
    step.end();
  }
  EXPECT_EQ(it.in_session().stats().recipe_checks->checked, 5U);
}

/// A forward whose second output is another when it runs again, in one segment.
TEST(Segments, AFunctionThatGivesOtherBitsIsNamed) {
  for (bool const is_own : {false, true}) {
    std::vector<float> own(2 * layers * width);
    auto settings = settings_for("keep", "1GiB");
    settings.verify = verify_mode::recipes;
    segments it(settings, layers, x_bytes);
    auto const a = it.tensor("a", x_bytes, {is_own ? own.data() : nullptr, 0});
    auto const b = it.tensor("b", x_bytes, {is_own ? own.data() + layers * width : nullptr, 0});
    float dropout = 0;
    bool wrong = true;
    std::vector<float> seen;
    it.forward_by([&](segment_call const& s) {
      layer_math::a_of(s.at<float>(a), s.input<float>(), 1);
      layer_math::b_of(s.at<float>(b), s.at<float>(a));
      if (wrong && s.index == 4) s.at<float>(b)[10] = ++dropout;
      std::memcpy(s.out, s.at<float>(b), x_bytes);
    });
    it.backward_by([&](segment_call const& s) { seen.push_back(s.at<float>(b)[10]); });
    auto const step = [&] {
      segments::step_scope scope(it);
      std::fill_n(it.input<float>(), width, 0.0F);
      (void)it.forward();
      it.backward();
      scope.end();
    };
    std::string found;
    for (int i = 0; i < 4 && found.empty(); ++i) {
      try {
        step();
      } catch (recipe_error const& problem) {
        found = problem.what();
      }
    }
    EXPECT_NE(found.find("saved (segment 4, micro-batch 0)"), std::string::npos) << found;
    // 1 and 2 differ in the third byte of a float.
    EXPECT_NE(found.find("byte " + std::to_string(x_bytes + 4 * 10 + 2)), std::string::npos) << found;
    EXPECT_EQ(found.find("of its piece 2") != std::string::npos, is_own) << found;
    wrong = false;
    seen.clear();
    EXPECT_NO_THROW(step()) << "the session goes on";
    EXPECT_EQ(seen.size(), layers);
  }
}

TEST(Segments, WithoutABudgetEverythingIsKept) {
  config settings;
  settings.link_gbps = {};
  chain_trainer trainer(settings, memory_of::ferry, declared::whole);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trainer.step(), by_hand());
  auto const stats = trainer.it().in_session().stats();
  EXPECT_EQ(stats.device.limit_bytes, trainer.it().keep_all_bytes());
  EXPECT_EQ(trainer.it().keep_all_bytes(), (layers + 1 + 2 * layers) * x_bytes);
  EXPECT_EQ(stats.recomputes, 0U);
  EXPECT_EQ(stats.device_to_host.transfers, 0U);
}

TEST(Segments, AShareIsOfWhatKeepingEverythingTakes) {
  for (char const* const share : {"70%", "60%"}) {  // the first one is what a session takes without being told
    auto settings = settings_for("recompute", share);
    settings.device_bytes = std::size_t{1} << 30;
    chain_trainer trainer(settings, memory_of::ferry, declared::whole);
    EXPECT_EQ(trainer.step(), by_hand());
    double const of_all = static_cast<double>(trainer.it().in_session().stats().device.limit_bytes) /
                          static_cast<double>(trainer.it().keep_all_bytes());
    EXPECT_NEAR(of_all, std::stod(share) / 100, 0.01);
  }
}

TEST(Segments, ABudgetOfMoreThanEverythingTakesNoMore) {
  config settings = settings_for("keep", "1GiB");
  chain_trainer trainer(settings, memory_of::ferry, declared::whole);
  EXPECT_EQ(trainer.step(), by_hand());
  EXPECT_EQ(trainer.it().in_session().stats().device.limit_bytes, trainer.it().keep_all_bytes());
}

/// Pinned memory is the machine's too, where the device's is.
TEST(Segments, OnTheHostAutoFerriesNothingUnlessItIsTold) {
  for (bool const told : {false, true}) {
    auto settings = settings_for("auto", "60%");
    if (told) settings.set("FERRY_HOST_BUDGET", "1MiB");
    chain_trainer trainer(settings, memory_of::ferry, declared::whole);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(trainer.step(), by_hand());
    auto const stats = trainer.it().in_session().stats();
    EXPECT_EQ(stats.pinned.limit_bytes, told ? std::size_t{1} << 20 : 0U);
    // On a busy machine layers as small as these may be back in use before they have gone out.
    EXPECT_EQ(stats.device_to_host.transfers + stats.device_to_host.abandoned > 0, told);
  }
}

/// Segments know a step before it has run: so what the first one is told is enough for all of them.
TEST(Segments, TheBudgetThatTheFirstStepIsToldIsEnough) {
  for (auto const whose : {memory_of::ferry, memory_of::trainer}) {
    for (auto const how : {declared::whole, declared::by_operation}) {
      for (char const* const policy : {"keep", "offload", "recompute", "auto", "every=2", "sqrt", "selective"}) {
        SCOPED_TRACE(::testing::Message() << policy << " own " << (whose == memory_of::trainer) << " operations "
                                          << (how == declared::by_operation));
        std::size_t enough = 0;
        try {
          chain_trainer trainer(settings_for(policy, "8%"), whose, how);
          (void)trainer.step();
          ADD_FAILURE() << "8% is not enough for anything";
        } catch (out_of_device_memory const& e) {
          enough = e.enough_bytes();
          EXPECT_NE(std::string(e.what()).find("is enough for whole steps"), std::string::npos) << e.what();
        }
        chain_trainer trainer(settings_for(policy, std::to_string(enough).c_str()), whose, how);
        for (int i = 0; i < 4; ++i) EXPECT_EQ(trainer.step(), by_hand()) << enough;
      }
    }
  }
}

TEST(Segments, RecomputationRunsForwardAgainAndOperationsOneByOne) {
  chain_trainer whole(settings_for("recompute", "100%"), memory_of::ferry, declared::whole);
  EXPECT_EQ(whole.step(), by_hand());
  EXPECT_EQ(whole.forwards, 2 * static_cast<int>(layers));
  chain_trainer single(settings_for("recompute", "100%"), memory_of::ferry, declared::by_operation);
  EXPECT_EQ(single.step(), by_hand());
  EXPECT_EQ(single.forwards, 2 * static_cast<int>(layers));
}

TEST(Segments, EvaluationSavesNothing) {
  chain_trainer trainer(settings_for("offload", "30%"), memory_of::trainer, declared::whole);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trainer.evaluate(), by_hand().out);
  auto const stats = trainer.it().in_session().stats();
  EXPECT_EQ(stats.saves, 0U);
  EXPECT_EQ(stats.device_to_host.transfers, 0U);
  EXPECT_EQ(stats.device.now_bytes, 0U);
}

TEST(Segments, SeveralKindsFollowOneAnother) {
  std::array<float, 5> seen{};
  segments it(settings_for("recompute", "100%"), 2, x_bytes);
  auto const a = it.tensor("a", x_bytes);
  it.forward_by([a](segment_call const& s) {
    layer_math::a_of(s.at<float>(a), s.input<float>(), 1);
    std::memcpy(s.out, s.at<float>(a), x_bytes);
  });
  it.backward_by([&](segment_call const& s) { seen[s.index] = s.at<float>(a)[0]; });
  it.then(3);
  auto const small = it.tensor("small", 256);
  it.forward_by([small](segment_call const& s) {
    *s.at<float>(small) = static_cast<float>(s.index);
    std::memcpy(s.out, s.in, x_bytes);
  });
  it.backward_by({small}, [&](segment_call const& s) {
    EXPECT_EQ(s.in, nullptr) << "not asked for";
    EXPECT_THROW((void)s.at<float>(segment_input), invalid_argument);
    seen[s.index] = *s.at<float>(small);
  });
  EXPECT_EQ(it.count(), 5U);
  for (int i = 0; i < 2; ++i) {
    segments::step_scope step(it);
    std::fill_n(it.input<float>(), width, 2.0F);
    EXPECT_EQ(it.forward<float>()[0], 2.0F);
    it.backward();
    step.end();
    EXPECT_EQ(seen, (std::array<float, 5>{2, 2, 2, 3, 4}));
  }
}

TEST(Segments, BackwardMayReadTheOutput) {
  std::vector<std::pair<float, float>> seen;
  for (char const* const policy : {"keep", "recompute", "offload"}) {
    seen.clear();
    segments it(settings_for(policy, "100%"), 3, x_bytes);
    auto const a = it.tensor("a", x_bytes);
    it.forward_by([a](segment_call const& s) {
      layer_math::a_of(s.at<float>(a), s.input<float>(), 1);
      layer_math::b_of(s.output<float>(), s.at<float>(a));
    });
    it.backward_by({segment_input, segment_output},
                   [&](segment_call const& s) { seen.emplace_back(*s.input<float>(), *s.output<float>()); });
    segments::step_scope step(it);
    std::fill_n(it.input<float>(), width, 0.0F);
    (void)it.forward();
    it.backward();
    step.end();
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen[2], std::pair(0.0F, 1.0F));
    EXPECT_EQ(seen[1], std::pair(1.0F, 2.25F));
    EXPECT_EQ(seen[0].first, 2.25F);
  }
}

TEST(Segments, MicroBatchesOfOneStep) {
  chain_trainer plain(settings_for("keep", "100%"), memory_of::ferry, declared::whole);
  segments it(settings_for("recompute", "60%"), layers, x_bytes);
  auto const a = it.tensor("a", x_bytes);
  float sum = 0;
  it.forward_by([a](segment_call const& s) {
    layer_math::a_of(s.at<float>(a), s.input<float>(), weight(s.index));
    std::memcpy(s.out, s.at<float>(a), x_bytes);
  });
  it.backward_by([&](segment_call const& s) { sum += *s.at<float>(a); });
  for (int i = 0; i < 3; ++i) {
    sum = 0;
    segments::step_scope step(it);
    for (float const value : {1.0F, 2.0F}) {
      std::fill_n(it.input<float>(), width, value);
      (void)it.forward();
      it.backward();
    }
    step.end();
    float expected = 0;
    for (float x : {1.0F, 2.0F}) {
      std::array<float, layers> values{};
      for (std::uint32_t l = 0; l < layers; ++l) values[l] = x = 0.5F * x + weight(l);
      for (std::uint32_t l = layers; l-- > 0;) expected += values[l];
    }
    EXPECT_EQ(sum, expected);
  }
}

TEST(Segments, AnotherBatchMayBeSmaller) {
  for (auto const whose : {memory_of::ferry, memory_of::trainer}) {
    for (char const* const policy : {"offload", "recompute", "auto"}) {
      std::vector<float> own(2 * layers * width);
      bool const is_own = whose == memory_of::trainer;
      segments it(settings_for(policy, "80%"), layers, x_bytes,
                  is_own ? tensor_place{own.data() + layers * width, 0} : tensor_place{});
      auto const a = it.tensor("a", x_bytes, is_own ? tensor_place{own.data(), 0} : tensor_place{});
      std::size_t floats = width;
      int wrong = 0;
      it.forward_by([&](segment_call const& s) {
        for (std::size_t i = 0; i < floats; ++i) s.output<float>()[i] = s.at<float>(a)[i] = s.input<float>()[i] + 1;
      });
      it.backward_by([&](segment_call const& s) {
        auto const expected = static_cast<float>(s.index);
        for (std::size_t i = 0; i < floats; ++i) {
          wrong += s.input<float>()[i] == expected && s.at<float>(a)[i] == expected + 1 ? 0 : 1;
        }
      });
      for (int i = 0; i < 12; ++i) {
        floats = i % 3 == 2 ? width / 2 : i % 5 == 4 ? width / 4 : width;
        it.resize(a, floats * sizeof(float));
        it.resize_output(floats * sizeof(float));
        segments::step_scope step(it);
        std::fill_n(it.input<float>(), floats, 0.0F);
        EXPECT_EQ(it.forward<float>()[floats - 1], static_cast<float>(layers));
        it.backward();
        step.end();
      }
      EXPECT_EQ(wrong, 0) << policy << " " << is_own;
      EXPECT_THROW(it.resize(7, 5), invalid_argument);
      EXPECT_THROW(it.resize(a, 0), invalid_argument);
      EXPECT_THROW(it.resize_output(0), invalid_argument);
      expect_error<invalid_argument>([&] { it.resize(a, 8 * x_bytes); }, is_own ? "begins after" : "largest batch");
      expect_error<invalid_argument>([&] { it.resize_output(8 * x_bytes); }, is_own ? "begins after" : "largest batch");
    }
  }
}

TEST(Segments, OperationsAreGivenWhatTheyDeclared) {
  segments it(settings_for("keep", "100%"), 1, x_bytes);
  auto const a = it.tensor("a", x_bytes);
  auto const b = it.tensor("b", x_bytes);
  it.operation("a", {segment_input}, {a}, [=](segment_call const& s) {
    EXPECT_NE(s.in, nullptr);
    EXPECT_EQ(s.out, nullptr);
    EXPECT_NO_THROW((void)s.address_of(a));
    EXPECT_THROW((void)s.address_of(b), invalid_argument);
  });
  it.operation("b", {}, {b, segment_output}, [=](segment_call const& s) {
    EXPECT_EQ(s.in, nullptr) << "in forward as when it is run again";
    EXPECT_NE(s.out, nullptr);
    EXPECT_THROW((void)s.address_of(a), invalid_argument);
  });
  it.backward_by([](segment_call const&) {});
  segments::step_scope step(it);
  (void)it.input();
  (void)it.forward();
  it.backward();
  step.end();
}

TEST(Segments, ASessionThatCannotBeMadeMayBeTriedAgain) {
  auto settings = settings_for("keep", "100%");
  settings.stats_file = "/no/such/folder/stats";
  chain_trainer trainer(settings, memory_of::ferry, declared::whole);
  for (int i = 0; i < 3; ++i) EXPECT_THROW(trainer.step(), setting_error);
}

TEST(Segments, PointersOfTheTrainersOwnStayWhatTheyWere) {
  std::vector<float> own(layers * width);
  segments it(settings_for("offload", "50%"), layers, x_bytes);
  auto const a = it.tensor("a", x_bytes, {own.data(), 0});
  auto const check = [&](segment_call const& s) { EXPECT_EQ(s.at<float>(a), own.data() + s.index * width); };
  it.forward_by([&](segment_call const& s) {
    check(s);
    std::fill_n(s.at<float>(a), width, static_cast<float>(s.index));
    std::memcpy(s.out, s.in, x_bytes);
  });
  int wrong = 0;
  it.backward_by([&](segment_call const& s) {
    check(s);
    for (std::size_t i = 0; i < width; ++i) wrong += own[s.index * width + i] != static_cast<float>(s.index) ? 1 : 0;
  });
  for (int i = 0; i < 3; ++i) {
    segments::step_scope step(it);
    std::fill_n(it.input<float>(), width, 0.0F);
    (void)it.forward();
    it.backward();
    step.end();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(it.in_session().stats().host_to_device.transfers, 0U) << "they were elsewhere meanwhile";
}

/// Functions that enqueue, on a checked host device.
class EnqueuedSegments : public SessionTest {};

TEST_F(EnqueuedSegments, GiveTheSameBits) {
  for (auto const policy : {policy_kind::offload, policy_kind::recompute, policy_kind::automatic}) {
    start(policy, 4);
    segments it(*session_, *stream_, 8, item_bytes);
    auto const h = it.tensor("h", item_bytes);
    auto const run = [&](stream_ref on, void* to, void const* from, int add, void* out) {
      std::array const accesses{writes(to, item_bytes), reads(from, item_bytes), writes(out, item_bytes)};
      device_->launch(on, "layer", accesses, [=] {
        for (std::size_t i = 0; i < item_bytes; ++i) {
          auto const value = static_cast<unsigned char>(static_cast<unsigned char const*>(from)[i] + add);
          static_cast<unsigned char*>(to)[i] = value;
          static_cast<unsigned char*>(out)[i] = value;
        }
      });
    };
    it.forward_by([&](segment_call const& s) { run(s.stream, s.at<void>(h), s.in, 1, s.out); });
    it.backward_by([&](segment_call const& s) {
      expect(s.at<void>(h), static_cast<std::byte>(s.index + 1));
      expect(s.in, static_cast<std::byte>(s.index));
    });
    for (int i = 0; i < 3; ++i) {
      segments::step_scope step(it);
      fill(it.input(), std::byte{0});
      expect(it.forward(), std::byte{8});
      it.backward();
      stream_->synchronize();
      step.end();
    }
    TearDown();
  }
}

/// Wrong use: a typed error, and what follows works.
class SegmentErrors : public ::testing::Test {
 protected:
  void declare() {
    a_ = it_.tensor("a", x_bytes);
    it_.forward_by([this](segment_call const& s) {
      if (fails_in == static_cast<int>(s.index)) throw std::runtime_error("no number");
      if (during) during();
      std::memcpy(s.at<float>(a_), s.in, x_bytes);
      std::memcpy(s.out, s.in, x_bytes);
    });
    it_.backward_by([this](segment_call const&) {
      if (backward_fails) throw std::logic_error("backward");
    });
  }
  void step() {
    segments::step_scope step(it_);
    std::fill_n(it_.input<float>(), width, 1.0F);
    (void)it_.forward();
    it_.backward();
    step.end();
  }
  void TearDown() override {
    fails_in = -1;
    backward_fails = false;
    during = nullptr;
    EXPECT_NO_THROW(step()) << "it is usable afterwards";
    EXPECT_EQ(it_.in_session().stats().device.now_bytes, 0U);
  }

  int fails_in = -1;
  bool backward_fails = false;
  std::function<void()> during;
  tensor_id a_ = 0;
  segments it_{settings_for("recompute", "100%"), 3, x_bytes};
};

TEST_F(SegmentErrors, Declarations) {
  EXPECT_THROW(segments(0, 5), invalid_argument);
  EXPECT_THROW(segments(5, 0), invalid_argument);
  expect_error<error>([&] { it_.begin_step(); }, "no backward");
  declare();
  EXPECT_THROW(it_.tensor("late", 8), error) << "what writes it is declared";
  EXPECT_THROW(it_.forward_by([](segment_call const&) {}), error);
  EXPECT_THROW(it_.backward_by([](segment_call const&) {}), error);
  expect_error<error>([&] { (void)it_.in_session(); }, "begin one first");
  step();
  EXPECT_THROW(it_.then(2), error);
  EXPECT_THROW(it_.tensor("late", 8), error);
}

TEST_F(SegmentErrors, OperationsAndTensors) {
  segments other(settings_for("keep", "100%"), 2, x_bytes);
  auto const nothing = [](segment_call const&) {};
  auto const a = other.tensor("a", 8);
  auto const b = other.tensor("b", 8);
  EXPECT_THROW(other.tensor("a", 8), invalid_argument) << "twice";
  EXPECT_THROW(other.tensor("c", 0), invalid_argument);
  float own = 0;
  EXPECT_THROW(other.tensor("c", 8, {&own, 4}), invalid_argument) << "they overlap";
  expect_error<invalid_argument>([&] { other.operation("1", {b}, {a}, nothing); }, "no operation before it");
  other.operation("2", {segment_input}, {a}, nothing);
  expect_error<invalid_argument>([&] { other.operation("3", {}, {a}, nothing); }, "'a'", "written already");
  EXPECT_THROW(other.operation("4", {}, {segment_input}, nothing), invalid_argument);
  EXPECT_THROW(other.operation("5", {}, {}, nothing), invalid_argument);
  EXPECT_THROW(other.operation("2", {}, {b}, nothing), invalid_argument) << "another name";
  EXPECT_THROW(other.operation("6", {9}, {b}, nothing), invalid_argument);
  EXPECT_THROW(other.operation("7", {a}, {b}, {}), invalid_argument);
  other.operation("8", {a}, {segment_output}, nothing);
  EXPECT_THROW(other.operation("9", {a}, {segment_output}, nothing), invalid_argument);
  other.backward_by(nothing);
  expect_error<error>([&] { other.begin_step(); }, "no operation writes 'b'");
  declare();
}

TEST_F(SegmentErrors, CallsInAnotherOrder) {
  declare();
  EXPECT_THROW((void)it_.input(), error);
  EXPECT_THROW((void)it_.forward(), error);
  EXPECT_THROW(it_.backward(), error);
  EXPECT_THROW(it_.end_step(), error);
  segments::step_scope scope(it_);
  EXPECT_THROW(it_.begin_step(), error) << "no step in a step";
  expect_error<error>([&] { (void)it_.forward(); }, "without an input");
  (void)it_.input();
  expect_error<error>([&] { it_.forward(1); }, "out of order");
  it_.forward(0);
  EXPECT_THROW(it_.forward(0), error);
  EXPECT_THROW(it_.backward(), error);
  EXPECT_THROW((void)it_.input(), error);
  EXPECT_THROW((void)it_.output(), error);
  EXPECT_THROW(it_.resize(0, 16), error);
  EXPECT_THROW(it_.end_step(), error) << "in the midst of it";
  it_.forward(1);
  it_.forward(2);
  EXPECT_THROW(it_.forward(3), error);
  EXPECT_THROW(it_.backward(0), error);
  it_.backward(2);
  it_.backward(1);
  it_.backward(0);
  EXPECT_THROW(it_.backward(0), error);
  scope.end();
}

TEST_F(SegmentErrors, NoBackwardInAnEvaluation) {
  declare();
  segments::step_scope const scope(it_, step_kind::evaluate);
  (void)it_.input();
  (void)it_.forward();
  expect_error<error>([&] { it_.backward(); }, "evaluation");
}

TEST_F(SegmentErrors, FunctionsThatThrowEndTheStep) {
  declare();
  fails_in = 1;
  EXPECT_THROW(step(), std::runtime_error);
  fails_in = -1;
  step();
  backward_fails = true;
  EXPECT_THROW(step(), std::logic_error);
  backward_fails = false;
  // Once more in backward, where forward runs again.
  it_.begin_step();
  (void)it_.input();
  (void)it_.forward();
  fails_in = 2;
  expect_error<recipe_error>([&] { it_.backward(); }, "saved (segment 2", "no number");
}

TEST_F(SegmentErrors, CallsFromAFunctionOrAnotherThread) {
  declare();
  std::string said;
  during = [&] {
    std::thread([&] {
      try {
        it_.begin_step();
      } catch (error const& e) {
        said = e.what();
      }
    }).join();
    during = nullptr;
  };
  step();
  EXPECT_NE(said.find("a call is under way"), std::string::npos);
  during = [&] { it_.backward(); };
  EXPECT_THROW(step(), error);
  during = [&] { it_.abandon_step(); };  // nothing to do there: whoever wants to end the step throws
  EXPECT_NO_THROW(step());
}

TEST_F(SegmentErrors, TensorsThatWereNotDeclared) {
  declare();
  during = [&] {};
  segments other(settings_for("keep", "100%"), 1, x_bytes);
  auto const a = other.tensor("a", x_bytes);
  other.forward_by([&](segment_call const& s) {
    std::memcpy(s.out, s.in, x_bytes);
    (void)s.at<float>(a);
  });
  other.backward_by([&](segment_call const& s) { (void)s.at<float>(a + 1); });
  segments::step_scope const scope(other);
  std::fill_n(other.input<float>(), width, 1.0F);
  (void)other.forward();
  expect_error<invalid_argument>([&] { other.backward(); }, "tensor 1 is not used here");
}

TEST_F(SegmentErrors, ABudgetThatIsTooSmall) {
  declare();
  segments other(settings_for("recompute", "20KiB"), 3, x_bytes);
  auto const a = other.tensor("a", x_bytes);
  other.forward_by([&](segment_call const& s) { std::memcpy(s.at<float>(a), s.in, x_bytes); });
  other.backward_by([](segment_call const&) {});
  for (int i = 0; i < 2; ++i) {
    segments::step_scope const scope(other);
    (void)other.input();
    EXPECT_THROW((void)other.forward(), out_of_device_memory);
  }
}

}  // namespace
}  // namespace ferry::testing
