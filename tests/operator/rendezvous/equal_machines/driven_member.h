// An agent's machine behind an interface that names none of its types. So one program can drive two versions of it by
// the same events. driven_member.cpp is compiled once for each version (compare.sh).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::equal_machines {

struct MemberEvent {
  enum class Kind {
    kAgentStarts,  // a fresh machine
    kConnected,
    kDisconnected,
    // What a coordinator says.
    kWelcome,
    kRefused,
    kPropose,
    kGo,
    kWarm,
    kEcho,
    kAck,
    kHalt,
    kYield,
    kAbort,
    kStop,
    kDone,
    kUnknown,
    // What becomes of the machine's orders, and what processes say and do.
    kPrepared,
    kDialled,
    kStarted,
    kUp,
    kProgress,
    kCheckpoint,
    kFailure,
    kBroken,
    kHolding,
    kActivity,
    kIdentity,
    kProcessState,
    kExit,
    kNoProcessLeft,
    kTerminate,
    kTick,
  };

  Kind kind = Kind::kTick;
  std::int64_t time_ms = 0;
  std::int64_t term = 0, generation = 0, step = 0;
  int program = 0;  // Kind of GO and WARM
  int first_rank = 0, ranks = 1, world_size = 1;
  int rank = 0;            // of a process
  std::vector<int> ports;  // of GO's peers, or those that were prepared
  int problem = 0;         // 0: none
  int number = 0;          // heartbeat_ms, grace, digest, identity, suspect, state: by kind
  int code = 0, signal = 0;
  bool flag = false;  // final, first, regroups, yielded, left_behind: by kind
};

// What a machine asks for, as far as the pod of random_member.h carries it out.
struct MemberOrder {
  enum class Kind {
    kHello,
    kHeartbeat,
    kReady,
    kUp,
    kBroken,
    kExit,
    kEchoed,
    kPrepare,
    kDropSockets,
    kStart,
    kAskHoldings,
    kContinue,
    kAskYield,
    kDial,
    kRenumber,
    kEnd,
    kAbort,
    kKill,
    kKillAll,
    kClose,
    kExitAgent,
  };
  Kind kind = Kind::kHello;
  std::int64_t term = 0, generation = 0;
  int first_rank = 0, ranks = 0, rank = 0;
  std::vector<int> ports;  // of READY
  std::vector<int> only;   // of kStart
  bool well = true;        // READY has no problem
};

struct MemberSeen {
  std::vector<MemberOrder> orders;
  std::string trace;  // everything that the machine said and shows, in order
};

class MemberMachine {
 public:
  virtual ~MemberMachine() = default;
  virtual const MemberSeen& after(const MemberEvent& event) = 0;
  // Where it stands in words, for a difference.
  virtual std::string describe() const = 0;
};

std::unique_ptr<MemberMachine> member_before();
std::unique_ptr<MemberMachine> member_now();

}  // namespace lockstep::equal_machines
