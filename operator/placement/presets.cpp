#include "operator/placement/presets.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep::placement {
namespace {

bool has(const api::Labels& labels, const Level& level) {
  const auto label = labels.find(level.label);
  return label != labels.end() && !label->second.empty();
}

// The levels of the preset that these nodes can use, and how many nodes have a label of one of them.
struct Fit {
  Profile profile;
  std::ptrdiff_t covered = 0;
};

Fit fit(const Profile& preset, std::span<const api::Labels> nodes) {
  Fit fit{{preset.name, {}}, 0};
  std::vector<bool> inside(nodes.size(), false);  // the node has a label of a level that was kept
  for (auto level = preset.levels.rbegin(); level != preset.levels.rend(); ++level) {
    std::ptrdiff_t labelled = 0;
    for (const api::Labels& labels : nodes) labelled += has(labels, *level);
    if (labelled == 0) continue;
    std::ptrdiff_t both = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) both += inside[i] && has(nodes[i], *level);
    if (2 * both < fit.covered) continue;
    fit.profile.levels.insert(fit.profile.levels.begin(), *level);
    for (std::size_t i = 0; i < nodes.size(); ++i) inside[i] = inside[i] || has(nodes[i], *level);
    fit.covered = std::count(inside.begin(), inside.end(), true);
  }
  return fit;
}

}  // namespace

std::span<const Profile> presets() {
  // Outermost first. Clouds count the other way round: AWS's layer 3 and Topograph's tier 0 are next to the node.
  static const std::vector<Profile> all = {
      {"topograph",
       {{"core", "fabric.topograph.run/tier-2"},
        {"spine", "fabric.topograph.run/tier-1"},
        {"leaf", "fabric.topograph.run/tier-0"},
        {"nvlink", "accelerator.topograph.run/domain"},
        {"partition", "accelerator.topograph.run/sub-domain"}}},
      {"topograph-v0",
       {{"core", "network.topology.nvidia.com/core"},
        {"spine", "network.topology.nvidia.com/spine"},
        {"leaf", "network.topology.nvidia.com/leaf"},
        {"nvlink", "network.topology.nvidia.com/accelerator"}}},
      {"aws",
       {{"spine", "topology.k8s.aws/network-node-layer-1"},
        {"aggregation", "topology.k8s.aws/network-node-layer-2"},
        {"leaf", "topology.k8s.aws/network-node-layer-3"},
        {"ultraserver", "topology.k8s.aws/ultraserver-id"}}},
      // A host holds one virtual machine with GPUs: as a level it would be the node once more.
      {"gcp",
       {{"block", "cloud.google.com/gce-topology-block"}, {"subblock", "cloud.google.com/gce-topology-subblock"}}},
      {"oci", {{"block", "oci.oraclecloud.com/host.network_block_id"}, {"rack", "oci.oraclecloud.com/host.rack_id"}}},
      {"coreweave",
       {{"fabric", "backend.coreweave.cloud/fabric"},
        {"superpod", "backend.coreweave.cloud/superpod"},
        {"leafgroup", "backend.coreweave.cloud/leafgroup"},
        {"nvlink", "ds.coreweave.com/nvlink.domain"}}},
      {"nvlink", {{"clique", "nvidia.com/gpu.clique"}}},
  };
  return all;
}

std::optional<Profile> fit_preset(std::span<const api::Labels> nodes) {
  Fit best;
  for (const Profile& preset : presets()) {
    Fit next = fit(preset, nodes);
    const bool more = next.covered > best.covered;
    const bool deeper = next.covered == best.covered && next.profile.levels.size() > best.profile.levels.size();
    if (more || deeper) best = std::move(next);
  }
  if (best.covered == 0) return std::nullopt;
  return best.profile;
}

std::optional<Profile> fit_preset(const Profile& preset, std::span<const api::Labels> nodes) {
  Fit only = fit(preset, nodes);
  if (only.covered == 0) return std::nullopt;
  return std::move(only.profile);
}

}  // namespace lockstep::placement
