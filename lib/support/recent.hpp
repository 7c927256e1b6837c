// The middle of the last few values: follows a change in two steps, and one outlier does nothing to it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace ferry::support {

class recent_values {
 public:
  void add(double value) noexcept {
    values_[next_] = value;
    if (++next_ == values_.size()) next_ = 0;
    if (size_ < values_.size()) ++size_;
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] double middle() const noexcept {
    if (size_ < values_.size()) return size_ == 0 ? 0 : values_[next_ - 1];  // too few to tell: the newest
    return std::max(std::min(values_[0], values_[1]), std::min(std::max(values_[0], values_[1]), values_[2]));
  }

 private:
  std::array<double, 3> values_{};
  std::size_t next_ = 0;
  std::size_t size_ = 0;
};

}  // namespace ferry::support
