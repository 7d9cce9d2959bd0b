// A pod of an explored world: the agent's shipped state machine, and a model of its process. A pure function of what
// reaches it; its clock is its own, because the machine asks only for distances.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/rendezvous/member_state.h"
#include "tests/operator/rendezvous/explored_process.h"

namespace lockstep::rendezvous::explorer {

inline constexpr Duration kQuarterSecond = kHeartbeatEvery;  // time moves by as much

struct Pod {
  int slot = 0;
  std::int64_t incarnation = 1;
  bool alive = true, frozen = false;
  std::optional<int> left;  // the agent has left, with this code
  MonotonicTime clock{std::chrono::hours(1)};
  MemberState state;
  std::vector<Process> processes;  // more than one only where the protocol is broken
  std::int64_t ready_for = 0;      // the highest generation that READY was said for
  std::int64_t followed = 0;       // the highest generation whose GO was followed

  bool there() const { return alive && !left; }
  bool acts() const { return there() && !frozen; }
  const Process* process_in(std::int64_t generation) const;
};

void add(Fingerprint& to, const Pod& pod);

Pod new_pod(int slot, std::int64_t incarnation);

struct PodEvent {
  enum class Kind {
    kConnected,
    kDisconnected,
    kHears,
    kQuarter,  // 250 ms pass
    kFreezes,
    kThaws,
    kDies,        // the pod
    kKilled,      // the process; `number` orders the deaths of a world
    kExits,       // the process, with 0
    kEnds,        // the process, told to by SIGTERM
    kAnswers,     // the process, a regroup
    kMisses,      // the process, a peer of rank `number`
    kLosesTouch,  // the process: its links break, with everybody alive
    kLinks,       // the process: the links of the generation stand
    kTakes,       // the process: the state of the source, `state`
    kBegins,      // the process: all ranks hold the same state
    kReduces,     // the process: the last all-reduce of a step has ended; `number` steps are the whole training
    kCommits,
    kYields,  // the process: it has committed what was to be the last step of the generation
  };
  Kind kind = Kind::kHears;
  std::int64_t number = 0;
  std::int64_t generation = 0;                  // of the process that it is for
  const CoordinatorToAgent* message = nullptr;  // kHears
  std::uint64_t message_id = 0;
  History state;
  bool yields = false;  // kReduces: the ranks agree to end the generation after the step
};

std::uint64_t fingerprint(const PodEvent& event);

// What an event came to.
struct PodStep {
  std::vector<AgentToCoordinator> said;
  bool closes = false;       // the connection, from this side
  std::vector<Go> followed;  // of processes that were started, or go on
  std::string violation;     // of what can be seen from here
  std::string did;           // in words
};

PodStep step(Pod& pod, const PodEvent& event);

}  // namespace lockstep::rendezvous::explorer
