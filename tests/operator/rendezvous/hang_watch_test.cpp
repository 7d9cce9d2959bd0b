#include "operator/rendezvous/hang_watch.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const MonotonicTime kBegin{std::chrono::hours(1)};

RankActivity says(std::int64_t step, std::int64_t beats = 0) {
  return {'S', 0, Activity{1, Activity::Doing::kForward, step, beats}};
}

TEST(HangWatch, whatever_any_rank_gets_done_counts_and_where_it_waits_does_not) {
  Activity before{.generation = 1,
                  .doing = Activity::Doing::kWaiting,
                  .step = 3,
                  .beats = 4,
                  .sequence = 5,
                  .stage = Activity::Stage::kExchange,
                  .sent = 6,
                  .received = 7,
                  .waits_for_bytes_of = 0,
                  .waits_for_room_at = -1};
  struct Row {
    const char* what;
    void (*change)(Activity&);
    bool counts;
  };
  const Row rows[] = {
      {"nothing", [](Activity&) {}, false},
      {"a node computed", [](Activity& a) { ++a.beats; }, true},
      {"a byte sent", [](Activity& a) { ++a.sent; }, true},
      {"a byte received", [](Activity& a) { ++a.received; }, true},
      {"a collective begun", [](Activity& a) { ++a.sequence; }, true},
      {"a step committed", [](Activity& a) { ++a.step; }, true},
      {"waits for room instead of bytes", [](Activity& a) { std::swap(a.waits_for_bytes_of, a.waits_for_room_at); },
       false},
  };
  for (const Row& row : rows) {
    HangWatch watch(3, kBegin);
    watch.note(1, {'S', 0, before}, kBegin);
    Activity after = before;
    row.change(after);
    watch.note(1, {'S', 200, after}, kBegin + seconds(1));
    EXPECT_EQ(watch.moved(), row.counts ? kBegin + seconds(1) : kBegin) << row.what;
    EXPECT_EQ(watch.ranks().at(1)->moved, watch.moved()) << row.what;
    EXPECT_EQ(watch.ranks().at(1)->activity.age_ms, 200) << "the newest is kept: " << row.what;
  }
}

TEST(HangWatch, one_rank_that_makes_progress_is_enough) {
  HangWatch watch(0, kBegin);
  watch.note(0, says(0), kBegin);
  watch.note(1, says(0), kBegin);
  for (int i = 1; i <= 100; ++i) {
    watch.note(0, says(0), kBegin + seconds(i));
    watch.note(1, says(0, i), kBegin + seconds(i));
  }
  EXPECT_EQ(watch.moved(), kBegin + seconds(100));
  EXPECT_EQ(watch.ranks().at(0)->moved, kBegin);
}

TEST(HangWatch, patience_is_five_times_the_p99_step_and_at_least_what_is_asked) {
  HangWatch watch(0, kBegin);
  EXPECT_FALSE(watch.stepped());
  EXPECT_EQ(watch.patience(seconds(10)), seconds(10));
  MonotonicTime now = kBegin + seconds(60);
  watch.note_step(1, now);
  EXPECT_TRUE(watch.stepped());
  EXPECT_FALSE(watch.timed());
  EXPECT_EQ(watch.patience(seconds(10)), seconds(10)) << "the first has much to prepare";
  for (int step = 2; step <= 200; ++step) {
    now += step == 100 ? seconds(30) : seconds(3);  // one of the last 128: below the 99th percentile
    watch.note_step(step, now);
  }
  EXPECT_TRUE(watch.timed());
  EXPECT_EQ(watch.patience(seconds(10)), seconds(15));
  EXPECT_EQ(watch.patience(seconds(20)), seconds(20));
  watch.note_step(201, now += seconds(30));
  EXPECT_EQ(watch.patience(seconds(10)), seconds(150)) << "two of 128";
}

TEST(HangWatch, steps_between_two_looks_share_the_time) {
  HangWatch watch(39, kBegin);
  watch.note_step(40, kBegin);
  watch.note_step(44, kBegin + seconds(20));
  EXPECT_EQ(watch.patience(seconds(1)), seconds(25));
}

TEST(HangWatch, a_generation_with_an_unknown_start_counts_any_step_as_progress) {
  HangWatch watch(std::nullopt, kBegin);
  watch.note_step(0, kBegin + milliseconds(100));
  EXPECT_FALSE(watch.stepped());
  watch.note_step(500, kBegin + milliseconds(250));
  EXPECT_TRUE(watch.stepped()) << "it may hang since before anybody looked";
  EXPECT_FALSE(watch.timed());
  watch.note_step(501, kBegin + milliseconds(2250));
  EXPECT_EQ(watch.patience(seconds(1)), seconds(10));
}

TEST(HangWatch, a_restart_makes_all_that_was_seen_new) {
  HangWatch watch(0, kBegin);
  watch.note(0, says(1), kBegin);
  watch.restart(kBegin + seconds(60));
  EXPECT_EQ(watch.moved(), kBegin + seconds(60));
  EXPECT_EQ(watch.ranks().at(0)->moved, kBegin + seconds(60));
}

}  // namespace
}  // namespace lockstep::rendezvous
