// Chains by formula and by chance, of the families that the planner is judged on. A chain depends on its seed alone,
// on every platform: the engine is mt19937_64, and the standard's distributions, which differ, are not used.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plan/chain.hpp"

namespace ferry::testing {

class random_source {
 public:
  explicit random_source(std::uint64_t seed) : engine_(seed) {}

  /// In [0, 1).
  double fraction() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }
  /// From `low` to `high`, both included.
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  std::size_t count(std::size_t low, std::size_t high) {
    return static_cast<std::size_t>(whole(static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)));
  }
  double between(double low, double high) { return low + (high - low) * fraction(); }
  /// From `low` to `high`, each decade as likely as the next.
  double spread(double low, double high) { return low * std::pow(high / low, fraction()); }
  bool with(double probability) { return fraction() < probability; }
  template <typename T, std::size_t N>
  T one_of(std::array<T, N> const& choices) {
    return choices[count(0, N - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

/// The least memory that any schedule needs, given a link and host memory without limits: that of the largest single
/// operation, with the gradients that are there while a backward runs.
inline double floor_bytes(planning::chain const& c) {
  double result = 0;
  for (std::size_t i = 0; i < c.stages(); ++i) {
    double const stage = c.boundary_bytes[i] + c.saved_bytes[i];
    double const gradients = c.boundary_bytes[i] + c.boundary_bytes[i + 1];
    result = std::max({result, stage + c.forward_scratch_bytes[i], stage + gradients + c.backward_scratch_bytes[i]});
  }
  return result;
}

/// The peak when everything is saved and stays.
inline double keep_all_bytes(planning::chain const& c) {
  double held = c.boundary_bytes[0];
  double peak = held;
  for (std::size_t i = 0; i < c.stages(); ++i) {
    held += c.saved_bytes[i];
    peak = std::max(peak, held + c.forward_scratch_bytes[i]);
  }
  for (std::size_t i = c.stages(); i-- > 0;) {
    double const gradients = c.boundary_bytes[i] + c.boundary_bytes[i + 1];
    peak = std::max(peak, held + gradients + c.backward_scratch_bytes[i]);
    held -= c.saved_bytes[i];
  }
  return peak;
}

/// A budget `share` of the way from the floor to keeping everything, in whole `unit`s but never below the floor.
inline void set_budget(planning::chain& c, double share, double unit = 1) {
  double const least = floor_bytes(c);
  double const wanted = least + share * (keep_all_bytes(c) - least);
  c.device_bytes = std::max(least, std::floor(wanted / unit) * unit);
}

inline planning::chain empty_chain(std::string name, std::size_t stages) {
  planning::chain c;
  c.name = std::move(name);
  c.forward_s.resize(stages);
  c.backward_s.resize(stages);
  c.boundary_bytes.resize(stages + 1);
  c.saved_bytes.resize(stages);
  c.forward_scratch_bytes.resize(stages);
  c.backward_scratch_bytes.resize(stages);
  return c;
}

/// Whole milliseconds and megabytes: many ties, and every sum is exact.
inline planning::chain small_random_chain(std::uint64_t seed, std::size_t fewest = 3, std::size_t most = 8) {
  random_source roll(seed);
  planning::chain c = empty_chain(fmt::format("small {}", seed), roll.count(fewest, most));
  constexpr double mb = 1e6;
  constexpr std::array backward_factors{1.0, 1.5, 2.0, 2.5, 3.0};
  for (double& bytes : c.boundary_bytes) bytes = static_cast<double>(roll.whole(1, 5)) * mb;
  c.boundary_bytes.back() = 0;
  for (std::size_t i = 0; i < c.stages(); ++i) {
    c.forward_s[i] = static_cast<double>(roll.whole(1, 9)) * 1e-3;
    c.backward_s[i] = c.forward_s[i] * roll.one_of(backward_factors);
    c.saved_bytes[i] = c.boundary_bytes[i + 1] + static_cast<double>(roll.whole(2, 10)) * mb;
  }
  if (roll.with(0.15)) {
    for (double& bytes : c.forward_scratch_bytes) bytes = static_cast<double>(roll.whole(0, 3)) * mb;
    for (double& bytes : c.backward_scratch_bytes) bytes = static_cast<double>(roll.whole(0, 5)) * mb;
  }
  set_budget(c, roll.between(0.02, 0.95), mb);
  constexpr std::array rates{0.25e9, 0.5e9, 0.7e9, 1e9, 1.5e9, 2e9, 4e9};
  c.d2h_bytes_per_s = c.h2d_bytes_per_s = roll.one_of(rates);
  if (roll.with(0.25)) c.h2d_bytes_per_s = roll.one_of(rates);
  if (roll.with(0.25)) c.host_bytes = static_cast<double>(roll.whole(3, 25)) * mb;
  return c;
}

/// Sizes and times over two decades.
inline planning::chain long_random_chain(std::uint64_t seed, std::size_t fewest = 9, std::size_t most = 48) {
  random_source roll(seed);
  planning::chain c = empty_chain(fmt::format("long {}", seed), roll.count(fewest, most));
  constexpr double mb = 1e6;
  auto const tenth_us = [](double s) { return std::round(s * 1e7) * 1e-7; };
  for (double& bytes : c.boundary_bytes) bytes = std::round(roll.spread(8, 130)) * mb;
  c.boundary_bytes.back() = 0;
  for (std::size_t i = 0; i < c.stages(); ++i) {
    c.forward_s[i] = tenth_us(roll.spread(1e-4, 2e-2));
    c.backward_s[i] = tenth_us(c.forward_s[i] * roll.between(1.5, 2.5));
    c.saved_bytes[i] = c.boundary_bytes[i + 1] + std::round(roll.spread(30, 220)) * mb;
  }
  set_budget(c, roll.spread(0.05, 0.9), mb);
  constexpr std::array rates{3e9, 12e9, 24e9, 48e9};
  c.d2h_bytes_per_s = c.h2d_bytes_per_s = roll.one_of(rates);
  if (roll.with(0.2)) c.h2d_bytes_per_s *= roll.between(0.4, 1);
  if (roll.with(0.2)) c.host_bytes = std::round(keep_all_bytes(c) * roll.between(0.05, 0.5) / mb) * mb;
  return c;
}

/// What the analytic families have in common: a budget, a link, perhaps a host limit.
inline void set_machine(planning::chain& c, random_source& roll) {
  constexpr std::array rates{12e9, 24e9, 48e9, 55e9};
  set_budget(c, roll.spread(0.04, 0.8));
  c.d2h_bytes_per_s = c.h2d_bytes_per_s = roll.one_of(rates);
  if (roll.with(0.15)) c.d2h_bytes_per_s *= 0.7;
  if (roll.with(0.2)) c.host_bytes = std::round(keep_all_bytes(c) * roll.between(0.05, 0.4));
}

inline double rounded_s(double s) { return std::round(s * 1e7) * 1e-7; }

/// Blocks of a transformer. Each `quadratic_every`-th one also saves its matrix of attention; 0: none does.
inline planning::chain transformer_chain(random_source& roll, std::string name, std::size_t stages,
                                         std::size_t quadratic_every) {
  planning::chain c = empty_chain(std::move(name), stages);
  constexpr std::array widths{1024.0, 2048.0, 4096.0, 8192.0};
  constexpr std::array lengths{1024.0, 2048.0, 4096.0};
  double const width = roll.one_of(widths);
  double const length = roll.one_of(lengths);
  double const tokens = length * static_cast<double>(roll.whole(1, 8));
  constexpr double flops_per_s = 140e12;
  double const input_bytes = 2 * tokens * width;
  for (std::size_t i = 0; i < stages; ++i) {
    bool const quadratic = quadratic_every != 0 && (i + 1) % quadratic_every == 0;
    double const attention_flops = (quadratic ? 4 : 2) * tokens * length * width;
    double const matrix_bytes = quadratic ? 5 * tokens * length * (width / 128) : 0;
    c.boundary_bytes[i] = input_bytes;
    c.forward_s[i] = rounded_s((24 * tokens * width * width + attention_flops) / flops_per_s);
    c.backward_s[i] = rounded_s(2 * c.forward_s[i]);
    c.saved_bytes[i] = (i + 1 < stages ? 17 : 16) * input_bytes + matrix_bytes;
  }
  set_machine(c, roll);
  return c;
}

inline planning::chain gpt_chain(std::uint64_t seed, std::size_t fewest = 6, std::size_t most = 48) {
  random_source roll(seed);
  return transformer_chain(roll, fmt::format("gpt {}", seed), roll.count(fewest, most), 0);
}

inline planning::chain attention_chain(std::uint64_t seed, std::size_t fewest = 6, std::size_t most = 32) {
  random_source roll(seed);
  std::size_t const every = roll.with(0.5) ? 1 : 4;
  return transformer_chain(roll, fmt::format("attention {}", seed), roll.count(fewest, most), every);
}

/// Four levels, each with half the activations of the one before and about the same time.
inline planning::chain swin_chain(std::uint64_t seed) {
  random_source roll(seed);
  constexpr std::array<std::size_t, 3> depths{6, 12, 18};
  std::array<std::size_t, 4> const levels{2, 2, roll.one_of(depths), 2};
  planning::chain c = empty_chain(fmt::format("swin {}", seed), levels[0] + levels[1] + levels[2] + levels[3]);
  double bytes = 802816.0 * static_cast<double>(roll.whole(8, 64));
  double time_s = roll.spread(5e-4, 5e-3);
  std::size_t i = 0;
  for (std::size_t const depth : levels) {
    for (std::size_t k = 0; k < depth; ++k, ++i) {
      c.boundary_bytes[i] = bytes;
      c.saved_bytes[i] = 18 * bytes;
      c.forward_s[i] = rounded_s(time_s);
      c.backward_s[i] = rounded_s(2 * time_s);
    }
    bytes /= 2;
    time_s *= 0.98;
  }
  set_machine(c, roll);
  return c;
}

/// A stem, four levels of blocks whose first is the heavier, and a head of almost nothing.
inline planning::chain resnet_chain(std::uint64_t seed) {
  random_source roll(seed);
  constexpr std::array<std::size_t, 3> depths{1, 6, 23};
  std::size_t const third = roll.one_of(depths);
  std::array<std::size_t, 4> const levels =
      third == 1 ? std::array<std::size_t, 4>{1, 1, 1, 1} : std::array<std::size_t, 4>{3, 4, third, 3};
  planning::chain c = empty_chain(fmt::format("resnet {}", seed), 2 + levels[0] + levels[1] + levels[2] + levels[3]);
  double const batch = static_cast<double>(roll.whole(8, 64));
  double const speed = roll.between(0.5, 2);
  double bytes = 3211264.0 * batch;  // a block's output at the first level
  auto const stage = [&](std::size_t i, double saved_bytes, double time_s, double output_bytes) {
    c.saved_bytes[i] = saved_bytes;
    c.forward_s[i] = rounded_s(time_s * batch / 64 * speed);
    c.backward_s[i] = rounded_s(2 * time_s * batch / 64 * speed);
    c.boundary_bytes[i + 1] = output_bytes;
  };
  c.boundary_bytes[0] = bytes * 0.1875;
  stage(0, bytes * 2.25, 1.5e-3, bytes / 4);
  std::size_t i = 1;
  double time_s = 4.1e-3;
  for (std::size_t const depth : levels) {
    for (std::size_t k = 0; k < depth; ++k, ++i) {
      stage(i, bytes * (k == 0 && i > 1 ? 5.5 : i == 1 ? 4 : 3), k == 0 ? time_s * 1.35 : time_s, bytes);
    }
    bytes /= 2;
    time_s *= 0.9;
  }
  stage(i, 16192 * batch, 1e-4, 0);
  set_machine(c, roll);
  return c;
}

/// What lies at the borders: one stage, budgets at or below the floor, no link or a boundless one, no host, stages that
/// take no time or save next to nothing.
inline planning::chain edge_chain(std::uint64_t seed, std::size_t most = 6) {
  random_source roll(seed);
  planning::chain c = small_random_chain(seed ^ 0x9e3779b97f4a7c15U, 1, most);
  c.name = fmt::format("edge {}", seed);
  switch (roll.whole(0, 9)) {
    case 0:
      c.device_bytes = floor_bytes(c);
      break;
    case 1:
      c.device_bytes = floor_bytes(c) - 1e6;
      break;
    case 2:
      c.device_bytes = keep_all_bytes(c);
      break;
    case 3:
      c.d2h_bytes_per_s = c.h2d_bytes_per_s = 0;
      break;
    case 4:
      c.d2h_bytes_per_s = c.h2d_bytes_per_s = 1;
      break;
    case 5:
      c.d2h_bytes_per_s = c.h2d_bytes_per_s = 1e15;
      break;
    case 6:
      c.host_bytes = 0;
      break;
    case 7:
      c.forward_s[c.stages() / 2] = 0;
      break;
    case 8:
      c.saved_bytes = {c.boundary_bytes.begin() + 1, c.boundary_bytes.end()};
      break;
    default:
      c.boundary_bytes.back() = 2e6;
      break;
  }
  return c;
}

/// A chain of any family.
inline planning::chain any_chain(std::uint64_t seed) {
  switch (seed % 8) {
    case 0:
    case 1:
      return small_random_chain(seed);
    case 2:
      return long_random_chain(seed);
    case 3:
      return gpt_chain(seed);
    case 4:
      return attention_chain(seed);
    case 5:
      return swin_chain(seed);
    case 6:
      return resnet_chain(seed);
    default:
      return edge_chain(seed);
  }
}

}  // namespace ferry::testing
