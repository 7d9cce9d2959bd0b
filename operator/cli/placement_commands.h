// topology: what placement knows of the cluster.
#pragma once

#include <string>

#include "operator/cli/cluster_commands.h"
#include "operator/cli/cluster_reading.h"
#include "operator/cli/topology_view.h"

namespace lockstep::cli {

struct TopologyOptions {
  ProfileChoice profile;
  std::string resource;  // "": GPUs, or CPUs where no node has any
  DrawOptions draw;
  bool json = false;
};
// Draws the tree of domains. kNotFound: no node has the resource.
Status topology(const Target& target, const TopologyOptions& options);

}  // namespace lockstep::cli
