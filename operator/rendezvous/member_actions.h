// What the agent's machine (member_state.h) asks for, and what it is told that no message of the protocol says.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "operator/api/cause.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

// ---- what the machine asks for ----

struct SendToCoordinator {
  AgentToCoordinator message;  // the token of a HELLO is filled in by the sender
};
// Bind as many sockets as `propose` has ranks, and choose a port; answered by on_prepared().
struct PrepareSockets {
  Propose propose;
};
// Close what PrepareSockets made: the proposal is void.
struct DropSockets {};
// Start the processes; answered by on_started() or on_exit() for each rank. They are alive until on_no_process_left().
struct StartProcesses {
  Go go;
  std::vector<int> only;  // local ranks, in order: the others go on. Empty: all
};
// AgentMessage::kRegroup to every process that is there; answered by a WorkerMessage::holding of each.
struct AskHoldings {
  GenerationId id;
};
// AgentMessage::kJoin to every process: they go on in the generation of `go`.
struct ContinueProcesses {
  Go go;
};
// AgentMessage::kYield to every process, all of which can be regrouped: the generation is to end after a step on which
// its ranks agree.
struct AskYield {
  std::int64_t generation = 0;
};
// Try to reach each of these data addresses; answered by on_dialled(). A later one takes the place of an earlier one.
struct DialAddresses {
  std::int64_t generation = 0;
  Peers peers;
};
// The processes that are there, some of which may have ended, have the ranks from `first_rank` on from now on.
struct RenumberProcesses {
  int first_rank = 0;
};
// SIGTERM to every process group; `ask` also sends AgentMessage::kStop over the links.
struct EndProcesses {
  bool ask = false;
};
// SIGABRT to the processes of this rank, and SIGCONT, so that a stopped one can die of it.
struct AbortProcess {
  int rank = 0;
};
// SIGKILL to the processes of this rank.
struct KillProcess {
  int rank = 0;
};
// SIGKILL to everything that is left, adopted grandchildren as well.
struct KillProcesses {};
struct CloseConnection {
  std::string why;
};
// Leave with this exit code; no process is left.
struct ExitAgent {
  int code = 0;
};
using MemberAction = std::variant<SendToCoordinator, PrepareSockets, DropSockets, StartProcesses, AskHoldings,
                                  ContinueProcesses, AskYield, DialAddresses, RenumberProcesses, AbortProcess,
                                  KillProcess, EndProcesses, KillProcesses, CloseConnection, ExitAgent>;

// ---- what it is told ----

// What PrepareSockets came to.
struct Prepared {
  std::vector<std::string> addresses;
  std::string host;
  int master_port = 0;
  api::Cause problem = api::Cause::kNone;  // see Ready
  std::string message;
};

// How a process of the current generation ended.
struct ProcessEnd {
  int rank = 0;
  int code = 0;
  int signal = 0;
  std::int64_t end_ms = 0;
  std::string stderr_tail;
  api::Cause problem = api::Cause::kNone;  // see Exit
  std::string message;
  bool left_behind = false;  // something that it started may still be there
};

}  // namespace lockstep::rendezvous
