// Weights in files: what is written reads back the same, here and in Python; what is damaged is refused with words.
#include "ferry/nn/safetensors.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/error.hpp"
#include "ferry/nn/file_error.hpp"
#include "support/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;
using ferry::nn::file_error;
using ferry::nn::safetensors_file;
using ferry::nn::stored_tensor;
using ferry::nn::tensor_to_write;
using ferry::nn::write_safetensors;
using ferry::testing::in_quotes;
using ferry::testing::message_of;
using ferry::testing::read_file;
using ferry::testing::temporary_folder;
using ferry::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

using shape = std::vector<std::size_t>;

constexpr char const* damaged = "; it is damaged or no safetensors file: download or save it again";

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes.append(rest);
}

/// A file of `header` and as much data.
std::string file_of(std::string_view header, std::size_t data_bytes = 0) {
  return with_length(header.size(), std::string(header) + std::string(data_bytes, '\0'));
}

/// Why `bytes` are refused, without the file's name.
std::string error_of(std::string const& bytes) {
  temporary_folder const folder;
  fs::path const file = folder / "f";
  write_file(file, bytes);
  std::string const message = message_of<file_error>([&] { safetensors_file{file}; });
  std::string const start = in_quotes(file) + ": ";
  EXPECT_THAT(message, ::testing::StartsWith(start)) << "for " << bytes.substr(0, 200);
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return message.size() < start.size() ? message : message.substr(start.size());
}

/// The same for a header, of which every one is damaged.
std::string problem_of(std::string_view header, std::size_t data_bytes = 0) {
  std::string const message = error_of(file_of(header, data_bytes));
  EXPECT_THAT(message, EndsWith(damaged));
  return message.substr(0, message.rfind(damaged));
}

std::vector<float> floats_of(safetensors_file const& file, stored_tensor const& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  file.copy_floats(tensor, values);
  return values;
}

TEST(Safetensors, ReadsAFileWrittenByPython) {
  safetensors_file const file(fs::path(FERRY_TEST_DATA) / "python.safetensors");
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("format", "pt"), Pair("note", "written by Python")));
  ASSERT_EQ(file.tensors().size(), 4u);
  for (auto const& tensor : file.tensors()) EXPECT_EQ(tensor.dtype, "F32");
  EXPECT_EQ(file.find("cube.w")->shape, (shape{2, 2, 2}));
  EXPECT_THAT(floats_of(file, *file.find("cube.w")), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(file.find("matrix")->shape, (shape{2, 3}));
  EXPECT_THAT(floats_of(file, *file.find("matrix")), ElementsAre(0, 0.25, 0.5, 0.75, 1, 1.25));
  EXPECT_EQ(file.find("scalar")->shape, shape{});
  EXPECT_THAT(floats_of(file, *file.find("scalar")), ElementsAre(-2.5));
  EXPECT_EQ(file.find("empty")->shape, (shape{0, 4}));
  EXPECT_THAT(floats_of(file, *file.find("empty")), IsEmpty());
}

TEST(Safetensors, WritesAsTheReferenceDoes) {
  temporary_folder const folder;
  std::vector<float> const values{1, 2};
  write_safetensors(folder / "f", std::vector<tensor_to_write>{{"b", {2}, values}, {"a", {}, {values.data(), 1}}});
  std::string const bytes = read_file(folder / "f");
  std::string const header = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
  std::string const padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string const numbers("\0\0\x80\x3f\0\0\0\x40\0\0\x80\x3f", 12);
  EXPECT_EQ(bytes, with_length(padded.size(), padded + numbers));
}

TEST(Safetensors, KeepsTheFormatOfTheCaller) {
  temporary_folder const folder;
  write_safetensors(folder / "f", {}, {{"format", "mlx"}});
  EXPECT_THAT(safetensors_file(folder / "f").metadata(), ElementsAre(Pair("format", "mlx")));
  EXPECT_THAT(safetensors_file(folder / "f").tensors(), IsEmpty());
}

TEST(Safetensors, GivesTensorsInTheOrderOfTheirBytes) {
  temporary_folder const folder;
  write_file(folder / "f", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                                   R"("b":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}})",
                                   3));
  safetensors_file const file(folder / "f");
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "b");
  EXPECT_EQ(file.tensors()[0].dtype, "BF16");
  EXPECT_EQ(file.tensors()[1].name, "a");
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, ReadsNumbersAtAnyAlignment) {
  temporary_folder const folder;
  for (std::size_t blanks = 0; blanks < 8; ++blanks) {
    std::string const header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})" + std::string(blanks, ' ');
    write_file(folder / "f", with_length(header.size(), header + std::string("\0\0\x80\x3f", 4)));
    safetensors_file const file(folder / "f");
    EXPECT_THAT(floats_of(file, file.tensors()[0]), ElementsAre(1.0f));
  }
}

