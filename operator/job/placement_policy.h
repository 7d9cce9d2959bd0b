// Jobs whose nodes the operator chooses: what the placer is told of a job, and how its answer becomes part of a plan.
// Pure, like decide().
//
// Guarantees:
//  * a slot gets a pod only when the answer has a node for it, and only in a round that is stored;
//  * a pod that its node refused, or that cannot be scheduled there, is recreated under the same name, without an
//    attempt or a new round. Condition Placed is not AllPodsPlaced first, so that its absence is no loss;
//  * a released gang gets a new round without an attempt. A gang with a generation is never released.
#pragma once

#include <cstdint>
#include <vector>

#include "operator/job/plan.h"
#include "operator/job/pod_policy.h"
#include "operator/job/snapshot.h"
#include "operator/placement/gang.h"

namespace lockstep::job {

// The job should have pods: it is not finished, suspended, let go (hold_policy.h) or deleted. Of the stored status.
bool wants_nodes(const Snapshot& snapshot);

// What the placer is told of such a job. The caller fills in priority, shape, constraint and timeout. The snapshot
// needs no `placing` yet.
placement::Gang gang_of(const Snapshot& snapshot);

// Pods are about to be deleted whose absence is no loss: condition Placed must not be AllPodsPlaced before.
bool is_replacing(const Snapshot& snapshot, const Survey& gang);

// Deletes all pods of a gang that the placer releases, and begins a new round. True: it is released.
bool release_gang(const Snapshot& snapshot, const Survey& gang, api::TrainingJobStatus& status, Plan& plan);

// Of `missing`, the pods that may be created in a round of `incarnation`, with their nodes. All of them where
// kube-scheduler chooses the nodes.
std::vector<PodToCreate> creates_with_nodes(const Snapshot& snapshot, std::int64_t incarnation,
                                            std::vector<PodToCreate> missing, Plan& plan);

// Moves, opens and replaces pods that are there, by the answer.
void plan_placed_pods(const Snapshot& snapshot, const Survey& gang, std::int64_t incarnation, Plan& plan);

}  // namespace lockstep::job
