#include "operator/job/located_node.h"

#include <gtest/gtest.h>

namespace lockstep::job::located_node_test {
namespace {

using Path = std::vector<std::string>;

const placement::Profile kTopology{"", {{"block", "example.com/block"}, {"rack", "example.com/rack"}}};

api::Json node(const char* labels) {
  return {{"metadata", {{"name", "n1"}, {"labels", api::Json::parse(labels)}}}};
}

TEST(LocatedNode, has_the_domains_of_its_labels_outermost_first) {
  const auto located = parse_located_node(node(R"({"example.com/rack": "r7", "example.com/block": "b2"})"), kTopology);
  ASSERT_TRUE(located);
  EXPECT_EQ(located->path, (Path{"b2", "r7"}));
}

TEST(LocatedNode, without_a_label_is_alone_at_that_level) {
  const auto located = parse_located_node(node(R"({"example.com/block": "b2"})"), kTopology);
  EXPECT_EQ(located->path, (Path{"b2", "/n1"}));
}

TEST(LocatedNode, without_any_label_of_the_topology_has_no_path) {
  const auto located = parse_located_node(node(R"({"example.com/zone": "z"})"), kTopology);
  EXPECT_TRUE(located->path.empty());
}

TEST(LocatedNode, has_no_path_in_a_cluster_without_topology) {
  const auto located = parse_located_node(node(R"({"example.com/rack": "r7"})"), {});
  EXPECT_TRUE(located->path.empty());
}

TEST(LocatedNode, keeps_no_labels) {
  const auto located = parse_located_node(node(R"({"example.com/rack": "r7", "a": "b"})"), kTopology);
  EXPECT_TRUE(located->meta.labels.empty());
}

struct Shown {
  const char* name;
  const char* node;
  const char* sickness;
};

class SickNode : public ::testing::TestWithParam<Shown> {};

TEST_P(SickNode, shows_the_first_of_the_signs) {
  const auto signs = placement::SickSigns::of_flags(
      {"condition:XIDErrors=True", "taint:example.com/bad=yes", "taint:example.com/worse", "label:example.com/sick"});
  ASSERT_TRUE(signs);
  auto node = api::Json::parse(GetParam().node);
  node["metadata"]["name"] = "n1";
  const auto located = parse_located_node(node, kTopology, {.leave = *signs, .dead = {}});
  ASSERT_TRUE(located) << located.error().message;
  EXPECT_EQ(located->sickness, GetParam().sickness);
}

INSTANTIATE_TEST_SUITE_P(
    LocatedNode, SickNode,
    ::testing::Values(
        Shown{"none", R"({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})", ""},
        Shown{"condition", R"({"status": {"conditions": [{"type": "XIDErrors", "status": "True"}]}})",
              "condition:XIDErrors=True"},
        Shown{"condition_that_is_well", R"({"status": {"conditions": [{"type": "XIDErrors", "status": "False"}]}})",
              ""},
        Shown{"taint", R"({"spec": {"taints": [{"key": "example.com/bad", "value": "yes", "effect": "NoSchedule"}]}})",
              "taint:example.com/bad=yes"},
        Shown{"taint_of_another_value", R"({"spec": {"taints": [{"key": "example.com/bad", "value": "no"}]}})", ""},
        Shown{"taint_without_a_value", R"({"spec": {"taints": [{"key": "example.com/worse"}]}})",
              "taint:example.com/worse"},
        Shown{"label", R"({"metadata": {"labels": {"example.com/sick": "x"}}})", "label:example.com/sick"},
        Shown{"the_first", R"({"metadata": {"labels": {"example.com/sick": "x"}},
                              "status": {"conditions": [{"type": "XIDErrors", "status": "True"}]}})",
              "condition:XIDErrors=True"}),
    [](const auto& test) { return test.param.name; });

TEST(LocatedNode, shows_the_sign_of_each_class) {
  const NodeSigns signs{.leave = *placement::SickSigns::of_flags({"label:example.com/sick"}),
                        .dead = *placement::SickSigns::of_flags({"label:example.com/dead"})};
  const auto dead = parse_located_node(node(R"({"example.com/dead": "yes"})"), kTopology, signs);
  EXPECT_EQ(dead->death, "label:example.com/dead");
  EXPECT_EQ(dead->sickness, "");
  const auto sick = parse_located_node(node(R"({"example.com/sick": "yes"})"), kTopology, signs);
  EXPECT_EQ(sick->death, "");
  EXPECT_EQ(sick->sickness, "label:example.com/sick");
}

TEST(LocatedNode, that_is_malformed_is_refused) {
  EXPECT_FALSE(parse_located_node(api::Json::parse(R"({"metadata": {"name": 3}})"), kTopology));
}

}  // namespace
}  // namespace lockstep::job::located_node_test