TEST(Safetensors, StaysValidWhenMoved) {
  temporary_folder const folder;
  std::vector<float> const values{7};
  write_safetensors(folder / "f", std::vector<tensor_to_write>{{"a", {1}, values}});
  safetensors_file first(folder / "f");
  safetensors_file second = std::move(first);
  write_safetensors(folder / "f", {});  // replaces the file, not what is open
  first = std::move(second);
  EXPECT_THAT(floats_of(first, *first.find("a")), ElementsAre(7.0f));
}

TEST(Safetensors, CopyFloatsWantsTheTypeAndTheSize) {
  temporary_folder const folder;
  write_file(folder / "f", file_of(R"({"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]},)"
                                   R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                                   R"("c":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]}})",
                                   16));
  safetensors_file const file(folder / "f");
  std::vector<float> one(1);
  EXPECT_EQ(message_of<file_error>([&] { file.copy_floats(*file.find("a"), one); }),
            in_quotes(folder / "f") + ": tensor 'a' is of type I16, not F32, F16 or BF16; save it as one of these");
  for (char const* const name : {"b", "c"}) {
    EXPECT_EQ(message_of<file_error>([&] { file.copy_floats(*file.find(name), one); }),
              in_quotes(folder / "f") + ": tensor '" + name +
                  "' has 2 numbers where 1 are needed; use a file of a model with the same shape");
  }
}

/// Each of all 65536, read as the type that the header says.
std::vector<float> every_sixteen_bits_as(char const* dtype) {
  std::string text =
      file_of(fmt::format(R"({{"a":{{"dtype":"{}","shape":[65536],"data_offsets":[0,131072]}}}})", dtype));
  for (unsigned bits = 0; bits < 65536; ++bits) {
    text += static_cast<char>(bits & 255U);
    text += static_cast<char>(bits >> 8U);
  }
  temporary_folder const folder;
  write_file(folder / "f", text);
  safetensors_file const file(folder / "f");
  std::vector<float> values(65536);
  file.copy_floats(*file.find("a"), values);
  return values;
}

TEST(Safetensors, HalfPrecisionIsReadExactly) {
  auto const values = every_sixteen_bits_as("F16");
  for (unsigned bits = 0; bits < 65536; ++bits) {
    int const exponent = static_cast<int>(bits >> 10U & 31U);
    double const fraction = bits & 1023U;
    float const value = values[bits];
    EXPECT_EQ(std::signbit(value), bits >= 0x8000U);
    if (exponent == 31) {
      EXPECT_EQ(std::isinf(value), fraction == 0) << bits;
      EXPECT_EQ(std::isnan(value), fraction != 0) << bits;
    } else if (exponent == 0) {
      EXPECT_EQ(std::abs(value), std::ldexp(fraction, -24)) << bits;
    } else {
      EXPECT_EQ(std::abs(value), std::ldexp(1 + fraction / 1024, exponent - 15)) << bits;
    }
  }
  EXPECT_EQ(values[0x3c00], 1);
  EXPECT_EQ(values[0x7bff], 65504);
}

TEST(Safetensors, BrainFloatsAreTheUpperHalvesOfFloats) {
  auto const values = every_sixteen_bits_as("BF16");
  for (unsigned bits = 0; bits < 65536; ++bits) {
    if (std::isnan(values[bits])) {
      EXPECT_TRUE((bits & 0x7f80U) == 0x7f80U && (bits & 0x7fU) != 0) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[bits]), bits << 16U);
    }
  }
  EXPECT_EQ(values[0x3f80], 1);
}

TEST(Safetensors, RefusesToWriteWhatCouldNotBeRead) {
  temporary_folder const folder;
  std::vector<float> const two{1, 2};
  auto const error_of_writing = [&](std::vector<tensor_to_write> const& tensors) {
    return message_of<ferry::invalid_argument>([&] { write_safetensors(folder / "f", tensors); });
  };
  EXPECT_EQ(error_of_writing({{"a", {2}, two}, {"a", {2}, two}}), "two tensors are called 'a': rename one");
  EXPECT_THAT(error_of_writing({{"a", {3}, two}}), HasSubstr("tensor 'a' has 2 numbers, which is not what its shape"));
  std::size_t const huge = std::size_t{1} << 63;
  EXPECT_THAT(error_of_writing({{"a", {huge, 4}, {}}}), HasSubstr("tensor 'a' has 0 numbers"));
  EXPECT_THAT(error_of_writing({{"__metadata__", {2}, two}}), HasSubstr("cannot be called '__metadata__'"));
  EXPECT_THAT(error_of_writing({{"\xff", {2}, two}}), HasSubstr("not UTF-8"));
  EXPECT_FALSE(fs::exists(folder / "f"));
}

