// The training data: what is refused and with which words, and that batches are what they promise to be.
#include "ferry/nn/token_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "ferry/error.hpp"
#include "ferry/nn/file_error.hpp"
#include "nn/data/shipped_text.hpp"
#include "support/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;
using ferry::nn::file_error;
using ferry::nn::split;
using ferry::nn::token_data;
using ferry::nn::token_width;
using ferry::testing::in_quotes;
using ferry::testing::message_of;
using ferry::testing::temporary_folder;
using ferry::testing::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct batch_values {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  friend bool operator==(batch_values const&, batch_values const&) = default;
};

batch_values batch_of(token_data const& data, split part, std::uint64_t seed, std::uint64_t index, std::size_t batch,
                      std::size_t context) {
  batch_values values{std::vector<std::int32_t>(batch * context), std::vector<std::int32_t>(batch * context)};
  data.fill_batch(part, seed, index, batch, context, values.tokens.data(), values.targets.data());
  return values;
}

/// Little-endian, `bytes` for each.
std::string file_bytes(std::vector<std::uint32_t> const& tokens, std::size_t bytes) {
  std::string text;
  for (std::uint32_t const token : tokens) {
    for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(token >> (8 * i));
  }
  return text;
}

/// The tokens 0, 1, 2 and so on: a token tells where it was.
token_data counted_up_to(std::size_t count) {
  std::vector<std::uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0u);
  temporary_folder const folder;
  write_file(folder / "f", file_bytes(tokens, 4));
  return token_data::from_tokens(folder / "f", token_width::u32, count);
}

/// The first tokens of the windows of a batch of `counted_up_to`.
std::vector<std::int32_t> starts_of(token_data const& data, split part, std::uint64_t seed, std::uint64_t index,
                                    std::size_t batch, std::size_t context) {
  auto const values = batch_of(data, part, seed, index, batch, context);
  std::vector<std::int32_t> starts;
  for (std::size_t row = 0; row < batch; ++row) starts.push_back(values.tokens[row * context]);
  return starts;
}

TEST(TokenData, ReadsTextAsBytes) {
  temporary_folder const folder;
  write_file(folder / "f", std::string(18, 'a') + "\xff\n");
  auto const data = token_data::from_text(folder / "f");
  EXPECT_EQ(data.vocabulary(), 256u);
  EXPECT_EQ(data.size(split::training), 18u);
  EXPECT_EQ(data.size(split::validation), 2u);
  auto const only = batch_of(data, split::validation, 0, 0, 1, 1);
  EXPECT_THAT(only.tokens, ElementsAre(255));
  EXPECT_THAT(only.targets, ElementsAre(10));
}

