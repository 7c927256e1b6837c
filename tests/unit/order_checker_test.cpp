// Wrong programs, each reported with both operations named, and each silent once it is put right.
#include "device/order_checker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "device/order_ranges.hpp"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t slab_bytes = 4096;

/// One slab, three streams, a few events. The checker only looks at addresses, so any will do for an event.
struct world {
  world() { checker.slab_added(slab.data(), slab.size(), "slab"); }

  void run(order_checker::stream_id stream, char const* name, std::initializer_list<memory_access> accesses) {
    checker.operation(stream, name, {accesses.begin(), accesses.size()});
  }
  /// `later` comes after all that is enqueued on `earlier` now.
  void order(order_checker::stream_id earlier, order_checker::stream_id later) {
    checker.record(&events[7], earlier);
    checker.wait(later, &events[7]);
  }
  [[nodiscard]] std::byte* at(std::size_t offset) { return slab.data() + offset; }

  alignas(256) std::array<std::byte, slab_bytes> slab{};
  std::array<char, 8> events{};
  order_checker checker;
  order_checker::stream_id compute = checker.add_stream("compute");
  order_checker::stream_id d2h = checker.add_stream("d2h");
  order_checker::stream_id h2d = checker.add_stream("h2d");
};

std::vector<std::string> violations_of(std::function<void(world&, bool)> const& program, bool right) {
  world tested;
  program(tested, right);
  return tested.checker.violations();
}

/// Runs the program as it should be, which must be silent, and with its mistake, which must be reported as `text`.
void expect_reported(std::string const& text, std::function<void(world&, bool right)> const& program) {
  EXPECT_THAT(violations_of(program, true), IsEmpty());
  EXPECT_THAT(violations_of(program, false), ElementsAre(text));
}

void on_another_thread(std::function<void()> const& work) { std::thread(work).join(); }

TEST(OrderChecker, ReportsAMissingEventWait) {
  expect_reported(
      "missing event wait: 'backward 3' on stream compute reads 64 bytes of 'h' [+0,+64) that 'prefetch h' on "
      "stream h2d may still be writing",
      [](world& w, bool right) {
        w.checker.allocated(w.at(256), 64, "h");
        w.run(w.h2d, "prefetch h", {writes(w.at(256), 64)});
        if (right) w.order(w.h2d, w.compute);
        w.run(w.compute, "backward 3", {reads(w.at(256), 64)});
      });
}

TEST(OrderChecker, ReportsASlotReusedWhileACopyStillReadsIt) {
  expect_reported(
      "missing event wait: 'forward g' on stream compute writes 128 bytes of 'g' [+0,+128) that 'offload h' on "
      "stream d2h may still be reading",
      [](world& w, bool right) {
        w.checker.allocated(w.at(0), 256, "h");
        w.run(w.compute, "forward h", {writes(w.at(0), 256)});
        w.order(w.compute, w.d2h);
        w.run(w.d2h, "offload h", {reads(w.at(0), 256)});
        // Giving the bytes to a new owner is fine while the copy runs; writing them unordered is not.
        w.checker.freed(w.at(0), 256);
        w.checker.allocated(w.at(0), 128, "g");
        if (right) w.order(w.d2h, w.compute);
        w.run(w.compute, "forward g", {writes(w.at(0), 128)});
      });
}

TEST(OrderChecker, ReportsTwoUnorderedWrites) {
  expect_reported(
      "missing event wait: 'recompute h' on stream compute writes 64 bytes of 'slab' [+0,+64) that 'prefetch h' on "
      "stream h2d may still be writing",
      [](world& w, bool right) {
        w.run(w.h2d, "prefetch h", {writes(w.at(0), 64)});
        if (right) w.order(w.h2d, w.compute);
        w.run(w.compute, "recompute h", {writes(w.at(0), 64)});
      });
}