TEST(Safetensors, ReportsAFolderThatIsMissing) {
  temporary_folder const folder;
  EXPECT_THAT(message_of<file_error>([&] { write_safetensors(folder / "sub/f", {}); }), HasSubstr("create the folder"));
}

TEST(SafetensorsRefuses, WhatIsNoFile) {
  temporary_folder const folder;
  auto const error_of_opening = [](fs::path const& file) {
    return message_of<file_error>([&] { safetensors_file{file}; });
  };
  EXPECT_EQ(error_of_opening(folder / "none"),
            in_quotes(folder / "none") + ": cannot be read: No such file or directory; check the path");
  EXPECT_EQ(error_of_opening(folder.path()), in_quotes(folder.path()) + ": is a directory; name a file in it");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of_opening(folder / "pipe"),
              EndsWith("is a pipe or a device; copy what it gives into a file first"));
}

TEST(SafetensorsRefuses, AnAbsurdLength) {
  EXPECT_EQ(error_of(""), std::string("is empty") + damaged);
  EXPECT_EQ(error_of("1234567"), std::string("has only 7 bytes") + damaged);
  EXPECT_EQ(error_of(with_length(3, "{}")), std::string("claims a header of 3 bytes, but only 2 follow") + damaged);
  EXPECT_EQ(error_of(with_length(100'000'001, "{}")),
            std::string("claims a header of 100000001 bytes, more than any has") + damaged);
  EXPECT_THAT(error_of(with_length(std::numeric_limits<std::uint64_t>::max(), "{}")), HasSubstr("more than any has"));
}

TEST(SafetensorsRefuses, WhatIsNoJson) {
  EXPECT_EQ(problem_of(""), "its header is no JSON object");
  EXPECT_EQ(problem_of("[]"), "its header is no JSON object");
  EXPECT_EQ(problem_of(" {}"), "its header is no JSON object");
  EXPECT_EQ(problem_of("{"), "its header is not JSON at byte 2");
  EXPECT_EQ(problem_of("{}x"), "its header is not JSON at byte 3");
  EXPECT_EQ(problem_of(std::string_view("{}\0x", 4)), "its header is not JSON at byte 3");
  EXPECT_EQ(problem_of("{\"\xff\":1}"), "its header is not JSON at byte 3");
  EXPECT_EQ(problem_of(R"({"a":1e999})"), "its header has a number that is too large");
}

TEST(SafetensorsRefuses, AnyDepth) {
  std::size_t const depth = 1'000'000;
  EXPECT_EQ(problem_of(R"({"a":{"shape":[[]]}})"), "its header is nested too deeply");
  EXPECT_EQ(problem_of(R"({"a":)" + std::string(depth, '[')), "its header is nested too deeply");
  std::string objects = "{";
  for (std::size_t i = 0; i < depth; ++i) objects += R"("a":{)";
  EXPECT_EQ(problem_of(objects), "its header is nested too deeply");
}

TEST(SafetensorsRefuses, NamesThatAreUsedTwice) {
  std::string const entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(problem_of(R"({"a":)" + entry + R"(,"a":)" + entry + "}"), "its header has 'a' twice");
  EXPECT_EQ(problem_of(R"({"__metadata__":{},"__metadata__":{}})"), "its header has '__metadata__' twice");
  EXPECT_EQ(problem_of(R"({"__metadata__":{"x":"1","x":"1"}})"), "its header has 'x' twice");
  EXPECT_EQ(problem_of(R"({"a":{"shape":[0],"shape":[1]}})"), "its header has 'shape' twice");
}

