// Whether a failed attempt is followed by another: rules (first match), exit-code classes, causes that are never
// charged to the job, crash loops at one step, and the budget. And how long to wait before the next one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/base/clock.h"

namespace lockstep::job {

// Causes of attempts. The coordinator's (ProcessExit ... Hang) come with rendezvous::Failure.
inline constexpr const char* kCauseProcessExit = "ProcessExit";
inline constexpr const char* kCauseProcessSignal = "ProcessSignal";
inline constexpr const char* kCauseMemberLost = "MemberLost";
inline constexpr const char* kCauseConnectionBroken = "ConnectionBroken";
inline constexpr const char* kCausePartitioned = "Partitioned";
inline constexpr const char* kCauseStartTimeout = "StartTimeout";
inline constexpr const char* kCausePortInUse = "PortInUse";
inline constexpr const char* kCauseCommandNotFound = "CommandNotFound";
inline constexpr const char* kCauseStopped = "Stopped";
inline constexpr const char* kCauseHang = "Hang";
inline constexpr const char* kCausePodDeleted = "PodDeleted";
inline constexpr const char* kCausePodFailed = "PodFailed";
inline constexpr const char* kCauseNodeLost = "NodeLost";
inline constexpr const char* kCausePreempted = "Preempted";
inline constexpr const char* kCauseEvicted = "Evicted";
inline constexpr const char* kCauseOomKilled = "OOMKilled";
inline constexpr const char* kCauseSuspended = "Suspended";
inline constexpr const char* kCauseCompleted = "Completed";

struct RestartVerdict {
  bool restart = false;
  bool counted = false;     // towards maxRestarts
  std::string reason;       // when not restarted: CamelCase, becomes the reason of condition Failed
  std::string explanation;  // by which rule: half a sentence for people

  bool operator==(const RestartVerdict&) const = default;
};

// Judges `failure`, which is not yet in `status.attempts`.
RestartVerdict judge_failure(const api::TrainingJobSpec& spec, const api::TrainingJobStatus& status,
                             const api::Attempt& failure, WallTime now);

// Counted restarts that ended within the window before `now`. Only the last ten attempts are stored: when all ten lie
// in the window, the stored count is carried on, which never counts too few.
int counted_restarts(const api::TrainingJobSpec& spec, const api::TrainingJobStatus& status, WallTime now);

// How long after the end of the last attempt the next one may begin: nothing for the first failure after progress, then
// backoff.initialSeconds, doubling up to backoff.maxSeconds.
Duration restart_delay(const api::TrainingJobSpec& spec, const std::vector<api::Attempt>& attempts);

// PodDeleted, NodeLost, Preempted, Evicted, MemberLost, ConnectionBroken, Partitioned, Stopped (exit code 83): the
// cluster's doing, not the job's.
bool is_infrastructure(const api::Attempt& attempt);

}  // namespace lockstep::job
