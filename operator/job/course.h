// What a decision on a job that should run has come to so far. The questions of decide.cpp take a course by value and
// return the one that follows; here are the steps that several of them share.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "operator/api/cause.h"
#include "operator/job/plan.h"
#include "operator/job/pod_policy.h"
#include "operator/job/restart_policy.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

struct Course {
  api::TrainingJobStatus status;  // as it is to be stored
  Survey gang;                    // the pods, as the status has them
  Plan plan;                      // all but its status
};

// The name of a cause, as the reason of a condition or an event.
std::string reason_of(api::Cause cause);

// The coordinator has a generation that runs, ran or was done, and no attempt tells of its end.
bool has_unhandled(const Snapshot& snapshot, const api::TrainingJobStatus& status);

// An attempt that ends now, with no strategy yet and of no pod.
api::Attempt new_attempt(const Snapshot& snapshot, const api::TrainingJobStatus& status, api::Cause cause,
                         std::string message);
// Says the pod of `slot` and its node in `attempt`, where the slot has a pod.
api::Attempt with_pod_of(const Survey& gang, int slot, api::Attempt attempt);

// A new round of pods begins: stored before the first of them is created.
Course begin_round(const Snapshot& snapshot, Course course);

// The attempt is followed by another: the budget and the list of attempts know of it.
Course add_restart(const Snapshot& snapshot, Course course, api::Attempt attempt);

// The job ends with that attempt, by that verdict. `place`: where the attempt is in the list already, with less known
// of it; empty: it is new.
Course give_up(const Snapshot& snapshot, Course course, api::Attempt attempt, const RestartVerdict& verdict,
               std::optional<std::size_t> place = {});
// The job ends because of `cause`; `reason` is that of the condition.
Course fail_job(const Snapshot& snapshot, Course course, api::Cause cause, const std::string& reason,
                const std::string& message);

}  // namespace lockstep::job
