// topology and plan, and what explain says of a gang without nodes: what placement sees in the cluster. They write
// nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/api/training_job.h"
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

struct PlanOptions {
  ProfileChoice profile;
  bool json = false;
};
// Shows where the job of this object would go now, or why it would not. Returns 0 where it would start, else 1.
Result<int> plan(const Target& target, const nlohmann::json& job, const PlanOptions& options);

// Why the pods of the job have no nodes; "" where all have one.
Result<std::string> shortage_of(const Target& target, const api::TrainingJob& job, const ProfileChoice& profile);

}  // namespace lockstep::cli
