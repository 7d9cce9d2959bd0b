// A topology profile: the levels of the cluster's network, each read from one node label. Plain data and its check.
#pragma once

#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::placement {

// One level of the topology, above the node.
struct Level {
  std::string name;   // the short word that jobs use: "block", "rack"
  std::string label;  // the node label whose value names the domain: "topology.k8s.aws/network-node-layer-3"

  bool operator==(const Level&) const = default;
};

// Levels outermost first. The node is below the last one and is not a level. A profile without levels is a flat
// cluster.
struct Profile {
  std::string name;
  std::vector<Level> levels;

  bool operator==(const Profile&) const = default;
};

// More levels would leave no room between the weights of two levels (objective.h).
inline constexpr int kMostLevels = 8;

// kInvalid, with one sentence, for the first fault of the profile. Faults are an empty or repeated name or label, a
// level with the name of the node's own (api::kNodeLevel), or more than kMostLevels levels.
Status check(const Profile& profile);

// The level of a flag "NAME=LABEL"; kInvalid, with half a sentence, where it has no "=".
Result<Level> level_of_flag(const std::string& flag);

// The index of the level of that name, or kInvalid with a sentence that lists the names there are.
Result<int> level_index(const Profile& profile, const std::string& name);

}  // namespace lockstep::placement
