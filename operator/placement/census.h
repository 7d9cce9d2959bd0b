// What the domains of a cluster have and have free of one resource, and which jobs are in them: for people. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/clock.h"
#include "operator/placement/cluster.h"
#include "operator/placement/place.h"

namespace lockstep::placement {

struct UidOrder {
  bool operator()(const Uid& one, const Uid& other) const { return one.bytes < other.bytes; }
};

// A TrainingJob, as far as people tell it from others.
struct KnownJob {
  std::string name;  // "namespace/name"
  WallTime since{};  // creation
};
using KnownJobs = std::map<Uid, KnownJob, UidOrder>;

// Of a domain or a node. Amounts in the units of the resource (effective_requests.h).
struct Tally {
  std::int64_t total = 0;
  std::int64_t free = 0;    // of nodes that take new pods
  std::int64_t others = 0;  // what pods take that are no job's
  int nodes = 0;
  int usable = 0;                              // nodes that take new pods
  std::map<Uid, int, UidOrder> pods_by_job{};  // gated ones too
};

struct Census {
  std::string resource;
  std::vector<Tally> domains;  // by DomainId
  std::vector<Tally> nodes;    // by NodeId
  std::vector<Hole> largest;   // the most that is free in one domain of each level, outermost first; `pods` are units
};

// Adds what `from` counts.
void add_tally(const Tally& from, Tally& to);

Census take_census(const Cluster& cluster, const std::string& resource);

// What most nodes with GPUs call them, "nvidia.com/gpu" for example; "cpu" where no node has any.
std::string usual_resource(const Cluster& cluster);
// The resources that nodes have, ordered by name, without pods.
std::vector<std::string> resources_of(const Cluster& cluster);

// An amount for people: CPUs with up to three decimals, bytes as "64Gi", devices as a number, "unlimited" at the
// greatest number.
std::string in_words(std::string_view resource, std::int64_t units);

}  // namespace lockstep::placement