TEST(SafetensorsRefuses, FieldsThatAreMissingOrOfAnotherType) {
  EXPECT_EQ(problem_of(R"({"a":1})"), "the entry of tensor 'a' is no JSON object");
  EXPECT_EQ(problem_of(R"({"a":null})"), "the entry of tensor 'a' is no JSON object");
  EXPECT_EQ(problem_of(R"({"a":{}})"), "tensor 'a' has no 'dtype'");
  EXPECT_EQ(problem_of(R"({"a":{"dtype":"U8"}})"), "tensor 'a' has no 'shape'");
  EXPECT_EQ(problem_of(R"({"a":{"dtype":"U8","shape":[]}})"), "tensor 'a' has no 'data_offsets'");
  EXPECT_EQ(problem_of(R"({"a":{"dtype":8}})"), "the 'dtype' of tensor 'a' is no text");
  EXPECT_EQ(problem_of(R"({"__metadata__":[]})"), "its '__metadata__' is no JSON object of texts");
  EXPECT_EQ(problem_of(R"({"__metadata__":{"x":1}})"), "its '__metadata__' is no JSON object of texts");
}

TEST(SafetensorsRefuses, NumbersThatCountNothing) {
  for (char const* list : {"3", "{}", "[-1]", "[1.0]", "[\"1\"]", "[null]", "[18446744073709551616]"}) {
    EXPECT_EQ(problem_of(std::string(R"({"a":{"dtype":"U8","shape":)") + list + "}}"),
              "the 'shape' of tensor 'a' is no list of whole numbers");
    EXPECT_EQ(problem_of(std::string(R"({"a":{"dtype":"U8","shape":[],"data_offsets":)") + list + "}}"),
              "the 'data_offsets' of tensor 'a' is no list of whole numbers");
  }
  for (char const* list : {"[]", "[0]", "[0,1,2]", "[1,0]"}) {
    EXPECT_EQ(problem_of(std::string(R"({"a":{"dtype":"U8","shape":[],"data_offsets":)") + list + "}}"),
              "the 'data_offsets' of tensor 'a' are no begin and end");
  }
}

TEST(SafetensorsRefuses, AnUnknownType) {
  EXPECT_EQ(error_of(file_of(R"({"a":{"dtype":"F\n7","shape":[],"data_offsets":[0,0]}})")),
            "tensor 'a' has the unknown dtype 'F?7'; save it with another, such as F32");
}

TEST(SafetensorsRefuses, AShapeThatDoesNotFit) {
  EXPECT_EQ(problem_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})"),
            "the shape of tensor 'a' is too large");
  EXPECT_EQ(problem_of(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
            "the shape of tensor 'a' is too large");
  EXPECT_EQ(problem_of(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 20),
            "tensor 'a' needs 24 bytes for its shape but has 20");
}

