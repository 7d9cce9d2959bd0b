// Profiles for the node labels of clouds and tools, and the choice of the profile that fits a cluster.
#pragma once

#include <optional>
#include <span>

#include "operator/api/object.h"
#include "operator/placement/profile.h"

namespace lockstep::placement {

// All presets, each valid by check():
//   topograph, topograph-v0   NVIDIA Topograph from 1.0 on, and before
//   aws, gcp, oci, coreweave  what the cloud sets itself
//   nvlink                    NVLink cliques by GPU feature discovery, without any fabric above
// A level that a cluster may lack is in them nevertheless: fit_preset() leaves it out.
std::span<const Profile> presets();

// The preset that covers the most nodes with these labels; of equals the one with more levels, then the first. None
// where no node has a label of any preset.
//
// From the innermost level outwards, a level is left out if too few nodes have its label. That is less than half of
// those that have a label of a level inside of it. Without it they would all be apart (tree.h). Labels of a few nodes
// alone, such as NVLink domains of part of a cluster, stay innermost.
std::optional<Profile> fit_preset(std::span<const api::Labels> nodes);

// The levels of this preset that fit_preset() would keep. None where no node has a label of it.
std::optional<Profile> fit_preset(const Profile& preset, std::span<const api::Labels> nodes);

}  // namespace lockstep::placement
