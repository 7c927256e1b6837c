// What Ferry is compared with: saved tensors copied to the host at once and fetched when asked, each time waiting for
// the copy, as Python's torch.autograd.graph.save_on_cpu does. Over the same link as Ferry's, and as sparing as Ferry:
// no parameters, nothing below a threshold, every storage once.
#pragma once

#include <cstddef>
#include <memory>

#include "ferry/device.hpp"

struct copied_bytes {
  std::size_t out = 0;
  std::size_t back = 0;
};

/// In force while it lives. Requires: it encloses forward and backward, of one thread.
class save_on_cpu {
 public:
  save_on_cpu(ferry::device& over, std::size_t min_bytes);
  save_on_cpu(save_on_cpu const&) = delete;
  save_on_cpu& operator=(save_on_cpu const&) = delete;
  ~save_on_cpu();
  [[nodiscard]] copied_bytes copied() const;

 private:
  struct store;
  std::shared_ptr<store> store_;
};