TEST(TokenData, ReadsTokensOfBothWidths) {
  temporary_folder const folder;
  std::vector<std::uint32_t> tokens(20, 7);
  tokens[18] = 50'256;
  tokens[19] = 513;
  write_file(folder / "f16", file_bytes(tokens, 2));
  tokens[18] = 2'147'483'647;
  write_file(folder / "f32", file_bytes(tokens, 4));
  auto const narrow = token_data::from_tokens(folder / "f16", token_width::u16, 50'257);
  auto const wide = token_data::from_tokens(folder / "f32", token_width::u32, std::size_t{1} << 31);
  EXPECT_EQ(narrow.vocabulary(), 50'257u);
  EXPECT_THAT(batch_of(narrow, split::validation, 0, 0, 1, 1).tokens, ElementsAre(50'256));
  EXPECT_THAT(batch_of(narrow, split::validation, 0, 0, 1, 1).targets, ElementsAre(513));
  EXPECT_THAT(batch_of(wide, split::validation, 0, 0, 1, 1).tokens, ElementsAre(2'147'483'647));
}

TEST(TokenData, ShipsATextThatIsPlainEnglish) {
  auto const text = ferry::nn::shipped_text();
  EXPECT_GT(text.size(), 200'000u);
  EXPECT_THAT(std::string(text),
              HasSubstr("It is a truth universally acknowledged, that a single man in possession\n"));
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  EXPECT_EQ(text.back(), '\n');

  auto const data = token_data::shipped();
  EXPECT_EQ(data.vocabulary(), 256u);
  EXPECT_EQ(data.size(split::training) + data.size(split::validation), text.size());
  EXPECT_NO_THROW(data.require_context(1024));
}

TEST(TokenData, RefusesWhatIsNoFile) {
  temporary_folder const folder;
  write_file(folder / "empty", "");
  auto const error_of_text = [](fs::path const& file) {
    return message_of<file_error>([&] { static_cast<void>(token_data::from_text(file)); });
  };
  auto const error_of_tokens = [](fs::path const& file) {
    return message_of<file_error>([&] { static_cast<void>(token_data::from_tokens(file, token_width::u16, 9)); });
  };
  std::string const missing =
      in_quotes(folder / "none") + ": cannot be read: No such file or directory; check the path";
  EXPECT_EQ(error_of_text(folder / "none"), missing);
  EXPECT_EQ(error_of_tokens(folder / "none"), missing);
  std::string const directory = in_quotes(folder.path()) + ": is a directory; name a file in it";
  EXPECT_EQ(error_of_text(folder.path()), directory);
  EXPECT_EQ(error_of_tokens(folder.path()), directory);
  std::string const empty = in_quotes(folder / "empty") + ": is empty; give a file with something to train on";
  EXPECT_EQ(error_of_text(folder / "empty"), empty);
  EXPECT_EQ(error_of_tokens(folder / "empty"), empty);
}

TEST(TokenData, RefusesPartsOfTokens) {
  temporary_folder const folder;
  write_file(folder / "f", "123456");
  EXPECT_NO_THROW(static_cast<void>(token_data::from_tokens(folder / "f", token_width::u16, 65'536)));
  EXPECT_EQ(message_of<file_error>([&] {
              static_cast<void>(token_data::from_tokens(folder / "f", token_width::u32, std::size_t{1} << 31));
            }),
            in_quotes(folder / "f") +
                ": its 6 bytes are no whole number of 32-bit tokens; check the width of its tokens, or write it again");
}

TEST(TokenData, RefusesTokensOutsideTheVocabulary) {
  temporary_folder const folder;
  write_file(folder / "f", file_bytes({0, 99, 100, 500, 3}, 2));
  auto const read = [&](std::size_t vocabulary) {
    return token_data::from_tokens(folder / "f", token_width::u16, vocabulary);
  };
  EXPECT_EQ(message_of<file_error>([&] { static_cast<void>(read(100)); }),
            in_quotes(folder / "f") +
                ": token number 2 is 100, but the vocabulary is only 100; raise --vocab to what the tokens were made "
                "with, at least 501, or check that they have 16 bits");
  EXPECT_NO_THROW(static_cast<void>(read(501)));

  write_file(folder / "f", file_bytes({std::numeric_limits<std::uint32_t>::max()}, 4));
  EXPECT_THAT(message_of<file_error>([&] {
                static_cast<void>(token_data::from_tokens(folder / "f", token_width::u32, std::size_t{1} << 31));
              }),
              HasSubstr("token number 0 is 4294967295"));
}

TEST(TokenData, RefusesAVocabularyOfNoneOrTooMany) {
  temporary_folder const folder;
  write_file(folder / "f", "12");
  for (std::size_t const vocabulary : {std::size_t{0}, (std::size_t{1} << 31) + 1}) {
    EXPECT_THROW(static_cast<void>(token_data::from_tokens(folder / "f", token_width::u16, vocabulary)),
                 ferry::invalid_argument);
  }
}

TEST(TokenData, RefusesAContextLongerThanASplit) {
  temporary_folder const folder;
  std::string const name = in_quotes(folder / "f") + "";
  write_file(folder / "f", std::string(509, 'x'));
  auto const data = token_data::from_text(folder / "f");
  EXPECT_NO_THROW(data.require_context(49));
  std::string const too_long = name +
                               ": has 509 tokens, which leaves 50 for validation: too few for a context of 50; use "
                               "--context 49 or less, or a longer file";
  EXPECT_EQ(message_of<file_error>([&] { data.require_context(50); }), too_long);
  EXPECT_EQ(message_of<file_error>([&] { batch_of(data, split::training, 0, 0, 1, 50); }), too_long);
  EXPECT_THROW(data.require_context(std::numeric_limits<std::size_t>::max()), file_error);

  write_file(folder / "f", std::string(19, 'x'));
  EXPECT_EQ(message_of<file_error>([&] { token_data::from_text(folder / "f").require_context(1); }),
            name + ": has 19 tokens, which leaves 1 for validation: too few for a context of 1; use a longer file");
  EXPECT_THAT(message_of<file_error>([&] { token_data::shipped().require_context(1'000'000); }),
              HasSubstr("'the shipped text': has "));
}

TEST(TokenData, TheFileIsNotNeededAfterReading) {
  temporary_folder const folder;
  write_file(folder / "f", std::string(100, 'x'));
  auto const data = token_data::from_text(folder / "f");
  write_file(folder / "f", "");
  EXPECT_THAT(batch_of(data, split::training, 1, 1, 1, 2).tokens, ElementsAre('x', 'x'));
}

// A change here breaks every run that was to be resumed.
TEST(TokenData, DrawsTheSameOnEveryMachine) {
  auto const data = counted_up_to(100'000);
  EXPECT_THAT(starts_of(data, split::training, 1, 0, 4, 8), ElementsAre(62'410, 38'085, 10'177, 77'100));
  EXPECT_THAT(starts_of(data, split::training, 1, 7, 4, 8), ElementsAre(87'060, 85'142, 37'137, 62'288));
  EXPECT_THAT(starts_of(data, split::validation, 1, 0, 4, 8), ElementsAre(90'000, 96'175, 92'358, 98'534));
}

TEST(TokenData, SeedsIndicesAndRowsDrawOtherWindows) {
  auto const data = counted_up_to(1'000'000);
  std::set<std::int32_t> starts;
  std::size_t drawn = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t index = 0; index < 10; ++index) {
      auto const batch = starts_of(data, split::training, seed, index, 10, 4);
      starts.insert(batch.begin(), batch.end());
      drawn += batch.size();
    }
  }
  // A thousand draws out of 900,000 meet by chance about once in two times.
  EXPECT_GT(starts.size(), drawn - 10);
}

TEST(TokenData, TrainingWindowsLieEverywhere) {
  auto const data = counted_up_to(1000);
  constexpr std::size_t batch = 20'000;
  std::vector<int> hits(900 - 4);
  for (std::int32_t const start : starts_of(data, split::training, 3, 5, batch, 4)) ++hits.at(start);
  auto const [least, most] = std::minmax_element(hits.begin(), hits.end());
  EXPECT_GT(*least, 0);
  EXPECT_LT(*most, 60) << "22 on average";
}

TEST(TokenData, ValidationWindowsAreSpreadEvenly) {
  auto const data = counted_up_to(100'000);
  for (std::size_t const windows : {4u, 10u, 64u, 100u}) {
    auto starts = starts_of(data, split::validation, 0, 0, windows, 16);
    std::sort(starts.begin(), starts.end());
    starts.push_back(100'000);
    std::int32_t before = 90'000;
    for (std::int32_t const start : starts) {
      EXPECT_LE(start - before, 2 * 10'000 / static_cast<int>(windows)) << windows << " windows";
      before = start;
    }
  }
}

TEST(TokenData, ValidationGoesOnFromBatchToBatchWhateverTheSeed) {
  auto const data = counted_up_to(100'000);
  auto const all = starts_of(data, split::validation, 0, 0, 8, 16);
  EXPECT_THAT(starts_of(data, split::validation, 5, 1, 4, 16), ElementsAre(all[4], all[5], all[6], all[7]));
}

/// What a batch may be asked with.
struct asked {
  std::size_t count;
  std::size_t context;
  std::size_t batch;
  std::uint64_t seed;
  std::uint64_t index;
};

asked draw_asked() {
  auto const count = *rc::gen::inRange<std::size_t>(20, 2000);
  return {count, *rc::gen::inRange<std::size_t>(1, count / 10), *rc::gen::inRange<std::size_t>(0, 9),
          *rc::gen::arbitrary<std::uint64_t>(), *rc::gen::arbitrary<std::uint64_t>()};
}

RC_GTEST_PROP(TokenDataProperty, BatchesAreWindowsOfTheirSplitMovedOnByOne, ()) {
  auto const [count, context, batch, seed, index] = draw_asked();
  auto const part = *rc::gen::element(split::training, split::validation);
  auto const data = counted_up_to(count);
  RC_ASSERT(data.size(split::training) + data.size(split::validation) == count);
  auto const first = static_cast<std::int32_t>(part == split::training ? 0 : data.size(split::training));
  auto const end = first + static_cast<std::int32_t>(data.size(part));

  auto const values = batch_of(data, part, seed, index, batch, context);
  for (std::size_t row = 0; row < batch; ++row) {
    auto const start = values.tokens[row * context];
    RC_ASSERT(start >= first);
    RC_ASSERT(start + static_cast<std::int32_t>(context) < end);
    for (std::size_t i = 0; i < context; ++i) {
      RC_ASSERT(values.tokens[row * context + i] == start + static_cast<std::int32_t>(i));
      RC_ASSERT(values.targets[row * context + i] == start + static_cast<std::int32_t>(i) + 1);
    }
  }
}

RC_GTEST_PROP(TokenDataProperty, ABatchDependsOnNothingBeforeIt, ()) {
  auto const [count, context, batch, seed, index] = draw_asked();
  auto const part = *rc::gen::element(split::training, split::validation);
  auto const going_on = counted_up_to(count);
  for (std::uint64_t before = 1; before < 4; ++before) batch_of(going_on, part, seed, index - before, batch, context);
  RC_ASSERT(batch_of(going_on, part, seed, index, batch, context) ==
            batch_of(counted_up_to(count), part, seed, index, batch, context));
}

}  // namespace
