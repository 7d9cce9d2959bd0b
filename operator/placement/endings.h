// Which jobs could end to make room for a gang: a hint for people, never acted upon. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/placement/census.h"
#include "operator/placement/cluster_view.h"
#include "operator/placement/hold.h"

namespace lockstep::placement {

// A TrainingJob that could make room.
struct Ending {
  std::string name;
  int priority = 0;  // the highest of its pods
  int pods = 0;      // in the domain

  bool operator==(const Ending&) const = default;
};

struct Endings {
  HeldDomain domain;
  std::vector<Ending> jobs;
};

// Jobs whose end makes room for the search in one domain of its required level. Chosen greedily: within a domain by low
// priority, then youth, without those that are not needed; of the domains, the one whose jobs have the lowest priority,
// then are fewest, then have the fewest pods there. Terminating pods count as gone. None where it takes more than the
// end of `jobs`. `self`, the job that asks, never ends.
std::optional<Endings> jobs_to_end(const Cluster& cluster, const Search& search, const Uid& self,
                                   const KnownJobs& jobs);

// How many pods of the search the node would take if the pods that `gone` picks were not there.
std::int32_t room_without(const Cluster& cluster, const Search& search, NodeId node,
                          const std::function<bool(const PodRecord&)>& gone);

}  // namespace lockstep::placement
