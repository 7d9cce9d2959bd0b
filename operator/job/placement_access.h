// Whether the operator may see what placement has to know: all nodes, and the pods of all namespaces.
#pragma once

#include <string>

#include "operator/base/result.h"
#include "operator/kube/api.h"

namespace lockstep::job {

// Why the operator can place no pods, as one sentence without a full stop that names the missing rule; "" when it can.
// Asks for one node and one pod. Any error but kForbidden says nothing about permissions: ask again.
Result<std::string> placement_obstacle(kube::Api& api);

}  // namespace lockstep::job
