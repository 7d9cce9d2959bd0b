// What an answer says in words: why a gang waits, and where it is.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/placement/cluster_view.h"
#include "operator/placement/gang.h"

namespace lockstep::placement {

// One sentence without a full stop for the job's condition; "" when the gang does not wait. `level_name`: of
// wait.level.
std::string describe(const Wait& wait, const std::string& level_name);

// Where a gang is. Remembers the score: what other gangs do to the holes around it does not change it.
class Whereabouts {
 public:
  // The gang has pods of the shape on these nodes of the tree, and they count there.
  void update(ClusterView& cluster, ShapeId shape, const std::vector<std::pair<NodeId, int>>& nodes);
  // Empty before the first update, and while room for the shape is not known.
  const std::optional<Where>& where() const { return where_; }

 private:
  std::vector<std::pair<NodeId, int>> nodes_;
  std::optional<Where> where_;
};

}  // namespace lockstep::placement
