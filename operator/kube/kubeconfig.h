// Clusters, users and contexts as kubectl knows them.
#pragma once

#include <string>

#include "operator/kube/credentials.h"

namespace lockstep::kube {

struct AccessOptions {
  std::string kubeconfig;  // --kubeconfig; empty: KUBECONFIG (a list, the first to name a thing wins) or ~/.kube/config
  std::string context;     // --context; empty: current-context
};

// What a context says. Nothing is connected, and no plugin is run, yet. kNotFound when there is no file at all;
// kInvalid with the file and the field for what cannot be read, is not there, or is not supported.
Result<ClusterAccess> kubeconfig_access(const AccessOptions& options, const Environment& environment, Clock& clock);

// The kubeconfig when there is one or when it was asked for, else the pod's service account. The one sentence for a
// person who has neither: "no kubeconfig: set KUBECONFIG or ...".
Result<ClusterAccess> find_access(const AccessOptions& options, const Environment& environment, Clock& clock);

}  // namespace lockstep::kube