TEST(OrderChecker, ReportsAUseAfterFree) {
  expect_reported(
      "use after free: 'backward h' on stream compute reads 256 bytes of 'h' [+0,+256), which was freed; last used "
      "by 'offload h' on stream d2h",
      [](world& w, bool right) {
        w.checker.allocated(w.at(512), 256, "h");
        w.run(w.compute, "forward h", {writes(w.at(512), 256)});
        w.order(w.compute, w.d2h);
        w.run(w.d2h, "offload h", {reads(w.at(512), 256)});
        if (!right) w.checker.freed(w.at(512), 256);
        w.run(w.compute, "backward h", {reads(w.at(512), 256)});
        if (right) w.checker.freed(w.at(512), 256);
      });
}

TEST(OrderChecker, ReportsAUseAfterFreeOfBytesNeverUsed) {
  expect_reported(
      "use after free: 'late' on stream compute writes 8 bytes of 'h' [+8,+16), which was freed; it was never used "
      "before",
      [](world& w, bool right) {
        w.checker.allocated(w.at(0), 256, "h");
        w.checker.freed(w.at(0), 256);
        if (right) w.checker.allocated(w.at(0), 256, "g");
        w.run(w.compute, "late", {writes(w.at(8), 8)});
      });
}

TEST(OrderChecker, ReportsAHostReadBeforeSynchronising) {
  expect_reported(
      "missing synchronisation: 'checksum' on host thread 1 reads 64 bytes of 'slab' [+0,+64) that 'offload h' on "
      "stream d2h may still be writing",
      [](world& w, bool right) {
        w.run(w.d2h, "offload h", {writes(w.at(0), 64)});
        if (right) w.checker.host_saw_stream(w.d2h);
        w.checker.host_access(reads(w.at(0), 64), "checksum");
      });
}

TEST(OrderChecker, ReportsAHostWriteWhileACopyStillReads) {
  expect_reported(
      "missing synchronisation: 'load' on host thread 1 writes 64 bytes of 'slab' [+0,+64) that 'prefetch h' on "
      "stream h2d may still be reading",
      [](world& w, bool right) {
        w.run(w.h2d, "prefetch h", {reads(w.at(0), 64)});
        w.checker.record(&w.events[0], w.h2d);
        if (right) w.checker.host_saw(&w.events[0]);
        w.checker.host_access(writes(w.at(0), 64), "load");
      });
}

TEST(OrderChecker, ReportsASlabFreedInFlight) {
  expect_reported(
      "freed in flight: 'slab' is freed by host thread 1 while 'offload h' on stream d2h may still be writing it",
      [](world& w, bool right) {
        w.run(w.d2h, "offload h", {writes(w.at(0), 64)});
        if (right) w.checker.host_saw_stream(w.d2h);
        w.checker.slab_removed(w.slab.data());
        // Its bytes are no longer watched, and nobody is held to their history.
        w.run(w.compute, "unrelated", {writes(w.at(0), 64)});
      });
}

TEST(OrderChecker, ReportsASlabFreedWhileItIsRead) {
  expect_reported(
      "freed in flight: 'slab' is freed by host thread 1 while 'prefetch h' on stream h2d may still be reading it",
      [](world& w, bool right) {
        w.run(w.h2d, "prefetch h", {reads(w.at(0), 64)});
        if (right) w.checker.host_saw_stream(w.h2d);
        w.checker.slab_removed(w.slab.data());
      });
}

TEST(OrderChecker, ReportsAnAccessThatLeavesItsSlab) {
  expect_reported(
      "out of range: 'offload h' on stream d2h reads 128 bytes of 'slab' [+4032,+4160), which has 4096 bytes",
      [](world& w, bool right) { w.run(w.d2h, "offload h", {reads(w.at(slab_bytes - 64), right ? 64U : 128U)}); });
}

TEST(OrderChecker, ReportsAnAccessThatBeginsBelowItsSlab) {
  expect_reported("out of range: 'offload h' on stream d2h reads 32 bytes of 'upper' [-16,+16), which has 256 bytes",
                  [](world& w, bool right) {
                    w.checker.slab_removed(w.slab.data());
                    w.checker.slab_added(w.at(256), 256, "upper");
                    w.run(w.d2h, "offload h", {reads(w.at(right ? 256 : 240), 32)});
                  });
}

