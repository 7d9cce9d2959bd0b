// Transport over cpprestsdk, which Debian 12 has as 2.10.18. The library is archived, so only this file includes it and
// works around its defects. These are a hidden replay of requests, unbounded buffers, a single idle timer in place of
// deadlines, trust in every public CA, and exceptions.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"

namespace lockstep::kube {

// The library parses the machine's authorities for each connection, though a configured CA replaces them: 17 ms of CPU
// beside a handshake of 2 ms. After this call only transports without a configured CA load them. It changes the
// process's environment (SSL_CERT_FILE, SSL_CERT_DIR): call it before the first thread.
void spare_system_authorities();

// SSL_CERT_FILE and SSL_CERT_DIR for the environment of child processes: the values from before
// spare_system_authorities(), empty for one that was not set. Has no entry if that was not called.
std::map<std::string, std::optional<std::string>> spared_environment();

// Creates a transport for the server of `access`. Connects only when a call needs it. kInvalid: the server's URL, proxy
// or certificates cannot be used. All calls must have returned before it is destroyed.
Result<std::unique_ptr<Transport>> make_cpprest_transport(const ClusterAccess& access, const Environment& environment);

}  // namespace lockstep::kube
