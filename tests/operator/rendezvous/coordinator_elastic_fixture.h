// A coordinator of a gang that may run with fewer slots, driven by hand.
#pragma once

#include <fmt/format.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {

constexpr SessionId kAgain = kFirst + 50;  // of a slot's second connection, with the slot added

// Three slots, of which two are enough.
class CoordinatorElasticTest : public CoordinatorStateTest {
 protected:
  CoordinatorElasticTest() {
    plan.slots = 3;
    plan.elastic.min_slots = 2;
    plan.elastic.stabilization_seconds = 10;
    plan.members.push_back({2, 1, "a-2", "u2", "n2"});
  }
  void ready_of(const std::vector<int>& slots, std::int64_t generation) {
    for (const int slot : slots) ready(slot, generation);
  }
  void up(const std::vector<int>& slots, std::int64_t generation) {
    ready_of(slots, generation);
    for (const int slot : slots) {
      say(slot, Up{generation});
      beat(slot, generation);
    }
  }
  void run_three() {
    set_plan();
    loaded();
    for (const int slot : {0, 1, 2}) join(slot);
    written();
    up({0, 1, 2}, 1);
    time += std::chrono::seconds(6);  // past the time without evictions
    for (const int slot : {0, 1, 2}) beat(slot, 1);
    forget();
  }
  // The controller has dealt with that generation.
  void handled(std::int64_t generation) {
    plan.handled_generation = generation;
    set_plan();
  }
  // And knows that the pod of `slot` is gone.
  void pod_is_gone(int slot, std::int64_t generation = 1) {
    std::erase_if(plan.members, [&](const auto& member) { return member.slot == slot; });
    handled(generation);
  }
  void pod_is_new(int slot) {
    plan.members.push_back({slot, 2, fmt::format("a-{}-2", slot), fmt::format("v{}", slot), "n9"});
    set_plan();
    job->on_hello(kAgain + static_cast<SessionId>(slot), hello(slot), now());
  }
  // Two of three run generation 2, after the process of slot 2 died.
  void go_on_without_two() {
    run_three();
    for (const int slot : {0, 1, 2}) say(slot, stays(1));
    say(2, exit(2, 1, 137, 9));
    handled(1);
    written();
    up({0, 1}, 2);
  }
  // Two of three run generation 2, after slot 0 was lost.
  void run_two() {
    run_three();
    pod_is_gone(0);
    written();
    up({1, 2}, 2);
    forget();
  }
  // The heartbeat of a member whose processes can stay.
  static Heartbeat stays(std::int64_t generation, std::int64_t step = 0) {
    Heartbeat heartbeat{.phase = MemberPhase::kRunning, .generation = generation, .up = true, .regroups = true};
    if (step > 0) heartbeat.progress = Progress{.step = step, .total_steps = 100};
    return heartbeat;
  }
  std::int64_t proposed() { return sent<Propose>().back().id.generation; }
  // The process of `rank` has ended that generation in band.
  void yielded(int slot, int rank, std::int64_t generation) {
    say(slot, Broken{rank, {generation, -1, "others join", true}});
  }
  void silence_until(Duration wait, const std::vector<int>& speaking, std::int64_t generation) {
    for (const MonotonicTime end = time + wait; time < end; time += std::chrono::milliseconds(250)) {
      for (const int slot : speaking) beat(slot, generation);
      job->on_tick(now());
    }
  }
};

}  // namespace lockstep::rendezvous