TEST(OrderChecker, ReportsAnAccessThatRunsIntoTheNextBlock) {
  expect_reported("out of range: 'forward h' on stream compute writes 300 bytes of 'h' [+0,+300), which has 256 bytes",
                  [](world& w, bool right) {
                    w.checker.allocated(w.at(0), 256, "h");
                    w.checker.allocated(w.at(256), 256, "g");
                    w.run(w.compute, "forward h", {writes(w.at(0), right ? 256 : 300)});
                  });
}

TEST(OrderChecker, SurvivesASizeThatWrapsAround) {
  world w;
  w.run(w.compute, "huge", {reads(w.at(0), std::numeric_limits<std::size_t>::max())});
  EXPECT_THAT(w.checker.violations(), ElementsAre(HasSubstr("out of range: 'huge' on stream compute")));
}

TEST(OrderChecker, ReportsAMissingHandOverBetweenHostThreads) {
  expect_reported(
      "missing hand-over: 'load' on host thread 2 reads 64 bytes of 'slab' [+0,+64) that 'fill' on host thread 1 may "
      "still be writing",
      [](world& w, bool right) {
        w.checker.host_access(writes(w.at(0), 64), "fill");
        w.checker.hand_over(&w.events[0]);
        on_another_thread([&] {
          if (right) w.checker.take_over(&w.events[0]);
          w.checker.host_access(reads(w.at(0), 64), "load");
        });
      });
}

TEST(OrderChecker, ReportsWorkEnqueuedByAThreadThatWasNotToldOfTheWait) {
  expect_reported(
      "missing event wait: 'prefetch g' on stream h2d writes 64 bytes of 'slab' [+0,+64) that 'offload h' on stream "
      "d2h may still be reading",
      [](world& w, bool right) {
        w.run(w.d2h, "offload h", {reads(w.at(0), 64)});
        w.checker.host_saw_stream(w.d2h);
        if (right) w.checker.hand_over(&w.events[0]);
        on_another_thread([&] {
          w.checker.take_over(&w.events[0]);
          w.run(w.h2d, "prefetch g", {writes(w.at(0), 64)});
        });
      });
}

TEST(OrderChecker, ReportsAHandOverThatCameTooEarly) {
  expect_reported(
      "missing hand-over: 'offload h' on stream d2h reads 64 bytes of 'slab' [+0,+64) that 'fill' on host thread 1 "
      "may still be writing",
      [](world& w, bool right) {
        if (!right) w.checker.hand_over(&w.events[0]);
        w.checker.host_access(writes(w.at(0), 64), "fill");
        if (right) w.checker.hand_over(&w.events[0]);
        on_another_thread([&] {
          w.checker.take_over(&w.events[0]);
          w.run(w.d2h, "offload h", {reads(w.at(0), 64)});
        });
      });
}

TEST(OrderChecker, ReportsAWaitBeforeTheRecord) {
  expect_reported(
      "missing event wait: 'offload h' on stream d2h reads 64 bytes of 'slab' [+0,+64) that 'forward h' on stream "
      "compute may still be writing",
      [](world& w, bool right) {
        w.run(w.compute, "forward h", {writes(w.at(0), 64)});
        if (!right) w.checker.wait(w.d2h, &w.events[0]);
        w.checker.record(&w.events[0], w.compute);
        if (right) w.checker.wait(w.d2h, &w.events[0]);
        w.run(w.d2h, "offload h", {reads(w.at(0), 64)});
      });
}

TEST(OrderChecker, ReportsARecordBeforeTheProducer) {
  expect_reported(
      "missing event wait: 'offload h' on stream d2h reads 64 bytes of 'slab' [+0,+64) that 'forward h' on stream "
      "compute may still be writing",
      [](world& w, bool right) {
        if (!right) w.checker.record(&w.events[0], w.compute);
        w.run(w.compute, "forward h", {writes(w.at(0), 64)});
        if (right) w.checker.record(&w.events[0], w.compute);
        w.checker.wait(w.d2h, &w.events[0]);
        w.run(w.d2h, "offload h", {reads(w.at(0), 64)});
      });
}

