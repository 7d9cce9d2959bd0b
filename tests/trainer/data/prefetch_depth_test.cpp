#include "trainer/data/prefetch_depth.h"

#include <gtest/gtest.h>

#include <string_view>

namespace lockstep::trainer::data {
namespace {

// f: the window is full; l: a batch is late; d: the window is dropped.
std::size_t batches_after(std::size_t fixed, std::string_view events) {
  PrefetchDepth depth(fixed);
  for (const char event : events) {
    if (event == 'f') depth.full();
    if (event == 'l') depth.late();
    if (event == 'd') depth.dropped();
  }
  return depth.batches();
}

TEST(PrefetchDepth, gives_each_thread_something_to_read) {
  PrefetchDepth found(0), fixed(3);
  for (PrefetchDepth* depth : {&found, &fixed}) depth->at_least(8);
  EXPECT_EQ(found.batches(), 8U);
  EXPECT_EQ(fixed.batches(), 3U);
  found.at_least(4);
  EXPECT_EQ(found.batches(), 8U);
  found.at_least(1000);
  EXPECT_EQ(found.batches(), PrefetchDepth::kMost);
}

TEST(PrefetchDepth, doubles_when_a_full_window_was_not_enough) {
  struct Case {
    std::size_t fixed;
    std::string_view events;
    std::size_t batches;
    std::string_view why;
  };
  for (const Case& one : {
           Case{0, "", 2, "the beginning"},
           Case{0, "l", 2, "the first batch is always late"},
           Case{0, "llll", 2, "storage that is too slow in the mean"},
           Case{0, "ffff", 2, "storage that is fast enough"},
           Case{0, "fl", 4, "a slow read after fast ones"},
           Case{0, "fll", 4, "it has not been full again"},
           Case{0, "flfl", 8, "four were not enough either"},
           Case{0, "fdl", 2, "the first batch of a generation"},
           Case{0, "flflflflflflflfl", 64, "the most"},
           Case{4, "flflfl", 4, "a number that the user chose"},
           Case{1, "fl", 1, "a number below the fewest"},
       }) {
    EXPECT_EQ(batches_after(one.fixed, one.events), one.batches) << one.why;
  }
}

}  // namespace
}  // namespace lockstep::trainer::data
