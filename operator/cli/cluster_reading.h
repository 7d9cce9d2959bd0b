// The cluster as placement sees it, read once: nodes, pods of all namespaces, TrainingJobs, and the profile that fits.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/kube/api.h"
#include "operator/placement/census.h"

namespace lockstep::cli {

// --topology-level and --preset; neither: the levels of the operator, by the arguments of its newest pod. Where it has
// no pod, as outside a cluster: the preset that fits the nodes.
struct ProfileChoice {
  std::vector<std::string> levels;  // "rack=topology.example.com/rack", outermost first
  std::string preset;
  bool discover = false;  // the preset also where the operator has no levels; else the cluster is flat then
};

// The names for --preset.
std::vector<std::string> preset_names();

struct ClusterReading {
  std::unique_ptr<placement::Cluster> cluster;
  std::string profile_source;              // "--topology-level", "--preset", "operator", "discovered" or "none"
  std::string operator_pod;                // "namespace/name", where its levels were asked for; "": none was found
  std::vector<placement::ShapeId> shapes;  // of the shapes that were given, in their order
  placement::KnownJobs jobs;
  std::map<std::string, int> own;  // pods of `self` that are bound and stay, by node
  std::vector<std::string> notes;  // what could not be read, a sentence each
};

// kInvalid: the choice contradicts itself, or no node has a label of the preset. kForbidden: says which right is
// missing. An object that cannot be read is a note. The signs of sick nodes are those of the operator's newest pod,
// none without one. Pods of job `self` that are not bound count as not there.
Result<ClusterReading> read_cluster(kube::Api& api, const ProfileChoice& choice,
                                    const std::vector<placement::Shape>& shapes = {}, const placement::Uid& self = {});

}  // namespace lockstep::cli
