// The link's speed over the steps, as FERRY_LINK_GBPS has it: for trying out what a session does when the link changes.
// Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/device.hpp"
#include "support/log.hpp"

namespace ferry::path {

class link_schedule {
 public:
  /// Throws: `invalid_argument` unless the steps ascend from 0.
  explicit link_schedule(std::vector<link_change> const& changes);

  /// Sets the link to the speed of the step that is about to begin, if that is another than before.
  void begin_step(std::uint64_t step, device& on, support::logger const& log);

 private:
  std::vector<link_change> changes_;
  std::size_t next_ = 0;
};

}  // namespace ferry::path
