// Why an attempt ended, and what was done about it: the only place where these words stand. A library of its own that
// needs nothing but base, because the coordinator's half of it is linked into the static agent.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::api {

// The names are those of status.attempts[].cause, of restart.rules[].onReasons and of the label `cause` of metrics.
enum class Cause {
  kNone,  // "": nothing has ended
  // Of a process, by what its agent says.
  kProcessExit,
  kProcessSignal,
  kProcessFailed,  // the agent's word for it is none of ours; it is in the message
  kCommandNotFound,
  kPortInUse,
  kHang,
  kStopped,
  // Of a generation, by what the coordinator sees.
  kMemberLost,
  kConnectionBroken,
  kPartitioned,
  kStartTimeout,
  kIdentityMismatch,  // its ranks would compute differently
  // Of a pod, by what the API server says.
  kPodDeleted,
  kPodFailed,
  kOomKilled,
  kNodeLost,
  kPreempted,
  kEvicted,
  // Of the job as a whole.
  kNotStarted,  // it was refused for good, or not started within deadlines.startupSeconds
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

// The cause that an agent's word stands for. Any process in a pod can speak as its agent, so it gets none that says
// something of the cluster: any such word, and any unknown one, is kProcessFailed.
Cause cause_of_agent(std::string_view word);

// Lost pods and nodes, broken connections, stops on request: the cluster's doing, not the job's.
bool is_infrastructure(Cause cause);

}  // namespace lockstep::api
