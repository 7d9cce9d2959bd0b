// The command line of lockstep-operator, as data.
#pragma once

#include <optional>
#include <string>

#include "operator/base/log.h"
#include "operator/job/job_placement.h"
#include "operator/placement/profile.h"
#include "operator/placement/sickness.h"

namespace lockstep {

struct OperatorOptions {
  std::string kubeconfig;                      // empty: KUBECONFIG, ~/.kube/config, or the pod's service account
  std::string name_space = "lockstep-system";  // namespace of the operator's Lease, Secret and Service
  std::string watch_namespace;                 // only jobs of this one; empty: all
  std::string metrics_host = "0.0.0.0";        // of --metrics-address
  int metrics_port = 8080;
  int coordinator_port = 7077;
  std::string advertise_address;  // "ip:port" or "ip"; empty: Service lockstep-coordinator
  std::string pod_ip;             // own address for the EndpointSlice
  std::string agent_image;
  placement::Profile topology;      // levels above the node; none: a flat cluster
  placement::SickSigns sick_signs;  // of --avoid-nodes, --leave-nodes and --dead-nodes
  placement::SickSigns leave_signs;
  placement::SickSigns dead_signs;
  bool leave_unhealthy_devices = true;
  job::DefaultBackend placement_backend = job::DefaultBackend::kAuto;
  int workers = 4;
  bool leader_elect = true;
  int lease_seconds = 15;  // how long a standby waits for a leader that died silently
  log::Format log_format = log::Format::kText;
  log::Level log_level = log::Level::kInfo;
};

// Reads the command line (and POD_IP, POD_NAMESPACE, LOCKSTEP_AGENT_IMAGE, which the chart sets). Returns the exit
// status if the process should end: 0 after --help and --version, 2 after a sentence about the mistake.
std::optional<int> parse_options(int argc, char** argv, OperatorOptions& options);

}  // namespace lockstep
