// What failed on one stream, by the sequence numbers of its operations.
//
// A failure covers every operation from the one that failed up to those that were enqueued before somebody was told of
// it. It is kept afterwards, for marks inside that range that somebody looks at only then. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// Why an operation failed, as `stream_error` reports it.
struct stream_failure {
  std::string operation;
  std::string message;
};

class failure_log {
 public:
  struct entry {
    stream_failure why;
    bool reported = false;
  };

  /// Of all operations from this one on, until `close`.
  void fail(std::uint64_t sequence, stream_failure why);
  /// The last failure has been reported: operations from `sequence` on are none of it.
  void close(std::uint64_t sequence);

  [[nodiscard]] bool failed_at(std::uint64_t sequence) const {
    return any_.load() && failure_at(sequence).has_value();
  }
  [[nodiscard]] std::optional<entry> failure_at(std::uint64_t sequence) const;
  /// The first one that begins up to `sequence` and has not been reported.
  [[nodiscard]] std::optional<entry> unreported(std::uint64_t sequence) const;

 private:
  struct range {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    entry what;
    [[nodiscard]] bool covers(std::uint64_t sequence) const noexcept { return from <= sequence && sequence < to; }
  };
  template <typename Wanted>
  [[nodiscard]] std::optional<entry> find(Wanted wanted) const;

  std::atomic<bool> any_{false};  // ever: the one thing that work without failures looks at
  mutable std::mutex mutex_;
  std::vector<range> ranges_;  // in the order they happened; the last may be open
};

}  // namespace ferry
