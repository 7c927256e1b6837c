// The catalogue's file, and how names are found in it.
#include "plan/gpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "embedded/gpus_json.hpp"
#include "ferry/error.hpp"
#include "plan/formats.hpp"
#include "plan/json_reader.hpp"
#include "plan/limits.hpp"
#include "support/text.hpp"

namespace ferry::planning {

namespace {

constexpr double copy_latency_us = 10;  // more than its bytes take, between a copy's submission and its event
constexpr std::size_t most_gpus = 1'000;
constexpr std::size_t most_names = 32;   // of one GPU
constexpr std::size_t name_chars = 64;   // of a GPU
constexpr std::size_t most_nearest = 3;  // names that an error suggests

/// GB/s of pinned copies with 16 lanes, out of the device and into it.
std::optional<std::pair<double, double>> copies_of(unsigned generation) {
  switch (generation) {
    case 3:
      return {{12.5, 12}};
    case 4:
      return {{25.5, 24.5}};
    case 5:
      return {{53, 51}};
    default:
      return std::nullopt;
  }
}

double positive(fields const& from, std::string_view key, double most) {
  double const value = from.number(key);
  if (value > 0 && limits::within(value, most)) return value;
  throw bad_field(from.place_of(key), fmt::format("is {}", value), fmt::format("give a number above 0, to {:g}", most));
}

std::size_t gib(fields const& from, std::string_view key) {
  constexpr double most = static_cast<double>(limits::bytes >> 30);
  return static_cast<std::size_t>(positive(from, key, most) * 0x1p30);
}

rate rate_of(fields const& from, double most) {
  rate const of{positive(from, "peak", most), positive(from, "sustained", most)};
  if (of.sustained <= of.peak) return of;
  throw bad_field(from.place_of("sustained"), fmt::format("is {}, above the peak", of.sustained),
                  fmt::format("give at most {}", of.peak));
}

std::string name_of(std::string text, std::string const& place) {
  bool const plain = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  if (!text.empty() && plain) return text;
  throw bad_field(place, fmt::format("is {}", support::quoted(text)), "give a name in plain letters");
}

void read_link(fields const& from, gpu& to) {
  to.pcie_generation = from.index("generation");
  to.pcie_lanes = from.index("lanes");
  if (to.pcie_lanes == 0 || to.pcie_lanes > 16) {
    throw bad_field(from.place_of("lanes"), fmt::format("is {}", to.pcie_lanes), "give a number from 1 to 16");
  }
  auto const known = copies_of(to.pcie_generation);
  bool const given = from.has("device_to_host_gbps") && from.has("host_to_device_gbps");
  if (!known && !given) {
    throw bad_field(from.place_of("generation"), fmt::format("is {}", to.pcie_generation),
                    "give 3, 4 or 5, or device_to_host_gbps and host_to_device_gbps");
  }
  double const share = to.pcie_lanes / 16.0;
  auto const gbps = [&](std::string_view key, double of_16_lanes) {
    return from.has(key) ? positive(from, key, limits::gbps) : of_16_lanes * share;
  };
  to.device_to_host = {gbps("device_to_host_gbps", known ? known->first : 0), copy_latency_us};
  to.host_to_device = {gbps("host_to_device_gbps", known ? known->second : 0), copy_latency_us};
  auto const share_of = [&](std::string_view key, link_speed const& alone) {
    if (!from.has(key)) return 1.0;
    return std::clamp(positive(from, key, limits::gbps) / alone.gbps, contention::least, 1.0);
  };
  to.beside.out_beside_back = share_of("both_device_to_host_gbps", to.device_to_host);
  to.beside.back_beside_out = share_of("both_host_to_device_gbps", to.host_to_device);
}

gpu gpu_of(nlohmann::json const& row) {
  fields const from(row);
  gpu made;
  made.name = name_of(from.text("name", name_chars), "name");
  if (from.has("also")) {
    auto const& names = from.array("also");
    if (names.size() > most_names) {
      throw bad_field("also", fmt::format("has {} names", names.size()), fmt::format("give at most {}", most_names));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      made.also.push_back(name_of(text_of(names[i], "also", i, name_chars), fmt::format("also[{}]", i)));
    }
  }
  made.device_bytes = gib(from, "memory_gib");
  made.host_bytes = gib(from, "host_gib");
  made.bf16 = from.flag("bf16");
  made.half_tflops = rate_of(from.object("half_tflops"), limits::tflops);
  made.fp32_tflops = rate_of(from.object("fp32_tflops"), limits::tflops);
  made.memory_gbps = rate_of(from.object("memory_gbps"), limits::gbps);
  read_link(from.object("pcie"), made);
  return made;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z'); }

/// Lower case letters and digits alone, without the words that say nothing: "NVIDIA GeForce RTX 4090" is "rtx4090".
std::string essence(std::string_view name) {
  constexpr std::array<std::string_view, 4> empty_words{"nvidia", "geforce", "tesla", "quadro"};
  std::string all;
  std::string word;
  auto const end_word = [&] {
    if (std::ranges::find(empty_words, word) == empty_words.end()) all += word;
    word.clear();
  };
  for (char const c : name.substr(0, 4 * name_chars)) {
    if (is_letter_or_digit(c)) {
      word += lower(c);
    } else {
      end_word();
    }
  }
  end_word();
  return all.substr(0, name_chars);
}

/// "m1" to "m9", alone or "pro", "max" or "ultra".
bool is_apple(std::string_view asked) {
  if (asked.starts_with("apple")) return true;
  if (asked.size() < 2 || asked[0] != 'm' || asked[1] < '1' || asked[1] > '9') return false;
  constexpr std::array<std::string_view, 4> kinds{"", "pro", "max", "ultra"};
  return std::ranges::find(kinds, asked.substr(2)) != kinds.end();
}

/// Who makes it, of makers whose accelerators know no CUDA; empty for all else.
std::string_view maker_without_cuda(std::string_view asked) {
  if (is_apple(asked)) return "Apple";
  auto const numbered = [&](std::string_view series) {
    return asked.starts_with(series) && asked.size() > series.size() && asked[series.size()] >= '0' &&
           asked[series.size()] <= '9';
  };
  auto const begins = [&](auto... starts) { return (asked.starts_with(starts) || ...); };
  if (begins("amd", "instinct", "radeon") || numbered("mi") || numbered("rx")) return "AMD";
  if (begins("intel", "gaudi", "arca", "arcb")) return "Intel";
  if (begins("tpu", "googletpu")) return "Google";
  if (begins("trainium", "inferentia", "aws")) return "Amazon";
  return {};
}

/// Letters to insert, remove or replace.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t const replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// Small for what one may have meant; nothing for what one has not.
std::optional<std::size_t> unlikeness(std::string_view asked, std::string_view known) {
  if (asked.empty() || known.empty()) return std::nullopt;
  constexpr std::size_t enough = 3;  // letters that a part needs to mean something
  bool const part =
      std::min(asked.size(), known.size()) >= enough && (asked.starts_with(known) || known.starts_with(asked));
  if (part) return 0;
  std::size_t const distance = edit_distance(asked, known);
  std::size_t const most = std::max<std::size_t>(1, std::max(asked.size(), known.size()) / 3);
  return distance <= most ? std::optional(distance) : std::nullopt;
}

}  // namespace

hardware hardware_of(gpu const& which, bool half) {
  return {.name = which.name,
          .device_bytes = which.device_bytes,
          .host_bytes = which.host_bytes,
          .device_to_host = which.device_to_host,
          .host_to_device = which.host_to_device,
          .beside = which.beside,
          .tflops = half ? which.half_tflops.sustained : which.fp32_tflops.sustained,
          .memory_gbps = which.memory_gbps.sustained};
}

gpu_catalogue gpu_catalogue::shipped() {
  gpu_catalogue made;
  std::istringstream in{std::string(embedded::gpus_json)};
  made.read(in);
  return made;
}

void gpu_catalogue::read(std::istream& in) {
  std::vector<gpu> read_now;
  auto const take = [&](nlohmann::json const& row) {
    if (read_now.size() == most_gpus) {
      throw bad_field("", fmt::format("is more than {} GPUs", most_gpus), "leave those that you have");
    }
    gpu made = gpu_of(row);
    if (std::ranges::find(read_now, made.name, &gpu::name) != read_now.end()) {
      throw bad_field("name", fmt::format("{} stands there twice", support::quoted(made.name)), "leave one of the two");
    }
    read_now.push_back(std::move(made));
  };
  file_format const format{.kind = "gpus",
                           .version = 1,
                           .objects = {{"", {"ferry_gpus", "note", "gpus"}},
                                       {"gpus",
                                        {"name", "also", "memory_gib", "host_gib", "bf16", "half_tflops", "fp32_tflops",
                                         "memory_gbps", "pcie"}},
                                       {"gpus.half_tflops", {"peak", "sustained"}},
                                       {"gpus.fp32_tflops", {"peak", "sustained"}},
                                       {"gpus.memory_gbps", {"peak", "sustained"}},
                                       {"gpus.pcie",
                                        {"generation", "lanes", "device_to_host_gbps", "host_to_device_gbps",
                                         "both_device_to_host_gbps", "both_host_to_device_gbps"}}},
                           .rows = {{"gpus", take}}};
  nlohmann::json const document = read_rows(in, format);
  fields const outermost(document);
  static_cast<void>(outermost.array("gpus"));
  if (outermost.has("note")) static_cast<void>(outermost.text("note"));
  for (auto& one : read_now) {
    auto const known = std::ranges::find(all_, one.name, &gpu::name);
    if (known != all_.end()) {
      *known = std::move(one);
    } else {
      all_.push_back(std::move(one));
    }
  }
  std::ranges::sort(all_, {}, &gpu::name);
}

void gpu_catalogue::read(std::filesystem::path const& file) {
  with_file(file, [&](std::istream& in) { read(in); });
}

gpu const& gpu_catalogue::find(std::string_view name) const {
  if (auto const exact = std::ranges::find(all_, name, &gpu::name); exact != all_.end()) return *exact;
  std::string const asked = essence(name);
  for (auto const& one : all_) {
    if (!asked.empty() && essence(one.name) == asked) return one;
  }
  for (auto const& one : all_) {
    bool const known = std::ranges::any_of(one.also, [&](std::string const& other) { return essence(other) == asked; });
    if (!asked.empty() && known) return one;
  }
  if (auto const maker = maker_without_cuda(asked); !maker.empty()) {
    throw invalid_argument(fmt::format(
        "{} is made by {}, and Ferry runs on CUDA GPUs alone, which NVIDIA makes: give one of {}; figures for another "
        "go into a file of GPUs (docs/formats.md)",
        support::quoted(name), maker, fmt::join(names(), ", ")));
  }
  auto const like = nearest(name);
  throw invalid_argument(fmt::format("there is no hardware {}: {}{}{}give one of {}", support::quoted(name),
                                     like.empty() ? "" : "did you mean ", fmt::join(like, " or "),
                                     like.empty() ? "" : "? Else ", fmt::join(names(), ", ")));
}

std::vector<std::string> gpu_catalogue::nearest(std::string_view name) const {
  std::string const asked = essence(name);
  std::vector<std::pair<std::size_t, std::string>> like;
  for (auto const& one : all_) {
    auto best = unlikeness(asked, essence(one.name));
    for (auto const& other : one.also) {
      auto const by_other = unlikeness(asked, essence(other));
      if (by_other && (!best || *by_other < *best)) best = by_other;
    }
    if (best) like.emplace_back(*best, one.name);
  }
  std::ranges::stable_sort(like, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> nearest_names;
  for (auto const& [distance, known] : like) {
    if (distance > like.front().first || nearest_names.size() == most_nearest) break;
    nearest_names.push_back(known);
  }
  return nearest_names;
}

std::vector<std::string> gpu_catalogue::names() const {
  std::vector<std::string> names;
  names.reserve(all_.size());
  for (auto const& one : all_) names.push_back(one.name);
  return names;
}

}  // namespace ferry::planning
