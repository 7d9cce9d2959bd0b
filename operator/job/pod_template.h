// spec.podTemplate over a generated pod, and the line between what a user may patch and what belongs to Lockstep.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/api/training_job.h"
#include "operator/base/result.h"

namespace lockstep::job {

// `generated` with the job's template merged in. What Lockstep owns must come out of the merge as it went in. Lockstep
// owns names, labels, owner, command, the agent with its environment and volumes, and rank variables. kInvalid names
// the field otherwise. The list of what is owned is in one place, pod_template.cpp.
Result<nlohmann::json> apply_pod_template(const nlohmann::json& generated, const api::TrainingJobSpec& spec);

}  // namespace lockstep::job
