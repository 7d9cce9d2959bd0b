// What the coordinator's machine costs at size: a heartbeat without news looks at its own member only. No phase of a
// gang's life costs a walk over all members for each message.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "operator/rendezvous/coordinator_state.h"
#include "tests/cpu_seconds.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;

// A gang of `slots` scripted members of one rank each, in virtual time.
class ScriptedGang {
 public:
  explicit ScriptedGang(int slots)
      : slots_(slots),
        state_(
            1, CoordinatorTiming{}, [] { return std::string(64, 'k'); }, now()) {
    JobPlan plan;
    plan.name_space = "ns";
    plan.name = plan.uid = "job";
    plan.slots = slots;
    plan.deadlines.progress_seconds = 60;
    for (int slot = 0; slot < slots; ++slot) {
      plan.members.push_back({slot, 1, fmt::format("pod-{}", slot), fmt::format("uid-{}", slot), "node"});
    }
    state_.on_plan(plan, now());
    state_.on_loaded(GenerationStore::Versioned{}, now());
    for (int slot = 0; slot < slots; ++slot) {
      Hello hello;
      hello.slot = slot;
      hello.incarnation = 1;
      hello.pod_name = fmt::format("pod-{}", slot);
      hello.pod_uid = fmt::format("uid-{}", slot);
      hello.session = fmt::format("agent-{}", slot);
      hello.phase = MemberPhase::kWarm;
      hello.regroups = true;
      state_.on_hello(session(slot), hello, now());
    }
    drain();
    state_.on_written(Result<std::string>("1"), now());
    for (int slot = 0; slot < slots; ++slot) {
      Ready ready;
      ready.id = {1, 1};
      ready.addresses = {fmt::format("10.0.{}.{}:1", slot / 250, slot % 250)};
      ready.host = "10.0.0.1";
      ready.master_port = 20'000;
      state_.on_message(session(slot), ready, now());
    }
    drain();
    for (int slot = 0; slot < slots; ++slot) state_.on_message(session(slot), Up{1}, now());
    drain();
  }

  // Every member says that it is at `step`, spread over 250 ms.
  void beat_all(std::int64_t step) {
    for (int slot = 0; slot < slots_; ++slot) {
      time_ += Duration(milliseconds(250)) / slots_;
      Heartbeat heartbeat{.phase = MemberPhase::kRunning, .generation = 1, .up = true};
      if (slot == 0) heartbeat.progress = Progress{.step = step, .total_steps = 1'000'000};
      Activity activity;
      activity.generation = 1;
      activity.step = activity.beats = step;
      heartbeat.ranks = {{'R', 1, activity}};
      const auto start = std::chrono::steady_clock::now();
      state_.on_message(session(slot), heartbeat, now());
      beating_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (now().time >= state_.deadline()) state_.on_tick(now());
      drain();
    }
  }
  // Seconds in on_message() since the last call.
  double take_beating() { return std::exchange(beating_, 0); }
  bool up() const { return state_.view()->phase == Phase::kUp; }
  const CoordinatorState& state() const { return state_; }
  void finish() {
    for (int slot = 0; slot < slots_; ++slot) {
      Exit exit;
      exit.generation = 1;
      exit.rank = slot;
      state_.on_message(session(slot), exit, now());
      drain();
    }
  }

 private:
  static SessionId session(int slot) { return static_cast<SessionId>(slot + 1); }
  Now now() const { return {time_, WallTime(std::chrono::seconds(1'700'000'000))}; }
  void drain() { state_.take_actions(); }

  const int slots_;
  MonotonicTime time_{std::chrono::hours(1)};
  CoordinatorState state_;
  double beating_ = 0;
};

// The least of several rounds, because other work on the machine only adds.
double nanoseconds_per_heartbeat(int slots) {
  ScriptedGang gang(slots);
  for (int round = 1; round <= 8; ++round) gang.beat_all(round);
  EXPECT_TRUE(gang.up());
  double least = 1e9;
  const int rounds = std::max(1, 4096 / slots);
  std::int64_t step = 8;
  for (int i = 0; i < 10; ++i) {
    gang.take_beating();
    for (int round = 0; round < rounds; ++round) gang.beat_all(++step);
    least = std::min(least, gang.take_beating() * 1e9 / (rounds * slots));
  }
  return least;
}

TEST(CoordinatorCost, a_heartbeat_costs_about_the_same_in_a_gang_of_100_and_of_4096) {
  std::map<int, double> cost;
  for (const int slots : {10, 100, 1000, 4096}) {
    cost[slots] = nanoseconds_per_heartbeat(slots);
    std::cout << fmt::format("{:5} members: {:6.0f} ns for each heartbeat\n", slots, cost[slots]);
  }
  // Linear work for each would make it 41 times as much. What is left are misses of the processor's caches.
  EXPECT_LT(cost[4096], 4 * cost[100]);
}

TEST(CoordinatorCost, heartbeats_without_news_are_looked_at_once_for_all_with_a_tick) {
  ScriptedGang gang(1000);
  for (int round = 1; round <= 4; ++round) gang.beat_all(round);
  const std::int64_t before = gang.state().evaluations();
  for (int round = 5; round <= 12; ++round) gang.beat_all(round);  // 2 s
  EXPECT_LE(gang.state().evaluations() - before, 9);
}

TEST(CoordinatorCost, a_gang_of_4096_starts_and_finishes_in_a_moment) {
  const double start = cpu_seconds();
  ScriptedGang gang(4096);
  const double formed = cpu_seconds() - start;
  gang.beat_all(1);
  ASSERT_TRUE(gang.up());
  gang.finish();
  EXPECT_EQ(gang.state().view()->phase, Phase::kFinished);
  const double finished = cpu_seconds() - start;
  std::cout << fmt::format("formed in {:.0f} ms, finished after {:.0f} ms\n", formed * 1e3, finished * 1e3);
  EXPECT_LT(finished, 5) << "a walk over all for each message takes longer";
}

}  // namespace
}  // namespace lockstep::rendezvous
