// Why an attempt ended: the only place where these words stand. A library of its own that needs only base, because the
// coordinator's half of it is linked into the static agent.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::api {

// The names are those of status.attempts[].cause, of restart.rules[].onReasons and of the label `cause` of metrics.
enum class Cause {
  kNone,  // "": no attempt has ended
  // Of a process, as its agent reports it.
  kProcessExit,
  kProcessSignal,
  kProcessFailed,  // the agent sent an unknown cause; the message has it
  kCommandNotFound,
  kPortInUse,
  kHang,
  kStopped,
  // Of a generation, as the coordinator sees it.
  kMemberLost,
  kConnectionBroken,
  kPartitioned,
  kStartTimeout,
  kIdentityMismatch,  // the coordinator found ranks that would compute differently
  // Of a pod, as the API server reports it.
  kPodDeleted,
  kPodFailed,
  kOomKilled,
  kNodeLost,
  kPreempted,
  kEvicted,
  kUnhealthy,  // the operator deleted it: a device of it or its node is sick
  // Of the job as a whole.
  kNotStarted,  // the job was refused for good, or did not start within deadlines.startupSeconds
  kDeadlineExceeded,
  kSuspended,
  kCompleted,
};

// "ProcessExit" for kProcessExit; "" for kNone.
std::string_view name_of(Cause cause);
// Empty when no cause has that name.
std::optional<Cause> cause_named(std::string_view name);
// All but kNone, in the order of the enum.
const std::vector<Cause>& all_causes();

// The cause for an agent's word. Any process in a pod can pose as its agent, so no such word may stand for a cause of
// the cluster. Any of those, and any unknown word, is kProcessFailed.
Cause cause_of_agent(std::string_view word);

// Whether the cluster caused it, not the job: lost pods and nodes, broken connections, stops on request.
bool is_infrastructure(Cause cause);

}  // namespace lockstep::api
