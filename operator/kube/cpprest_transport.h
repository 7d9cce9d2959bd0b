// Transport over cpprestsdk, which Debian 12 has as 2.10.18. The library is archived, so this is the only file that
// knows it, and what it does badly is dealt with here: its hidden replay of requests, its unbounded buffers, its single
// idle timer in place of deadlines, its trust in every public CA, and its exceptions.
#pragma once

#include <memory>

#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"

namespace lockstep::kube {

// Makes a transport for the server of `access`. Connects only when asked to. kInvalid when the server's URL, proxy or
// certificates cannot be used. All calls must have returned before it is destroyed.
Result<std::unique_ptr<Transport>> make_cpprest_transport(const ClusterAccess& access, const Environment& environment);

}  // namespace lockstep::kube
