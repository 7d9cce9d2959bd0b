// Credential plugins of a kubeconfig (client.authentication.k8s.io): a program that prints a token or a client
// certificate, as the managed clusters have them (aws, gke-gcloud-auth-plugin, kubelogin).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/kube/credentials.h"

namespace lockstep::kube {

struct ExecPlugin {
  std::string api_version = "client.authentication.k8s.io/v1";
  std::string command;  // a path, or a name to look up in PATH; never a shell line
  std::vector<std::string> args;
  std::map<std::string, std::string> env;        // added to the environment of this process
  std::string install_hint;                      // shown when the command does not exist
  std::string interactive_mode = "IfAvailable";  // Never, IfAvailable, Always: may it prompt at the terminal?
  std::string cluster_json;                      // spec.cluster of KUBERNETES_EXEC_INFO; empty: not provided
  Duration deadline = std::chrono::seconds(60);  // then it is killed; five times as long if it may prompt
};

struct ExecCredential {
  std::string token;
  ClientCertificate certificate;
  std::optional<WallTime> expires;
};

// Runs the plugin once and parses its output (at most 1 MiB). Blocks. kNotFound with the install hint: there is no such
// command; kDeadlineExceeded; kUnauthorized: it failed; kCorrupt: it printed something else.
Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin);

// An identity that runs the plugin if there is no credential, shortly before it expires, and after a refusal.
std::shared_ptr<Identity> exec_identity(ExecPlugin plugin, Clock& clock);

}  // namespace lockstep::kube
