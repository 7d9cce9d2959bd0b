// The operator from its options to its end: credentials, waiting for the API server, waiting to lead, and the job
// controller while it leads. Only errors that waiting cannot mend end the process: bad options, an unreadable
// kubeconfig, a port that is taken.
// SIGTERM and SIGINT end it in order, a second one at once. If it loses the Lease, the process restarts in place
// (exec), which drops everything that a former leader knew. main() reads the command line.
#pragma once

#include <functional>
#include <memory>

#include "operator/kube/api.h"
#include "operator/options.h"

namespace lockstep {

// Gets the client of the cluster once, before its first use, and returns the one for the operator to use.
using WrapApi = std::function<std::unique_ptr<kube::Api>(std::unique_ptr<kube::Api>)>;

// Called by main() before any thread exists; a restart passes `argv` on. Returns the exit status, after a sentence on
// stderr if it is not 0. `wrap` lets tests intercept the operator's writes.
int run_operator(const OperatorOptions& options, char** argv, const WrapApi& wrap = {});

}  // namespace lockstep
