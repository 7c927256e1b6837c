// Counts what has happened to items and transfers in which state, over any number of runs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ferry/device.hpp"

namespace ferry::testing {

/// Something that happened: to what, in which state, what, and what was known of the bytes.
struct happening {
  std::string_view what;
  std::string_view state;
  std::string_view event;
  std::string_view evidence;
  friend auto operator<=>(happening const&, happening const&) = default;

  [[nodiscard]] std::string text() const {
    return std::string(what) + ", " + std::string(state) + ": " + std::string(event) + " (" + std::string(evidence) +
           ")";
  }
};

class coverage {
 public:
  /// Requires: the texts are constants.
  void add(happening const& met) { ++met_[met]; }
  void add(coverage const& other) {
    for (auto const& [what, times] : other.met_) met_[what] += times;
  }
  [[nodiscard]] std::map<happening, std::uint64_t> const& met() const noexcept { return met_; }
  friend bool operator==(coverage const&, coverage const&) = default;

 private:
  std::map<happening, std::uint64_t> met_;
};

/// Hands everything on to a stream-order checker, and counts what has happened.
class listener final : public order_hooks {
 public:
  explicit listener(order_hooks& checker) : checker_(checker) {}

  void count_in(coverage* total) noexcept { total_ = total; }

  void allocated(void const* address, std::size_t bytes, label const& name) override {
    checker_.allocated(address, bytes, name);
  }
  void freed(void const* address, std::size_t bytes) override { checker_.freed(address, bytes); }
  void host_access(memory_access access, label const& name) override { checker_.host_access(access, name); }
  void announce(label const& name, std::span<memory_access const> accesses) override {
    checker_.announce(name, accesses);
  }
  void hand_over(void const* channel) override { checker_.hand_over(channel); }
  void take_over(void const* channel) override { checker_.take_over(channel); }
  void met(std::string_view what, std::string_view state, std::string_view event, std::string_view evidence) override {
    if (total_ != nullptr) total_->add({what, state, event, evidence});
  }

 private:
  order_hooks& checker_;
  coverage* total_ = nullptr;
};

}  // namespace ferry::testing
