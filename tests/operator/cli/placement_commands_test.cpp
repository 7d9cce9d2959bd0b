// topology over the in-memory API: the whole text, as people see it.
#include "operator/cli/placement_commands.h"

#include <nlohmann/json.hpp>

#include "tests/operator/cli/small_site.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

class Topology : public SmallSite {};

TEST_F(Topology, draws_domains_holes_and_jobs) {
  make_nodes(1, 2, 2);
  const json job = make_job("llm", {}, "ml");
  make_pod("llm-0", "b1r1n1", 8, job);
  make_pod("llm-1", "b1r1n2", 4, job);
  make_pod("notebook", "b1r2n1", 1);
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}}).ok());
  EXPECT_EQ(printed(),
            "DOMAIN           FREE  TOTAL  NODES  OTHERS  JOBS\n"
            "cluster          19    32     4      1       1 job\n"
            "└─ block b1      19    32     4      1       ml/llm (2)\n"
            "   ├─ rack b1r1  4     16     2      0       ml/llm (2)\n"
            "   │  ├─ b1r1n1  0     8             0       ml/llm (1)\n"
            "   │  └─ b1r1n2  4     8             0       ml/llm (1)\n"
            "   └─ rack b1r2  15    16     2      1\n"
            "      ├─ b1r2n1  7     8             1\n"
            "      └─ b1r2n2  8     8             0\n"
            "\n"
            "FREE and TOTAL: nvidia.com/gpu. OTHERS: what pods take that are no TrainingJob's.\n"
            "Profile: block (x/block) > rack (x/rack), from --topology-level\n"
            "Largest holes: 19 GPUs in block b1, 15 GPUs in rack b1/b1r2, 8 GPUs in node b1r2n2\n");
}

TEST_F(Topology, a_node_that_takes_no_pods_has_nothing_free) {
  make_node("n1", {}, 8, {{"unschedulable", true}});
  make_node("n2", {});
  ASSERT_TRUE(topology(target(), {}).ok());
  const std::string text = printed();
  EXPECT_NE(text.find("cluster           8     16     1/2"), std::string::npos) << text;
  EXPECT_NE(text.find("├─ n1 (cordoned)  0     8"), std::string::npos) << text;
  EXPECT_NE(text.find("Profile: none: no node has a label of a known preset"), std::string::npos) << text;
}

TEST_F(Topology, discovers_the_preset_and_says_so) {
  make_node("n1", {{"oci.oraclecloud.com/host.rack_id", "r1"}});
  make_node("n2", {{"oci.oraclecloud.com/host.rack_id", "r2"}});
  ASSERT_TRUE(topology(target(), {}).ok());
  EXPECT_NE(printed().find("Profile: rack (oci.oraclecloud.com/host.rack_id), preset oci, the one that fits"),
            std::string::npos);
  ASSERT_TRUE(topology(target(), {.profile = {.preset = "oci"}}).ok());
  EXPECT_NE(printed().find("host.rack_id), preset oci\n"), std::string::npos);
  const Status other = topology(target(), {.profile = {.preset = "gcp"}});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("--preset gcp: no node has any of its labels cloud.google.com/"),
            std::string::npos)
      << other.error().message;
}

TEST_F(Topology, warns_of_missing_and_conflicting_labels) {
  make_node("n1", {{"x/block", "b1"}, {"x/rack", "r1"}});
  make_node("n2", {{"x/block", "b2"}, {"x/rack", "r1"}});
  make_node("n3", {{"x/block", "b2"}});
  make_node("r2", {{"x/block", "b2"}, {"x/rack", "r2"}});
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}}).ok());
  const std::string text = printed();
  EXPECT_NE(text.find("├─ n3 (no label x/rack)"), std::string::npos) << text;
  EXPECT_NE(text.find("Warning: 1 of 4 nodes has no label x/rack (n3): a job that requires rack cannot use it\n"
                      "Warning: rack r1 lies in block b1, block b2: it counts as 2 different domains\n"
                      "Warning: rack r2 has the name of a node: check the label x/rack\n"),
            std::string::npos)
      << text;
}

TEST_F(Topology, folds_what_is_large_and_unfolds_it) {
  make_nodes(1, 20, 5);
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}}).ok());
  const std::string folded = printed();
  EXPECT_NE(folded.find("\n   └─ … 4 more    160   160    20     0\n"), std::string::npos) << folded;
  EXPECT_NE(folded.find("Folded at depth 2: --depth 3 shows more, --all everything."), std::string::npos) << folded;
  EXPECT_EQ(folded.find("├─ b1r1n1"), std::string::npos);
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}, .draw = {.all = true}}).ok());
  const std::string whole = printed();
  EXPECT_NE(whole.find("b1r20n5"), std::string::npos);
  EXPECT_EQ(whole.find("more"), std::string::npos);
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}, .draw = {.depth = 1}}).ok());
  EXPECT_EQ(printed().find("rack b1r1 "), std::string::npos);
}

TEST_F(Topology, counts_cpus_where_no_node_has_gpus) {
  make_node("n1", {}, 0);
  ASSERT_TRUE(topology(target(), {}).ok());
  EXPECT_NE(printed().find("Largest holes: 16 CPUs in node n1\n"), std::string::npos);
  ASSERT_TRUE(topology(target(), {.resource = "memory"}).ok());
  EXPECT_NE(printed().find("64Gi"), std::string::npos);
  EXPECT_EQ(topology(target(), {.resource = "mem"}).error().message.substr(0, 36),
            "--resource mem: no node has it; node");
}

TEST_F(Topology, json_has_the_whole_tree) {
  make_nodes(1, 1, 2);
  make_node("n9", {});
  make_pod("llm-0", "b1r1n1", 8, make_job("llm"));
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}, .json = true}).ok());
  const json told = json::parse(printed());
  EXPECT_EQ(told["resource"], "nvidia.com/gpu");
  EXPECT_EQ(told["profile"]["source"], "--topology-level");
  EXPECT_EQ(told["cluster"]["free"], 16);
  const json& rack = told["cluster"]["children"][1]["children"][0];
  EXPECT_EQ(rack["path"], json({"b1", "b1r1"}));
  EXPECT_EQ(rack["jobs"], json({{{"name", "default/llm"}, {"pods", 1}}}));
  EXPECT_EQ(rack["children"][1]["state"], "ready");
  EXPECT_EQ(told["problems"][0]["kind"], "MissingLabel");
  EXPECT_EQ(told["problems"][0]["where"], json({"n9"}));
  EXPECT_EQ(told["holes"][2]["free"], 8);
}

TEST_F(Topology, an_empty_cluster_is_said_to_be_empty) {
  ASSERT_TRUE(topology(target(), {}).ok());
  EXPECT_EQ(printed(), "the cluster has no nodes\n");
}

}  // namespace
}  // namespace lockstep::cli