TEST(SafetensorsRefuses, DataThatDoesNotFit) {
  auto const header = [](std::string const& first, std::string const& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(problem_of(header("[0,4]", "[4,8]"), 7),
            "is cut short: tensor 'b' ends at byte 8 of the data, of which there are 7");
  EXPECT_EQ(problem_of(header("[0,4]", "[4,8]"), 9), "has 1 bytes behind its last tensor");
  EXPECT_EQ(problem_of(header("[0,4]", "[3,7]"), 8), "tensors 'a' and 'b' overlap");
  EXPECT_EQ(problem_of(header("[0,4]", "[0,4]"), 4), "tensors 'a' and 'b' overlap");
  EXPECT_EQ(problem_of(header("[0,4]", "[5,9]"), 9), "there is a gap before tensor 'b'");
  EXPECT_EQ(problem_of(header("[5,9]", "[1,5]"), 9), "there is a gap before tensor 'b'");
  EXPECT_EQ(problem_of("{}", 1), "has 1 bytes behind its last tensor");
  EXPECT_EQ(problem_of(header("[0,4]", "[18446744073709551611,18446744073709551615]"), 8),
            "there is a gap before tensor 'b'");
}

TEST(SafetensorsRefuses, WithOneShortLineWhateverTheNames) {
  std::string const message = error_of(file_of("{\"a\\nb\\u001b" + std::string(10'000, 'x') + "\":1}"));
  EXPECT_THAT(message, AllOf(HasSubstr("'a?b?xxx"), HasSubstr("xxx...'")));
  EXPECT_LT(message.size(), 300u);
}

/// Tensors that own their numbers.
struct drawn_tensor {
  shape dims;
  std::vector<float> values;
};

std::map<std::string, drawn_tensor> draw_tensors() {
  std::map<std::string, drawn_tensor> tensors;
  auto const names = *rc::gen::container<std::set<std::string>>(rc::gen::string<std::string>());
  for (auto const& drawn : names) {
    std::string name;  // as UTF-8: what is above ASCII as two bytes
    for (char const c : drawn) {
      auto const code = static_cast<unsigned char>(c);
      name += code < 0x80 ? std::string(1, c)
                          : std::string{static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
    }
    auto const dims = *rc::gen::resize(4, rc::gen::container<shape>(rc::gen::inRange<std::size_t>(0, 4)));
    std::size_t count = 1;
    for (std::size_t const dim : dims) count *= dim;
    auto const bits = *rc::gen::container<std::vector<std::uint32_t>>(count, rc::gen::arbitrary<std::uint32_t>());
    drawn_tensor tensor{dims, {}};
    for (std::uint32_t const pattern : bits) tensor.values.push_back(std::bit_cast<float>(pattern));
    tensors.emplace(name, tensor);
  }
  return tensors;
}

RC_GTEST_PROP(SafetensorsProperty, WhatIsWrittenReadsBackBitForBit, ()) {
  auto const drawn = draw_tensors();
  std::vector<tensor_to_write> tensors;
  for (auto const& [name, tensor] : drawn) tensors.push_back({name, tensor.dims, tensor.values});

  temporary_folder const folder;
  write_safetensors(folder / "f", tensors, {{"key\n\"", "value\\"}});
  safetensors_file const file(folder / "f");
  RC_ASSERT(file.metadata() == (std::map<std::string, std::string>{{"format", "pt"}, {"key\n\"", "value\\"}}));
  RC_ASSERT(file.tensors().size() == drawn.size());
  for (auto const& [name, tensor] : drawn) {
    auto const* const found = file.find(name);
    RC_ASSERT(found != nullptr);
    RC_ASSERT(found->shape == tensor.dims);
    auto const expected = std::as_bytes(std::span(tensor.values));
    RC_ASSERT(std::equal(found->bytes.begin(), found->bytes.end(), expected.begin(), expected.end()));
  }
}

/// `bytes` are refused, or all that was found in them lies within them.
void check_refused_or_whole(std::string const& bytes) {
  temporary_folder const folder;
  write_file(folder / "f", bytes);
  try {
    safetensors_file const file(folder / "f");
    std::size_t found_bytes = 0;
    for (auto const& tensor : file.tensors()) {
      found_bytes += tensor.bytes.size();
      if (tensor.dtype == "F32") floats_of(file, tensor);
    }
    RC_ASSERT(found_bytes + 8 + static_cast<unsigned char>(bytes[0]) + 256 * static_cast<unsigned char>(bytes[1]) ==
              bytes.size());
  } catch (file_error const& problem) {
    RC_ASSERT(std::string_view(problem.what()).find('\n') == std::string_view::npos);
  }
}

RC_GTEST_PROP(SafetensorsProperty, DamageIsRefusedOrReadsWithinTheFile, ()) {
  std::string bytes = read_file(fs::path(FERRY_TEST_DATA) / "python.safetensors");
  auto const flips = *rc::gen::container<std::vector<std::pair<std::size_t, unsigned char>>>(
      rc::gen::pair(rc::gen::inRange<std::size_t>(0, bytes.size()), rc::gen::arbitrary<unsigned char>()));
  for (auto const& [place, value] : flips) bytes[place] = static_cast<char>(value);
  if (*rc::gen::arbitrary<bool>()) bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 9));
  check_refused_or_whole(bytes);
}

std::string joined(std::vector<std::string> const& parts) {
  std::string text;
  for (auto const& part : parts) text.append(text.empty() ? "" : ",").append(part);
  return text;
}

// Most random damage ends at the JSON; these texts of valid JSON get further.
RC_GTEST_PROP(SafetensorsProperty, HeadersOfRandomPartsAreRefusedOrReadWithinTheFile, ()) {
  auto const number = rc::gen::element<std::string>("0", "0", "0", "0", "1", "1", "4", "4", "8", "8", "-1", "1.5",
                                                    "null", "9223372036854775808", "18446744073709551615");
  auto const list = [&](std::size_t length) {
    return fmt::format("[{}]", joined(*rc::gen::container<std::vector<std::string>>(length, number)));
  };
  std::vector<std::string> entries;
  for (char const* name : {"a", "b", "c"}) {
    auto const dtype = *rc::gen::element<std::string>("F32", "U8", "?");
    auto const dims = list(*rc::gen::inRange<std::size_t>(0, 3));
    entries.push_back(fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, dims, list(2)));
  }
  entries.resize(*rc::gen::inRange<std::size_t>(0, 4));
  auto const data_bytes = *rc::gen::element<std::size_t>(0, 1, 4, 8);
  check_refused_or_whole(file_of(fmt::format("{{{}}}", joined(entries)), data_bytes));
}

}  // namespace
