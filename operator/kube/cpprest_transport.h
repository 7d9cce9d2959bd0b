// Transport over cpprestsdk, which Debian 12 has as 2.10.18. The library is archived, so only this file includes it and
// works around its defects. These are a hidden replay of requests, unbounded buffers, a single idle timer in place of
// deadlines, trust in every public CA, and exceptions.
#pragma once

#include <memory>

#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"

namespace lockstep::kube {

// Creates a transport for the server of `access`. Connects only when a call needs it. kInvalid: the server's URL, proxy
// or certificates cannot be used. All calls must have returned before it is destroyed.
Result<std::unique_ptr<Transport>> make_cpprest_transport(const ClusterAccess& access, const Environment& environment);

}  // namespace lockstep::kube
