// Objects that a job of the same name left behind: deleted with --cascade=orphan, or not yet taken by the garbage
// collector. Their names are the new job's as well, so it takes them over.
#pragma once

#include <string>

#include "operator/api/object.h"
#include "operator/kube/api.h"

namespace lockstep::job {

// Whether `object` carries our labels for `job` under another uid, and nothing else controls it. The API server has to
// say that the job of this name has `uid`: then no job has the other uid. The caller replaces the object under the
// resourceVersion that it read.
Result<bool> left_by_predecessor(kube::Api& api, const api::ObjectMeta& object, const std::string& job,
                                 const std::string& uid);

}  // namespace lockstep::job
