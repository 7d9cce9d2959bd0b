// The cluster as placement sees it, read once: nodes, pods of all namespaces, TrainingJobs, and the profile that fits.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/kube/api.h"
#include "operator/placement/census.h"

namespace lockstep::cli {

// --topology-level and --preset; neither: the preset that fits the nodes.
struct ProfileChoice {
  std::vector<std::string> levels;  // "rack=topology.example.com/rack", outermost first
  std::string preset;
};

// The names for --preset.
std::vector<std::string> preset_names();

struct ClusterReading {
  std::unique_ptr<placement::Cluster> cluster;
  std::string profile_source;              // "--topology-level", "--preset", "discovered" or "none"
  std::vector<placement::ShapeId> shapes;  // of the shapes that were given, in their order
  placement::KnownJobs jobs;
  std::map<std::string, int> own;  // pods of `self` that are bound and stay, by node
  std::vector<std::string> notes;  // what could not be read, a sentence each
};

// kInvalid: the choice contradicts itself, or no node has a label of the preset. kForbidden: says which right is
// missing. An object that cannot be read is a note. Pods of job `self` that are not bound count as not there.
Result<ClusterReading> read_cluster(kube::Api& api, const ProfileChoice& choice,
                                    const std::vector<placement::Shape>& shapes = {}, const placement::Uid& self = {});

}  // namespace lockstep::cli
