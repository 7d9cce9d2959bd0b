#include "operator/placement/presets.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace lockstep::placement {
namespace {

using Nodes = std::vector<api::Labels>;

// The profile in words: "aws: spine leaf".
std::string words(const std::optional<Profile>& profile) {
  if (!profile) return "none";
  std::string text = profile->name + ":";
  for (const Level& level : profile->levels) text += " " + level.name;
  return text;
}

// `count` nodes with these labels, all of value "x".
void add(Nodes& nodes, int count, const std::vector<std::string>& labels) {
  api::Labels all;
  for (const std::string& label : labels) all[label] = "x";
  nodes.insert(nodes.end(), static_cast<std::size_t>(count), all);
}

TEST(Presets, are_valid_and_have_names_of_their_own) {
  std::set<std::string> names;
  for (const Profile& preset : presets()) {
    EXPECT_TRUE(check(preset).ok()) << preset.name;
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
  }
  EXPECT_EQ(names.size(), 7u);
}

TEST(Presets, a_preset_fits_nodes_with_its_labels) {
  for (const Profile& preset : presets()) {
    std::vector<std::string> labels;
    for (const Level& level : preset.levels) labels.push_back(level.label);
    Nodes nodes;
    add(nodes, 4, labels);
    add(nodes, 1, {"kubernetes.io/hostname"});
    EXPECT_EQ(fit_preset(nodes), preset) << preset.name;
  }
}

struct Discovery {
  std::string expected;
  std::vector<std::pair<int, std::vector<std::string>>> nodes;
};

TEST(Presets, the_levels_are_those_that_the_nodes_have) {
  const std::string tier = "fabric.topograph.run/tier-", nvlink = "accelerator.topograph.run/domain";
  const std::string aws = "topology.k8s.aws/network-node-layer-", oci = "oci.oraclecloud.com/host.";
  const std::string clique = "nvidia.com/gpu.clique", coreweave = "backend.coreweave.cloud/";
  const Discovery table[] = {
      {"none", {}},
      {"none", {{3, {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}}}},
      {"topograph: leaf", {{4, {tier + "0"}}}},
      {"topograph: spine leaf nvlink", {{4, {tier + "0", tier + "1", nvlink}}}},
      // The core of a few nodes alone would set all others apart.
      {"topograph: spine leaf", {{9, {tier + "0", tier + "1"}}, {1, {tier + "0", tier + "1", tier + "2"}}}},
      // An unlabelled node is not a reason to do without a level.
      {"topograph: spine leaf", {{9, {tier + "0", tier + "1"}}, {1, {tier + "0"}}}},
      // NVLink domains of a part of the cluster stay.
      {"aws: spine aggregation leaf ultraserver",
       {{9, {aws + "1", aws + "2", aws + "3"}},
        {1, {aws + "1", aws + "2", aws + "3", "topology.k8s.aws/ultraserver-id"}}}},
      // More nodes count first, then more levels.
      {"oci: block rack",
       {{9, {oci + "network_block_id", oci + "rack_id"}}, {3, {tier + "0", tier + "1", tier + "2"}}}},
      {"aws: spine aggregation leaf", {{4, {tier + "0", aws + "1", aws + "2", aws + "3"}}}},
      {"coreweave: fabric leafgroup", {{4, {coreweave + "fabric", coreweave + "leafgroup", clique}}}},
      {"nvlink: clique", {{4, {clique}}, {4, {"kubernetes.io/hostname"}}}},
      {"topograph: leaf", {{4, {tier + "0", clique}}}},
  };
  for (const Discovery& test : table) {
    Nodes nodes;
    for (const auto& [count, labels] : test.nodes) add(nodes, count, labels);
    EXPECT_EQ(words(fit_preset(nodes)), test.expected);
  }
}

TEST(Presets, an_empty_label_counts_as_none) {
  const Nodes nodes = {{{"nvidia.com/gpu.clique", ""}}};
  EXPECT_EQ(words(fit_preset(nodes)), "none");
}

}  // namespace
}  // namespace lockstep::placement
