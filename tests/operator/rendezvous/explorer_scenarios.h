// What is explored of the membership protocol, as it is shipped and, in part, with each mutation.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "operator/rendezvous/mutation.h"
#include "tests/operator/rendezvous/explorer.h"

namespace lockstep::rendezvous::explorer {

inline long from_environment(const char* name, long otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : std::strtol(given, nullptr, 10);
}

// States of one scenario, which bounds its memory to about 2 GB.
inline std::size_t most_states() {
  return static_cast<std::size_t>(from_environment("LOCKSTEP_EXPLORER_STATES", 1'200'000));
}

inline std::vector<Scenario> shipped_scenarios() {
  const int deeper = static_cast<int>(from_environment("LOCKSTEP_EXPLORER_DEEPER", 0));
  constexpr unsigned kOne = kAllFaults & ~kLateMessage;  // which takes a broken connection first
  using Root = Scenario::Root;
  return {
      {.name = "three members, one fault", .steps = 1, .kinds = kOne},
      {.name = "at least one of three members, one fault", .min_slots = 1, .steps = 1, .kinds = kOne},
      {.name = "three members start, one fault", .steps = 1, .root = Root::kBoot, .kinds = kOne, .depth = 24 + deeper},
      {.name = "a third member joins two, one fault",
       .min_slots = 1,
       .late_slots = 1,
       .kinds = kProcessDies | kPodDies | kConnectionBreaks,
       .depth = 36 + deeper},
      {.name = "checkpoints, one fault",
       .min_slots = 2,
       .checkpoints = true,
       .root = Root::kStepped,
       .kinds = kProcessDies | kPodDies | kCoordinatorDies,
       .depth = 30 + deeper},
      {.name = "three members, one fault and a deleted Lease", .steps = 1, .second_term = 1, .kinds = kOne},
      {.name = "at least one of three members, one fault and a deleted Lease",
       .min_slots = 1,
       .steps = 1,
       .second_term = 1,
       .kinds = kOne},
      {.name = "three members in two racks, one fault", .steps = 1, .racks = true, .kinds = kOne},
      {.name = "at least one of three members in two racks, one fault",
       .min_slots = 1,
       .steps = 1,
       .racks = true,
       .kinds = kOne},
      {.name = "links of three members, two faults", .steps = 1, .kinds = kProcessLosesTouch, .faults = 2},
      {.name = "links of at least one of three members, two faults",
       .min_slots = 1,
       .steps = 1,
       .kinds = kProcessLosesTouch,
       .faults = 2},
      {.name = "three members, two faults", .steps = 1, .faults = 2, .depth = 9 + deeper},
      {.name = "three members, a fault and a delay", .steps = 1, .delays = 1, .depth = 12 + deeper},
      {.name = "at least two of four members, two faults",
       .slots = 4,
       .min_slots = 2,
       .steps = 1,
       .faults = 2,
       .depth = 5 + deeper},
  };
}

// A process that has trained takes the state of another one.
inline bool takes_another_state(const Explored& explored, const World& world) {
  for (int slot = 0; slot < explored.scenario().slots; ++slot) {
    for (const Process& process : explored.pod(world, slot).processes) {
      if (process.stage == Process::Stage::kTaking && process.introduced) return true;
    }
  }
  return false;
}

// A GO of a later generation than the first is in `messages`; `below` that of what slot 0 was READY for.
inline bool has_go(const Explored& explored, const World& world, const std::vector<Id>& messages, bool below) {
  for (const Id id : messages) {
    const auto* go = std::get_if<Go>(&explored.parts().to_agents[id]);
    if (go == nullptr || go->id.generation < 2) continue;
    if (!below || explored.pod(world, 0).ready_for > go->id.generation) return true;
  }
  return false;
}

inline std::vector<Waypoint> to_a_late_go() {
  const auto on_the_way = [](const Explored& explored, const World& world) {
    const std::vector<Link>& list = explored.links(world, 0).list;
    return !list.empty() && has_go(explored, world, list.back().down, false);
  };
  const auto late = [](bool below) {
    return [below](const Explored& explored, const World& world) {
      for (const Link& link : explored.links(world, 0).list) {
        if (has_go(explored, world, link.late, below)) return true;
      }
      return false;
    };
  };
  return {{"a GO is on its way to slot 0", kProcessDies, 1, 0, on_the_way},
          {"slot 0 has left the connection", kConnectionBreaks, 1, 0, late(false)},
          {"slot 0 is READY for a later generation", 0, 0, 0, late(true)}};
}

// Slot 0 alone has made a step, in generation 1, and is READY; others make theirs in a generation without it.
inline std::vector<Waypoint> to_two_first_steps() {
  const auto process = [](const Explored& explored, const World& world, int slot) -> const Process* {
    const std::vector<Process>& all = explored.pod(world, slot).processes;
    return all.size() == 1 ? &all.front() : nullptr;
  };
  const auto one_step = [process](const Explored& explored, const World& world) {
    const Process* ahead = process(explored, world, 0);
    const Process* behind = process(explored, world, 1);
    return ahead != nullptr && behind != nullptr && ahead->version().step == 1 && behind->version().step == 0 &&
           explored.pod(world, 0).state.phase() == MemberPhase::kReady && explored.pod(world, 1).ready_for > 1;
  };
  const auto both = [process](const Explored& explored, const World& world) {
    const Process* first = process(explored, world, 0);
    const Process* second = process(explored, world, 1);
    return first != nullptr && second != nullptr && first->version().step == 1 && second->version().step == 1 &&
           second->version().generation > first->version().generation &&
           explored.pod(world, 0).state.phase() == MemberPhase::kReady;
  };
  return {{"slot 0 alone has made a step, and is READY for the next generation", kProcessLosesTouch, 1, 1, one_step},
          {"others have made one without it", kConnectionBreaks, 1, 0, both}};
}

struct Mutated {
  Mutation mutation;
  const char* name;
  Scenario scenario;
};

inline std::vector<Mutated> mutated_scenarios() {
  constexpr unsigned kProcess = kProcessDies;
  return {
      {Mutation::kGoBeforeRecord, "go_before_record", {.name = "", .steps = 1, .kinds = kProcess}},
      // The second one strikes while a process that was started in a generation cannot be regrouped yet.
      {Mutation::kReadyWhileRunning, "ready_while_running", {.name = "", .steps = 1, .kinds = kProcess, .faults = 2}},
      {Mutation::kReuseNumber,
       "reuse_number",
       {.name = "", .steps = 1, .kinds = kPodDies | kConnectionBreaks | kWriteFails | kAnswerIsLost, .faults = 2}},
      {Mutation::kKeepUnasked, "keep_unasked", {.name = "", .steps = 1, .kinds = kProcess}},
      {Mutation::kDisjointSuccessor,
       "disjoint_successor",
       {.name = "", .min_slots = 1, .steps = 1, .late_slots = 1, .kinds = kConnectionBreaks, .faults = 2, .delays = 4}},
      {Mutation::kNoTransfer, "no_transfer", {.name = "", .steps = 1, .kinds = kProcess}},
      {Mutation::kVersionWithoutGeneration,
       "version_without_generation",
       {.name = "", .min_slots = 1, .by = to_two_first_steps(), .kinds = kProcessLosesTouch}},
      {Mutation::kForgetReports,
       "forget_reports",
       {.name = "", .steps = 1, .kinds = kProcessLosesTouch | kCoordinatorDies, .faults = 2, .depth = 10}},
      {Mutation::kGoBelowPromise,
       "go_below_promise",
       {.name = "", .steps = 1, .by = to_a_late_go(), .kinds = kLateMessage}},
      {Mutation::kReuseKey, "reuse_key", {.name = "", .steps = 1, .kinds = kProcess}},
      {Mutation::kRankFromSlot,
       "rank_from_slot",
       {.name = "", .steps = 1, .racks = true, .kinds = kProcess | kCoordinatorDies, .faults = 2, .depth = 10}},
      {Mutation::kTornReceive,
       "torn_receive",
       {.name = "",
        .steps = 1,
        .by = {{"a process that has trained takes the state of another", kProcess, 1, 0, takes_another_state}},
        .kinds = kProcessLosesTouch}},
      {Mutation::kPublishUnconfirmed,
       "publish_unconfirmed",
       {.name = "", .min_slots = 1, .checkpoints = true, .kinds = kProcess}},
  };
}

}  // namespace lockstep::rendezvous::explorer
