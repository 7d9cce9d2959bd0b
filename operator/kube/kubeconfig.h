// Clusters, users and contexts of a kubeconfig, by kubectl's rules.
#pragma once

#include <string>

#include "operator/kube/credentials.h"

namespace lockstep::kube {

struct AccessOptions {
  std::string kubeconfig;  // --kubeconfig; empty: KUBECONFIG (a list, the first to name a thing wins) or ~/.kube/config
  std::string context;     // --context; empty: current-context
};

// The access that a context gives. Connects to nothing and runs no plugin. kNotFound: there is no file at all; kInvalid
// with the file and the field: it cannot be read, is missing, or is not supported.
Result<ClusterAccess> kubeconfig_access(const AccessOptions& options, const Environment& environment, Clock& clock);

// The kubeconfig if there is one or the user named one, else the pod's service account. The one sentence for a user who
// has neither: "no kubeconfig: set KUBECONFIG or ...".
Result<ClusterAccess> find_access(const AccessOptions& options, const Environment& environment, Clock& clock);

}  // namespace lockstep::kube
