// Transport over cpprestsdk, which Debian 12 has as 2.10.18. The library is archived, so this is the only file that
// knows it, and what it does badly is dealt with here: its hidden replay of requests, its unbounded buffers, its single
// idle timer in place of deadlines, its trust in every public CA, and its exceptions.
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

// SSL_CERT_FILE and SSL_CERT_DIR as programs that this one starts are to see them: the values from before
// spare_system_authorities(), empty for one that was not set. Has no entry when that was not called.
std::map<std::string, std::optional<std::string>> spared_environment();

// Makes a transport for the server of `access`. Connects only when asked to. kInvalid when the server's URL, proxy or
// certificates cannot be used. All calls must have returned before it is destroyed.
Result<std::unique_ptr<Transport>> make_cpprest_transport(const ClusterAccess& access, const Environment& environment);

}  // namespace lockstep::kube
