// Why a job does not run yet, in words that name the culprit, and when to give up. What the API server, the scheduler
// or a kubelet refuses becomes the reason of a condition at once. What can never succeed fails the job at once. A job
// that waits for room stays Pending with that reason. One whose pods are placed fails after deadlines.startupSeconds.
#pragma once

#include <optional>
#include <string>

#include "operator/job/pod_policy.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

inline constexpr const char* kQuotaExceeded = "QuotaExceeded";

struct Blocker {
  std::string reason;      // CamelCase: ImagePullBackOff, Unschedulable, QuotaExceeded, NameConflict, ...
  std::string message;     // one sentence that names the object
  bool permanent = false;  // waiting cannot help
  bool placement = false;  // a pod could not be created or bound, rather than started

  bool operator==(const Blocker&) const = default;
};

// The first thing that stands in the way; empty when nothing is known to.
std::optional<Blocker> find_blocker(const Snapshot& snapshot, const Survey& survey);

// Why some slot has no node, where the operator places the pods; empty when all but spares have one. It stands in the
// way of a start only while fewer pods are there than can train.
std::optional<Blocker> find_placement_wait(const Snapshot& snapshot);

// When to ask placement again about a job that it refused and may accept without an event, as after a PriorityClass was
// created. The pause is as long as the job has waited already (at least 5 s, at most 20 s). So the job starts within 30
// s after, and no watch of a kind of object is held for a misspelt name. In 20 s where only spares wait. Empty: nothing
// but an event changes the answer, or all pods have their nodes.
std::optional<Duration> refusal_wait(const Snapshot& snapshot);

// When the start must be over: startupSeconds after so many pods were bound to nodes as can train. Empty while a job
// waits for room, however long, and once it has started.
std::optional<WallTime> startup_deadline(const Snapshot& snapshot, const Survey& survey,
                                         const api::TrainingJobStatus& status);

// What the job waits for when nothing stands in its way ("waiting for slots 2, 3 to connect").
std::string waiting_for(const Snapshot& snapshot, const Survey& survey);

}  // namespace lockstep::job
