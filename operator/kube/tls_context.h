// What this process trusts and shows in TLS with an API server: authorities, client certificate, least version.
#pragma once

#include <openssl/types.h>

#include <map>
#include <optional>
#include <string>

#include "operator/kube/credentials.h"

namespace lockstep::kube {

// The HTTP library parses the machine's authorities for each connection, though a configured CA replaces them. That
// is 17 ms of CPU beside a handshake of 2 ms. After this call only connections without a configured CA load them. It
// changes the process's environment (SSL_CERT_FILE, SSL_CERT_DIR): call it before the first thread.
void spare_system_authorities();

// SSL_CERT_FILE and SSL_CERT_DIR for the environment of child processes: the values from before
// spare_system_authorities(), empty for one that was not set. Has no entry if that was not called.
std::map<std::string, std::optional<std::string>> spared_environment();

// Sets a client's context up for the server of `access`, with TLS 1.2 at least. A configured CA replaces the machine's
// authorities, which the context has by default; its file is read now. The client's certificate is shown, if there is
// one. The caller decides whether the server is verified. kInvalid: the CA holds no certificate, and no server is
// trusted; or the client's certificate cannot be used. Any thread.
Status set_up_tls(SSL_CTX* context, const ClusterAccess& access, const ClientCertificate& certificate);

// kInvalid: the certificate or its key cannot be used. Any thread.
Status check_certificate(const ClientCertificate& certificate);

// From OpenSSL's code for a failed handshake to words for people, after "https://... does not answer: ".
std::string handshake_failure(unsigned long code);

}  // namespace lockstep::kube
