// How the status of a job is written, and when a change is worth a write. It has conditions by the metav1 rules, the
// word for people, and numbers. Conditions and attempts are written at once; counts and sentences at most once a
// second; progress at most every 15 s, and at most 20 times a second for all jobs together; nothing at all when nothing
// changed.
#pragma once

#include <string>

#include "operator/job/plan.h"
#include "operator/job/pod_policy.h"
#include "operator/job/snapshot.h"
#include "operator/job/startup_policy.h"

namespace lockstep::job {

inline constexpr Duration kStatusEvery = std::chrono::seconds(1);
inline constexpr Duration kProgressEvery = std::chrono::seconds(15);
inline constexpr int kProgressWritesPerSecond = 20;
inline constexpr size_t kStoredAttempts = 10;

// How often a job's progress alone is written when so many jobs run: their writes stay within the cluster's budget.
Duration progress_interval(std::size_t running_jobs);

// Status stores whole seconds.
WallTime whole_seconds(WallTime time);

void set_condition(const Snapshot& snapshot, api::TrainingJobStatus& status, const std::string& type, bool value,
                   const std::string& reason, const std::string& message);

// First visit: every condition type with a value, the numbers that follow from the spec.
void fill_in(const Snapshot& snapshot, api::TrainingJobStatus& status);

// Appends and keeps the last ten.
void append_attempt(api::TrainingJobStatus& status, api::Attempt attempt);

// The newest generation whose end is in `attempts`; what the coordinator may leave behind.
std::int64_t handled_generation(const api::TrainingJobStatus& status);

// Ends the job: condition Succeeded or Failed, completionTime, an event.
void finish(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan, bool succeeded,
            const std::string& reason, const std::string& message);

// The coordinator's wishes from a status and the pods that are there.
rendezvous::JobPlan job_plan(const Snapshot& snapshot, const Survey& survey, const api::TrainingJobStatus& status);

// The same for a job that stops and resumes later. A pod that may still save or report a checkpoint is a member, even
// if it was told to go. So is one whose node is not ready and whose agent has not found a new leader yet.
rendezvous::JobPlan stop_plan(const Snapshot& snapshot, const api::TrainingJobStatus& status);

// Placed, Running, Restarting of a job that should run, from what pods and coordinator say.
void describe(const Snapshot& snapshot, const Survey& survey, const std::optional<Blocker>& blocker,
              api::TrainingJobStatus& status, Plan& plan);

// Numbers: nodes, membership, recovery times, progress, state word.
void count(const Snapshot& snapshot, const Survey& survey, api::TrainingJobStatus& status);

// Condition ReplicaDivergence, and an event, once for each generation that found it. It stays: who reads the result
// should know.
void tell_divergence(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan);

// Pending, Starting, Running, Restarting, Suspended, Succeeded or Failed.
std::string state_word(const api::TrainingJobStatus& status);

// Puts `status` into the plan when the difference to the stored one is due for a write; asks for another look when it
// will be later. Events of a status that is not written are dropped.
void settle(const Snapshot& snapshot, api::TrainingJobStatus status, Plan& plan);

}  // namespace lockstep::job
