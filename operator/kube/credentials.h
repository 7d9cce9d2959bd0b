// The server of a cluster and the credentials for it: the service account of a pod, or those of a kubeconfig. Files are
// read again when they may have changed, so a rotated token or certificate needs no restart.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::kube {

// Looks a variable up; nullopt if it is not set. Tests pass a table.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
// The environment of this process.
Environment process_environment();

struct ClientCertificate {
  std::string certificate_pem;  // with its chain
  std::string key_pem;
  bool operator==(const ClientCertificate&) const = default;
};

// The credentials of this process. Thread-safe.
class Identity {
 public:
  virtual ~Identity() = default;
  // The bearer token to send; "" if there is none. May read a file or run a plugin (bounded), so call it on a thread
  // that may block. A failed refresh keeps the old token as long as there is one.
  virtual Result<std::string> token() = 0;
  // The server refused `token` (401): forget the cached one. True if a retry with a new token makes sense.
  virtual bool refused(const std::string& token) = 0;
  // The client certificate as of the last token(); empty strings if there is none. Never blocks.
  virtual ClientCertificate certificate() const = 0;
};

// An identity of files and texts, as kubeconfig users and service accounts have it. If both are given, the text wins.
// Files are re-read at most every 60 s, and at once after a refusal.
struct IdentityFiles {
  std::string token, token_file;
  std::string certificate_pem, certificate_file;
  std::string key_pem, key_file;
};
std::shared_ptr<Identity> file_identity(IdentityFiles files, Clock& clock);

// Everything needed to talk to one cluster.
struct ClusterAccess {
  std::string server;       // "https://10.0.0.1:443", with the path prefix that some proxies need
  std::string ca_pem;       // CA certificates; empty: those of `ca_file`
  std::string ca_file;      // read for every new connection; both empty: the system's CAs
  bool insecure = false;    // insecure-skip-tls-verify
  std::string server_name;  // tls-server-name: the name to verify instead of the server's host
  std::string proxy;        // proxy-url of the kubeconfig; empty: HTTPS_PROXY and NO_PROXY decide
  std::string name_space = "default";
  std::string source;  // for messages: "context 'kind' of /home/a/.kube/config"
  std::shared_ptr<Identity> identity;
};

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// The service account of this process's pod. kNotFound: it runs in no pod (the variables or files are missing).
Result<ClusterAccess> in_cluster_access(const Environment& environment, Clock& clock,
                                        const std::string& folder = kServiceAccountFolder);

// Reads a whole file of at most 1 MiB; kNotFound or kUnavailable with the path in the message.
Result<std::string> read_small_file(const std::string& path);

}  // namespace lockstep::kube
