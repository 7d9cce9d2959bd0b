// The coordinator's state machine of one job of two slots, driven by hand, and the actions that it asked for.
#pragma once

#include "operator/rendezvous/coordinator_state.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::rendezvous {
inline constexpr SessionId kFirst =
    100;  // session of slot 0; slot s has kFirst + s, and another hundred after each rejoin

class CoordinatorStateTest : public testing::Test {
 protected:
  ~CoordinatorStateTest() override { EXPECT_FALSE(job->illegal()) << "a transition that kMayFollow does not have"; }

  MonotonicTime time{std::chrono::hours(1)};
  JobPlan plan = two_slots();
  bool leads = true;  // before `job`, which asks for it
  std::unique_ptr<CoordinatorState> job = make(1);
  std::vector<CoordinatorAction> seen;
  GenerationStore::Versioned stored;
  int version = 0;

  static JobPlan two_slots() {
    JobPlan made;
    made.name_space = "ns";
    made.name = "a";
    made.uid = "uid";
    made.slots = 2;
    made.members = {{0, 1, "a-0", "u0", "n0"}, {1, 1, "a-1", "u1", "n1"}};
    return made;
  }
  std::unique_ptr<CoordinatorState> make(std::int64_t term) {
    return std::make_unique<CoordinatorState>(
        term, CoordinatorTiming{}, [] { return std::string(64, 'k'); }, now());
  }
  Now now() const { return {time, WallTime(std::chrono::seconds(1'700'000'000)), leads}; }

  // Newcomers reach everybody, or what `unreached` says.
  std::string unreached;
  bool answers_echo = true;
  // What is told to get ready for the first generation is ready at once.
  bool answers_warm = true;

  void collect() {
    for (auto actions = job->take_actions(); !actions.empty(); actions = job->take_actions()) {
      for (CoordinatorAction& action : actions) {
        seen.push_back(action);
        const auto* out = std::get_if<SendToMember>(&action);
        const auto* echo = out == nullptr ? nullptr : std::get_if<Echo>(&out->message);
        if (echo != nullptr && answers_echo) job->on_message(out->session, Echoed{echo->generation, unreached}, now());
        const auto* warm = out == nullptr ? nullptr : std::get_if<Warm>(&out->message);
        if (warm != nullptr && warm->first && answers_warm) {
          job->on_message(out->session, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true}, now());
        }
      }
    }
  }
  void forget() {
    collect();
    seen.clear();
  }
  template <typename Action>
  std::vector<Action> taken() {
    collect();
    std::vector<Action> found;
    for (const CoordinatorAction& action : seen) {
      if (const auto* wanted = std::get_if<Action>(&action)) found.push_back(*wanted);
    }
    return found;
  }
  template <typename Message>
  std::vector<Message> sent() {
    std::vector<Message> found;
    for (const auto& send : taken<SendToMember>()) {
      if (const auto* wanted = std::get_if<Message>(&send.message)) found.push_back(*wanted);
    }
    return found;
  }

  void set_plan() { job->on_plan(plan, now()); }
  void loaded() { job->on_loaded(stored, now()); }
  // Carries out the newest write.
  void written() {
    stored.record = taken<WriteRecord>().back().next;
    stored.version = std::to_string(++version);
    job->on_written(stored.version, now());
  }
  void not_written(ErrorCode code) { job->on_written(fail(code, "no"), now()); }
  // Of the pod that the plan expects in that slot.
  Hello hello(int slot) const {
    const auto expected =
        std::find_if(plan.members.begin(), plan.members.end(), [&](const auto& member) { return member.slot == slot; });
    Hello made;
    made.name_space = "ns";
    made.slot = slot;
    made.incarnation = expected->incarnation;
    made.pod_name = expected->pod_name;
    made.pod_uid = expected->pod_uid;
    made.session = fmt::format("agent-{}-{}", slot, made.incarnation);
    return made;
  }
  void join(int slot) {
    job->on_hello(kFirst + static_cast<SessionId>(slot), hello(slot), now());
    collect();
  }
  // A member of a generation of term 1 comes again, on a connection of its own: to the next leader's coordinator, or to
  // the same.
  void come_back(int slot, MemberPhase phase, std::int64_t generation = 1, SessionId first = kFirst) {
    Hello message = hello(slot);
    message.phase = phase;
    message.generation = generation;
    message.up = true;
    message.promised = {1, generation};
    job->on_hello(first + static_cast<SessionId>(slot), message, now());
  }
  void ready(int slot, std::int64_t generation, std::int64_t term = 1) {
    Ready message;
    message.id = {term, generation};
    message.addresses = {fmt::format("10.0.0.{}:1", slot)};
    message.host = fmt::format("10.0.0.{}", slot);
    message.master_port = 20'000;
    say(slot, message);
  }
  void say(int slot, const AgentToCoordinator& message) {
    job->on_message(kFirst + static_cast<SessionId>(slot), message, now());
    if (time >= job->deadline()) job->on_tick(now());  // as the server does
    collect();
  }
  // The heartbeat of a member whose processes are up.
  static Heartbeat runs(std::int64_t generation) {
    return {.phase = MemberPhase::kRunning, .generation = generation, .up = true};
  }
  void beat(int slot, std::int64_t generation, std::int64_t step = 0) {
    Heartbeat heartbeat = runs(generation);
    if (step > 0) {
      heartbeat.progress = Progress{
          .step = step, .total_steps = 100, .epoch = 0, .loss = 1.0, .samples_per_second = 1.0, .eta_seconds = 1.0};
    }
    say(slot, heartbeat);
  }
  Exit exit(int rank, std::int64_t generation, int code, int signal = 0, std::int64_t ms = 1'700'000'000'000) {
    Exit made;
    made.generation = generation;
    made.rank = rank;
    made.code = code;
    made.signal = signal;
    made.end_ms = ms;
    return made;
  }
  void up_generation(std::int64_t generation) {
    ready(0, generation);
    ready(1, generation);
    say(0, Up{generation});
    say(1, Up{generation});
    beat(0, generation);
    beat(1, generation);
  }
  void start() {
    set_plan();
    loaded();
    join(0);
    join(1);
    written();
    up_generation(1);
    time += std::chrono::seconds(6);  // past the time without evictions
    beat(0, 1);
    beat(1, 1);
    forget();
  }
  // Another operator, which has recorded its term and met nobody yet.
  void another_leads() {
    job = make(2);
    set_plan();
    loaded();
    written();
  }
  Phase phase() const { return job->view()->phase; }
};

}  // namespace lockstep::rendezvous
