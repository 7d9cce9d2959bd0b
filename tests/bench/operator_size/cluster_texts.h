// JSON texts of the nodes and pods of a large cluster, as many bytes as real ones have. Nodes have 50 images and 40
// labels, pods have three containers, and all have managedFields.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::bench {

inline constexpr int kGpusOfANode = 16;
inline constexpr const char* kBlockLabel = "topology.example.com/block";
inline constexpr const char* kRackLabel = "topology.example.com/rack";

// 16 nodes are a rack, 16 racks a block.
std::string node_name(int node);
// `beats`: how often its kubelet has reported.
std::string node_text(int node, std::int64_t beats, const std::string& version);

struct PodOfOthers {
  int number = 0;
  int life = 0;  // how often another pod has replaced it
  int node = 0;  // on which it runs
  bool bound = true;
};
// A pod of a Deployment. Another life has another name and uid.
std::string pod_text(const PodOfOthers& pod, const std::string& version);

// metadata.managedFields as a server keeps them for this object.
nlohmann::json managed_fields(const nlohmann::json& object);

}  // namespace lockstep::bench
