// A coordinator of an explored world: the shipped state machine of one term. A pure function of what reaches it; its
// clock is its own, because the machine asks only for distances.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/rendezvous/coordinator_state.h"
#include "tests/operator/rendezvous/explorer_fingerprint.h"

namespace lockstep::rendezvous::explorer {

struct Coordinator {
  int number = 1;  // its keys differ from those of another, whose term may be the same
  bool alive = true, frozen = false;
  MonotonicTime clock{std::chrono::hours(1)};
  CoordinatorState state;
  int keys = 0;             // that it has made
  std::int64_t broken = 0;  // the generation whose failure it shows to the controller; 0: none
  int evicts = -1;          // the slot that it does without for a bad link, with that failure; -1: none
  bool up = false;          // it shows a generation that is up

  bool acts() const { return alive && !frozen; }
};

void add(Fingerprint& to, const Coordinator& coordinator);

Coordinator new_coordinator(int number, std::int64_t term);

// What became of a write or a load.
struct Answer {
  std::optional<Record> loaded;
  std::string version;
  bool conflict = false, unavailable = false;
};

struct CoordinatorEvent {
  enum class Kind {
    kHears,
    kDisconnected,
    kPlan,
    kLoaded,
    kWritten,
    kClock,  // 250 ms pass; kTick follows unless it is frozen
    kTick,
    kFreezes,
    kThaws,
    kDies,
  };
  Kind kind = Kind::kHears;
  SessionId session = 0;
  const AgentToCoordinator* message = nullptr;
  const JobPlan* plan = nullptr;
  bool leads = true;     // holds the Lease when this reaches it
  std::uint64_t id = 0;  // of the message or the plan
  Answer answer;
};

std::uint64_t fingerprint(const CoordinatorEvent& event);

// What an event came to.
struct CoordinatorStep {
  std::vector<SendToMember> sent;
  std::vector<SessionId> closed;  // also in `sent`'s order: after all that was sent
  bool loads = false;
  std::optional<WriteRecord> writes;
  std::string violation;
};

CoordinatorStep step(Coordinator& coordinator, const CoordinatorEvent& event);

}  // namespace lockstep::rendezvous::explorer
