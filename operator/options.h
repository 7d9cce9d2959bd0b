// The command line of lockstep-operator, as data.
#pragma once

#include <optional>
#include <string>

#include "operator/base/log.h"
#include "operator/placement/profile.h"

namespace lockstep {

struct OperatorOptions {
  std::string kubeconfig;                      // empty: KUBECONFIG, ~/.kube/config, or the pod's service account
  std::string name_space = "lockstep-system";  // where Lease, Secret and Service of the operator live
  std::string watch_namespace;                 // jobs of this one only; empty: all
  std::string metrics_host = "0.0.0.0";        // of --metrics-address
  int metrics_port = 8080;
  int coordinator_port = 7077;
  std::string advertise_address;  // "ip:port" or "ip"; empty: Service lockstep-coordinator
  std::string pod_ip;             // own address for the EndpointSlice
  std::string agent_image;
  placement::Profile topology;  // levels above the node; none: a flat cluster
  int workers = 4;
  bool leader_elect = true;
  int lease_seconds = 15;  // how long a leader that died without a word is waited for
  log::Format log_format = log::Format::kText;
  log::Level log_level = log::Level::kInfo;
};

// Reads the command line (and POD_IP, POD_NAMESPACE, LOCKSTEP_AGENT_IMAGE, which the chart sets). Returns the exit
// status instead when the process is to end now: 0 after --help and --version, 2 after a sentence about what is wrong.
std::optional<int> parse_options(int argc, char** argv, OperatorOptions& options);

}  // namespace lockstep
