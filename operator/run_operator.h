// The operator from its options to its end: credentials, waiting for the API server, waiting to lead, and the job
// controller while it leads. Only what no waiting mends ends the process: bad options, an unreadable kubeconfig, a port
// that is taken.
// Signals drive it: SIGTERM and SIGINT end it in order, a second one at once; losing the Lease starts the process anew
// in place, which drops everything that a former leader knew. The command line is left to main().
#pragma once

#include <functional>
#include <memory>

#include "operator/kube/api.h"
#include "operator/options.h"

namespace lockstep {

// Gets the client of the cluster once, before its first use, and returns what the operator uses instead.
using WrapApi = std::function<std::unique_ptr<kube::Api>(std::unique_ptr<kube::Api>)>;

// Called by main() before any thread exists; `argv` is what starting anew passes on. Returns the exit status, after a
// sentence on stderr when it is not 0. `wrap` is for tests that come between the operator and its writes.
int run_operator(const OperatorOptions& options, char** argv, const WrapApi& wrap = {});

}  // namespace lockstep
