// How soon the coordinator's machine misses a member: a pulled cable in a quiet cluster, and members on busy machines.
#include <random>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorSilenceTest : public CoordinatorStateTest {
 protected:
  void anew() {
    job = make(1);
    seen.clear();
    stored = {};
  }
  // What the server does: ticks when the machine asks for one.
  void tick_until(MonotonicTime until) {
    while (job->deadline() <= until) {
      time = std::max(time, job->deadline());
      job->on_tick(now());
    }
    time = until;
  }
  void beat_after(Duration wait, const std::vector<int>& slots, std::int64_t step) {
    tick_until(time + wait);
    for (const int slot : slots) beat(slot, 1, step);
  }
  // How long after the last heartbeat of slot 1 it is lost, while slot 0 goes on to beat.
  Duration missed_after() {
    const MonotonicTime last = time;
    MonotonicTime next = time + milliseconds(250);
    while (phase() == Phase::kUp && time - last < seconds(10)) {
      if (job->deadline() < next) {
        tick_until(job->deadline());
      } else {
        tick_until(next);
        beat(0, 1, 140);  // it waits for slot 1
        next += milliseconds(250);
      }
    }
    EXPECT_EQ(job->view()->failure->slot, 1);
    return time - last;
  }
};

TEST_F(CoordinatorSilenceTest, a_pulled_cable_in_a_quiet_cluster_is_noticed_within_a_second) {
  start();
  for (int i = 1; i <= 140; ++i) beat_after(milliseconds(250), {0, 1}, i);
  EXPECT_LE(missed_after(), milliseconds(950));
}

TEST_F(CoordinatorSilenceTest, a_loop_that_was_held_up_for_a_moment_loses_nobody) {
  for (const Duration pause : {milliseconds(450), milliseconds(500), milliseconds(560), milliseconds(600)}) {
    anew();
    start();
    for (int i = 1; i <= 140; ++i) {  // slot 1 half an interval behind slot 0
      beat_after(milliseconds(125), {0}, i);
      beat_after(milliseconds(125), {1}, i);
    }
    beat_after(milliseconds(124), {0}, 140);
    time += pause;  // nobody looks at the clock, or at what arrives
    beat(0, 1, 140);
    EXPECT_EQ(phase(), Phase::kUp) << "slot 1 waits in its socket, after "
                                   << milliseconds(pause.count() / 1000000).count();
    beat(1, 1, 140);
    EXPECT_EQ(phase(), Phase::kUp);
  }
}

TEST_F(CoordinatorSilenceTest, a_network_that_was_away_for_a_moment_loses_nobody) {
  for (const Duration pause : {milliseconds(300), milliseconds(420), milliseconds(520), milliseconds(600)}) {
    anew();
    start();
    for (int i = 1; i <= 140; ++i) {
      beat_after(milliseconds(125), {0}, i);
      beat_after(milliseconds(125), {1}, i);
    }
    beat_after(milliseconds(124), {0}, 140);
    tick_until(time + pause);
    EXPECT_EQ(phase(), Phase::kUp);
    beat(0, 1, 140);
    EXPECT_EQ(phase(), Phase::kUp) << "slot 1 is as late, after " << milliseconds(pause.count() / 1000000).count();
    beat(1, 1, 140);
    EXPECT_EQ(phase(), Phase::kUp);
  }
}

TEST_F(CoordinatorSilenceTest, a_refused_token_keeps_no_dead_member) {
  start();
  for (int i = 1; i <= 4; ++i) beat_after(milliseconds(250), {0, 1}, i);
  job->on_disconnected(kFirst + 1, now());
  const MonotonicTime gone = time;
  while (phase() == Phase::kUp && time - gone < seconds(10)) {
    job->on_token_pending({hello(1)}, now());  // each time refused at once
    for (int i = 0; i < 4; ++i) beat_after(milliseconds(250), {0}, 4);
  }
  EXPECT_EQ(phase(), Phase::kBroken);
}

TEST_F(CoordinatorSilenceTest, a_member_whose_heartbeats_stall_now_and_then_has_more_time) {
  start();
  for (int i = 1; i <= 140; ++i) beat_after(milliseconds(i % 20 == 0 ? 1100 : 250), {0, 1}, i);
  const Duration missed = missed_after();
  EXPECT_GT(missed, milliseconds(2000));
  EXPECT_LE(missed, milliseconds(3010));
}

TEST_F(CoordinatorSilenceTest, a_member_of_which_little_is_known_has_three_seconds) {
  start();
  for (int i = 1; i <= 4; ++i) beat_after(milliseconds(250), {0, 1}, i);
  EXPECT_GT(missed_after(), milliseconds(2900));
}

TEST_F(CoordinatorSilenceTest, on_a_busy_machine_nobody_is_taken_for_dead_in_ten_minutes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("LOCKSTEP_SEED={}", seed));
  std::mt19937 random(seed);
  start();
  const MonotonicTime end = time + std::chrono::minutes(10);
  MonotonicTime next[] = {time, time};
  while (time < end) {
    const int slot = next[0] <= next[1] ? 0 : 1;
    tick_until(std::max(time, next[slot]));
    beat(slot, 1);  // no step advances: silence alone decides
    // Mostly on time, often late, and at times as late as a disk that stalls makes it.
    const int late = random() % 100 < 2 ? 1300 : random() % 100 < 20 ? static_cast<int>(random() % 700) : 0;
    next[slot] = time + milliseconds(250 + late);
  }
  EXPECT_EQ(phase(), Phase::kUp) << job->view()->message;
}

}  // namespace
}  // namespace lockstep::rendezvous
