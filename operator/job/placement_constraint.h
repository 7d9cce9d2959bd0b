// What a job's spec.placement asks for, in the levels of the operator's topology. Pure.
#pragma once

#include "operator/api/training_job.h"
#include "operator/base/result.h"
#include "operator/placement/gang.h"
#include "operator/placement/profile.h"

namespace lockstep::job {

// A name becomes the index of its level; api::kNodeLevel is the level below them, Tree::levels(). Without `preferred`
// the gang prefers the innermost level (or the required one, where that is deeper), and waits no time for it. A flat
// topology has no level to prefer.
//
// Without `preferred`, pods that ask for neither CPU nor a device (GPU) are spread: a node would hold any number of
// them.
//
// kInvalid: the topology has no level of that name, or `required` is inside of `preferred`.
Result<placement::Constraint> constraint_of(const api::TrainingJobSpec& spec, const placement::Profile& profile);

}  // namespace lockstep::job