TEST(OrderChecker, ReportsAnEventThatWasRecordedAgainElsewhere) {
  expect_reported(
      "missing event wait: 'backward h' on stream compute reads 64 bytes of 'slab' [+0,+64) that 'prefetch h' on "
      "stream h2d may still be writing",
      [](world& w, bool right) {
        w.run(w.h2d, "prefetch h", {writes(w.at(0), 64)});
        w.checker.record(&w.events[0], w.h2d);
        if (!right) w.checker.record(&w.events[0], w.d2h);
        w.checker.wait(w.compute, &w.events[0]);
        w.run(w.compute, "backward h", {reads(w.at(0), 64)});
      });
}

TEST(OrderChecker, ReportsAnEventThatWasDestroyed) {
  expect_reported(
      "missing event wait: 'backward h' on stream compute reads 64 bytes of 'slab' [+0,+64) that 'prefetch h' on "
      "stream h2d may still be writing",
      [](world& w, bool right) {
        w.run(w.h2d, "prefetch h", {writes(w.at(0), 64)});
        w.checker.record(&w.events[0], w.h2d);
        if (!right) w.checker.forget_event(&w.events[0]);
        w.checker.wait(w.compute, &w.events[0]);
        w.run(w.compute, "backward h", {reads(w.at(0), 64)});
      });
}

TEST(OrderChecker, ReportsOnlyTheBytesThatOverlap) {
  expect_reported(
      "missing event wait: 'backward' on stream compute reads 32 bytes of 'h' [+96,+128) that 'prefetch h 2' on "
      "stream h2d may still be writing",
      [](world& w, bool right) {
        w.checker.allocated(w.at(256), 256, "h");
        w.run(w.h2d, "prefetch h 1", {writes(w.at(256), 96)});
        w.order(w.h2d, w.compute);
        w.run(w.h2d, "prefetch h 2", {writes(w.at(256 + 96), 100)});
        if (right) w.order(w.h2d, w.compute);
        w.run(w.compute, "backward", {reads(w.at(256 + 32), 96)});
      });
}

TEST(OrderChecker, ReportsAReaderThatALaterReaderDoesNotCover) {
  expect_reported(
      "missing event wait: 'forward' on stream compute writes 64 bytes of 'slab' [+0,+64) that 'offload' on stream "
      "d2h may still be reading",
      [](world& w, bool right) {
        w.run(w.d2h, "offload", {reads(w.at(0), 64)});
        w.run(w.h2d, "prefetch", {reads(w.at(0), 64)});
        if (right) w.order(w.d2h, w.compute);
        w.order(w.h2d, w.compute);
        w.run(w.compute, "forward", {writes(w.at(0), 64)});
      });
}

TEST(OrderChecker, OrderPassesThroughAChainOfEvents) {
  world w;
  w.run(w.compute, "forward", {writes(w.at(0), 64)});
  w.order(w.compute, w.d2h);
  w.order(w.d2h, w.h2d);
  w.run(w.h2d, "overwrite", {writes(w.at(0), 64)});
  EXPECT_THAT(w.checker.violations(), IsEmpty());
}

TEST(OrderChecker, EnqueueingComesAfterWhatTheHostHasSeen) {
  world w;
  w.run(w.h2d, "prefetch", {writes(w.at(0), 64)});
  w.checker.host_saw_stream(w.h2d);
  w.run(w.compute, "backward", {reads(w.at(0), 64)});
  w.checker.host_access(writes(w.at(128), 64), "fill");
  w.run(w.d2h, "offload", {reads(w.at(128), 64)});
  EXPECT_THAT(w.checker.violations(), IsEmpty());
}

TEST(OrderChecker, OneOperationMayReadAndWriteTheSameBytes) {
  world w;
  w.run(w.compute, "in place", {reads(w.at(0), 64), writes(w.at(0), 64)});
  w.run(w.compute, "in place again", {writes(w.at(0), 64), reads(w.at(0), 64)});
  EXPECT_THAT(w.checker.violations(), IsEmpty());
}

