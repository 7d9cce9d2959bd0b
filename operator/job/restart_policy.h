// Whether a failed attempt is followed by another, and how long to wait before that. What decides is rules (first
// match), exit-code classes, causes that are never charged to the job, crash loops at one step, and the budget. What
// the policy remembers is status.restarts alone, which is bounded and stored; the list of attempts, which is cut,
// decides nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/base/clock.h"

namespace lockstep::job {

struct RestartVerdict {
  bool restart = false;
  bool counted = false;     // towards maxRestarts
  std::string reason;       // when not restarted: CamelCase, becomes the reason of condition Failed
  std::string explanation;  // by which rule: half a sentence for people

  bool operator==(const RestartVerdict&) const = default;
};

// Judges `failure`, which is not yet in `restarts`.
RestartVerdict judge_failure(const api::TrainingJobSpec& spec, const api::RestartsStatus& restarts,
                             const api::Attempt& failure, WallTime now);

// Takes note of a restart: the attempt that ended, with its verdict in `attempt.counted`.
void note_restart(const api::TrainingJobSpec& spec, const api::Attempt& attempt, WallTime now,
                  api::RestartsStatus& restarts);
// Takes note of a cause and a verdict that became known after the restart.
void note_verdict(const api::TrainingJobSpec& spec, const api::Attempt& attempt, WallTime now,
                  api::RestartsStatus& restarts);
// The same for all attempts of a status that an earlier version wrote, which kept no more than the attempts.
void recall_restarts(const api::TrainingJobSpec& spec, const std::vector<api::Attempt>& attempts, WallTime now,
                     api::RestartsStatus& restarts);

// Resets the budget, the back-off and the memory of a crash loop when the job has made progress. Progress is a
// committed `step` beyond that of every failure. A `checkpoint` (its step) has to be beyond it too, or ten minutes have
// to pass without a charged failure.
void note_progress(std::int64_t step, std::optional<std::int64_t> checkpoint, WallTime now,
                   api::RestartsStatus& restarts);

// Forgets all failures: somebody suspended the job, and may have mended what failed.
void forgive_all(api::RestartsStatus& restarts);

// Charged restarts since the last progress and within the window before `now`; never too few.
int counted_restarts(const api::TrainingJobSpec& spec, const api::RestartsStatus& restarts, WallTime now);

// How long after the end of the last attempt the next one may begin. It is nothing for the first failure after
// progress, then backoff.initialSeconds, doubling up to backoff.maxSeconds.
Duration restart_delay(const api::TrainingJobSpec& spec, const api::RestartsStatus& restarts);

// The cluster's doing, not the job's: by its cause, or by the exit code of a process that was told to stop (83).
bool is_infrastructure(const api::Attempt& attempt);

}  // namespace lockstep::job
