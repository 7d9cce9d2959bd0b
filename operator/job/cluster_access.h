// The placement cluster behind the lock of its owner. The operator's is the ClusterFeed.
#pragma once

#include <functional>

#include "operator/placement/cluster.h"

namespace lockstep::job {

class ClusterAccess {
 public:
  virtual ~ClusterAccess() = default;
  // Calls `use` with the lock held. Any thread; `use` must not call this again.
  virtual void with_cluster(const std::function<void(placement::Cluster&)>& use) = 0;
};

}  // namespace lockstep::job