TEST(OrderChecker, UnorderedReadersAreFine) {
  world w;
  w.run(w.compute, "forward", {reads(w.at(0), 64)});
  w.run(w.d2h, "offload", {reads(w.at(0), 64)});
  w.checker.host_access(reads(w.at(0), 64), "look");
  EXPECT_THAT(w.checker.violations(), IsEmpty());
}

TEST(OrderChecker, MemoryInNoSlabIsNotWatched) {
  world w;
  std::array<std::byte, 64> own{};
  w.run(w.compute, "forward", {writes(own.data(), own.size()), writes(nullptr, 0)});
  w.run(w.d2h, "offload", {writes(own.data(), own.size())});
  w.checker.allocated(own.data(), own.size(), "own");
  w.checker.freed(own.data(), own.size());
  w.checker.slab_removed(own.data());
  w.run(w.d2h, "offload", {reads(own.data(), own.size())});
  EXPECT_THAT(w.checker.violations(), IsEmpty());
}

TEST(OrderChecker, AWaitOnAnUnrecordedEventIsReportedOnlyIfAsked) {
  world w;
  w.checker.wait(w.compute, &w.events[0]);
  EXPECT_THAT(w.checker.violations(), IsEmpty());
  w.checker.report_unrecorded_waits(true);
  w.checker.wait(w.compute, &w.events[0]);
  EXPECT_THAT(w.checker.violations(), ElementsAre("stream compute waits for an event that was never recorded"));
}

TEST(OrderChecker, ReportsTheSameMistakeOnceAndBoundsTheList) {
  world w;
  for (int i = 0; i < 1000; ++i) {
    w.run(w.compute, "forward", {writes(w.at(0), 64)});
    w.run(w.d2h, "offload", {writes(w.at(0), 64)});
  }
  EXPECT_THAT(w.checker.violations(), SizeIs(2));
  for (std::size_t i = 0; i < 1000; ++i) w.run(i % 2 == 0 ? w.compute : w.d2h, "shift", {writes(w.at(i), 64)});
  auto const texts = w.checker.violations();
  EXPECT_THAT(texts, SizeIs(101));
  EXPECT_THAT(texts.back(), HasSubstr("more violations were left out"));
}

TEST(OrderChecker, EveryThreadMayCallItAtOnce) {
  world w;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&w, i] {
      auto const stream = w.checker.add_stream("own");
      for (int step = 0; step < 500; ++step) {
        w.run(stream, "write", {writes(w.at(i * 1024), 1024)});
        w.checker.record(&w.events[i], stream);
        w.checker.host_saw(&w.events[i]);
        w.checker.host_access(reads(w.at(i * 1024), 1024), "read");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(w.checker.violations(), IsEmpty());
}

TEST(OrderRanges, StaysAsSmallAsTheBlocksItDescribes) {
  range_map ranges;
  std::uintptr_t const base = 1U << 20U;
  address_range const slab{base, base + 64 * 256};
  ranges.add_slab(slab, "slab");
  std::uint32_t random = 1;
  for (std::uint64_t tick = 1; tick <= 20000; ++tick) {
    random = random * 1664525U + 1013904223U;
    std::uintptr_t const begin = base + (random >> 26U) * 256;
    std::uintptr_t const end = std::min(begin + (1 + (random >> 10U) % 8) * 256, slab.end);
    past_access const now{static_cast<participant_id>(tick % 3), tick, "op"};
    ranges.update({begin, end}, [&](address_range, range_history& part) {
      part.add_read(now);
      if (tick % 2 == 0) part.set_write(now);
    });
    ASSERT_LE(ranges.history_count(), 64U);
  }
  past_access const last{0, 30000, "last"};
  ranges.update(slab, [&](address_range, range_history& part) { part.set_write(last); });
  EXPECT_EQ(ranges.history_count(), 1U);
}

}  // namespace
}  // namespace ferry
