// What an operator starts when it begins to lead: authority, coordinator, the way to it, and the job controller.
#pragma once

#include <memory>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/base/result.h"
#include "operator/job/job_controller.h"
#include "operator/kube/api.h"
#include "operator/kube/leader_elector.h"
#include "operator/options.h"

namespace lockstep {

// Everything runs when this returns. `elector` is null without election; it and the other references outlive the
// controller. Errors are sentences for people.
Result<std::unique_ptr<job::JobController>> lead(const OperatorOptions& options, kube::Api& api,
                                                 const kube::LeaderElector* elector, MetricsRegistry& metrics,
                                                 Clock& clock);

}  // namespace lockstep
