// topology, plan and explain over the in-memory API: the text that people see.
#include "operator/cli/placement_commands.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "operator/base/timestamp.h"
#include "tests/operator/cli/small_site.h"

namespace lockstep::cli::placement_commands_test {
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
  EXPECT_NE(printed().find("Profile: rack (oci.oraclecloud.com/host.rack_id), preset oci, found by the labels"),
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

class Plan : public SmallSite {
 protected:
  static json job(int nodes, const json& placement = json::object(), const json& more = json::object()) {
    json spec = {{"image", "x"}, {"command", {"train"}}, {"nodes", nodes}, {"gpusPerNode", 8}};
    if (!placement.empty()) spec["placement"] = placement;
    spec.update(more);
    return {{"metadata", {{"name", "llm"}}}, {"spec", spec}};
  }
  int exit_of(const json& job, bool as_json = false) {
    const auto result = plan(target(), job, {.profile = {.levels = kLevelFlags}, .json = as_json});
    EXPECT_TRUE(result.ok()) << result.error().message;
    return result.value_or(-1);
  }
};

TEST_F(Plan, shows_the_nodes_of_a_job_that_fits_and_creates_nothing) {
  make_nodes(1, 2, 2);
  make_pod("notebook", "b1r1n1", 1);
  const std::uint64_t before = api_.version();
  EXPECT_EQ(exit_of(job(2)), 0);
  EXPECT_EQ(api_.version(), before);
  EXPECT_EQ(printed(),
            "llm would start now: 2 pods fit into one rack: 2 nodes, 1 rack, 1 block\n"
            "\n"
            "NODE    PODS  BLOCK  RACK\n"
            "b1r2n1  1     b1     b1r2\n"
            "b1r2n2  1     b1     b1r2\n"
            "Profile: block (x/block) > rack (x/rack), from --topology-level\n");
}

TEST_F(Plan, says_what_is_short_and_what_would_help) {
  make_nodes(1, 2, 2);
  make_node("spare", {{"x/block", "b1"}}, 8, {{"unschedulable", true}});
  make_pod("old-0", "b1r1n1", 8, make_job("old"), -10);
  make_pod("new-0", "b1r2n1", 8, make_job("new"), 10);
  EXPECT_EQ(exit_of(job(2, {{"required", "rack"}})), 1);
  EXPECT_EQ(printed(),
            "llm would not start now: 1 of 2 pods fits into one rack now (rack b1/b1r1)\n"
            "\n"
            "LEVEL    LARGEST HOLE  WHEN EMPTY  NEEDED  DOMAIN\n"
            "cluster  2             4\n"
            "block    2             4                   block b1\n"
            "rack     1             2           2       rack b1/b1r1\n"
            "node     1             1                   node b1r1n2\n"
            "\n"
            "NODES  TAKE NO POD BECAUSE OF\n"
            "2      nvidia.com/gpu: a pod needs 8, at most 0 free on one of them\n"
            "1      cordoned\n"
            "2 of 5 nodes have room for at least one pod.\n"
            "\n"
            "Hint: with preferred instead of required it would start now, within one block\n"
            "Hint: it would fit into rack b1/b1r1 if this job ended: default/old (1 pod there, priority -10)\n"
            "Profile: block (x/block) > rack (x/rack), from --topology-level\n");
}

TEST_F(Plan, an_elastic_gang_starts_with_those_that_fit) {
  make_nodes(1, 1, 3);
  EXPECT_EQ(exit_of(job(4, {}, {{"elastic", {{"minNodes", 2}}}})), 0);
  const std::string text = printed();
  EXPECT_NE(text.find("llm would start now: 3 pods fit into one rack"), std::string::npos) << text;
  EXPECT_NE(text.find("Note: elastic.minNodes lets it train with 3 of 4 pods"), std::string::npos) << text;
  EXPECT_EQ(exit_of(job(5, {}, {{"elastic", {{"minNodes", 4}}}})), 1);
}

TEST_F(Plan, a_preferred_level_without_room_is_waited_for) {
  make_nodes(1, 2, 1);
  EXPECT_EQ(exit_of(job(2, {{"preferred", "rack"}, {"preferredWaitSeconds", 90}})), 0);
  const std::string text = printed();
  EXPECT_NE(text.find("Note: one rack is preferred and has no room: the operator waits for it for up to 90 s\n"),
            std::string::npos)
      << text;
}

TEST_F(Plan, notes_other_backends_spares_and_jobs_of_the_same_name) {
  make_nodes(1, 1, 2);
  make_job("llm");
  const json more = {{"spares", {{"nodes", 1}}}, {"scheduling", {{"backend", "None"}}}};
  EXPECT_EQ(exit_of(job(1, {}, more)), 0);
  const std::string text = printed();
  EXPECT_NE(text.find("Note: scheduling.backend is None: "), std::string::npos) << text;
  EXPECT_NE(text.find("Note: its 1 spares get nodes after the gang\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Note: TrainingJob llm exists in namespace default: "), std::string::npos) << text;
}

TEST_F(Plan, prefers_the_rack_whose_pods_have_run_for_longer) {
  make_nodes(1, 2, 2);
  make_pod("new", "b1r1n1", 8, {}, 0, format_timestamp(SystemClock::instance().wall_now()));
  make_pod("old", "b1r2n1", 8, {}, 0, "2020-01-01T00:00:00Z");
  EXPECT_EQ(exit_of(job(1), true), 0);
  EXPECT_EQ(json::parse(printed())["nodes"][0]["name"], "b1r2n2");
}

TEST_F(Plan, an_unknown_level_names_those_that_there_are) {
  make_nodes(1, 1, 1);
  const auto refused = plan(target(), job(1, {{"required", "rak"}}), {.profile = {.levels = kLevelFlags}});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("spec.placement.required: unknown level \"rak\""), std::string::npos);
  EXPECT_NE(refused.error().message.find("did you mean rack?"), std::string::npos) << refused.error().message;
}

TEST_F(Plan, json_tells_both_answers) {
  make_nodes(1, 1, 2);
  EXPECT_EQ(exit_of(job(2), true), 0);
  const json fits = json::parse(printed());
  EXPECT_EQ(fits["fits"], true);
  EXPECT_EQ(fits["levelSpanned"], "rack");
  EXPECT_EQ(fits["nodes"][1], json({{"name", "b1r1n2"}, {"pods", 1}, {"path", {"b1", "b1r1"}}}));
  make_pod("other", "b1r1n1", 8);
  EXPECT_EQ(exit_of(job(2), true), 1);
  const json refused = json::parse(printed());
  EXPECT_EQ(refused["fits"], false);
  EXPECT_EQ(refused["shortages"][0]["resource"], "nvidia.com/gpu");
  EXPECT_EQ(refused["largestHoles"][0]["pods"], 1);
}

TEST_F(Plan, takes_the_levels_of_the_operators_pod) {
  make_nodes(1, 2, 2);
  const auto plan_with = [&](const ProfileChoice& choice) {
    EXPECT_TRUE(plan(target(), job(2, {}), {.profile = choice}).ok());
    return printed();
  };
  EXPECT_NE(plan_with({}).find("Profile: none: no node has a label of a known preset, and no pod of the operator is "
                               "there to tell its levels; --topology-level NAME=LABEL names them\n"),
            std::string::npos);
  make_operator({"--workers=4", "--topology-level=row=x/block", "--topology-level", "cab=x/rack"});
  EXPECT_NE(plan_with({}).find("Profile: row (x/block) > cab (x/rack), from pod lockstep/operator-0\n"),
            std::string::npos);
  EXPECT_NE(plan_with({.levels = kLevelFlags}).find("> rack (x/rack), from --topology-level\n"), std::string::npos);
}

TEST_F(Plan, an_operator_without_levels_places_in_a_flat_cluster) {
  make_node("n1", {{"oci.oraclecloud.com/host.rack_id", "r1"}});
  ASSERT_TRUE(plan(target(), job(1), {}).ok());
  EXPECT_NE(printed().find("preset oci, found by the labels of the nodes; no pod of the operator is there to tell its "
                           "levels, and --topology-level NAME=LABEL names others\n"),
            std::string::npos);
  make_operator({"--workers=4"});
  ASSERT_TRUE(plan(target(), job(1), {}).ok());
  EXPECT_NE(printed().find("Profile: none: pod lockstep/operator-0 has no levels (value topology of the chart)\n"),
            std::string::npos);
  ASSERT_TRUE(topology(target(), {}).ok());
  EXPECT_NE(printed().find("preset oci, found by the labels of the nodes\n"), std::string::npos)
      << "an admin looks for levels to give to it";
  ASSERT_TRUE(plan(target(), job(1), {.profile = {.preset = "oci"}}).ok());
  EXPECT_NE(printed().find("preset oci\n"), std::string::npos);
}

TEST_F(Plan, takes_the_signs_of_sick_nodes_of_the_operators_pod) {
  make_nodes(1, 1, 2);
  make_node("sick", {{"state", "bad"}});
  make_operator({"--avoid-nodes=label:state=bad", "--avoid-nodes", "preset:eks"});
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}}).ok());
  EXPECT_NE(printed().find("sick by label:state=bad"), std::string::npos);
  EXPECT_EQ(exit_of(job(3)), 1);
  EXPECT_NE(printed().find("sick by label:state=bad"), std::string::npos);
}

TEST_F(Plan, a_node_that_members_leave_or_that_is_dead_is_sick_too) {
  make_nodes(1, 1, 2);
  make_node("sick", {{"state", "bad"}});
  make_node("dead", {{"state", "worse"}});
  make_operator({"--avoid-nodes=preset:eks", "--leave-nodes=label:state=bad", "--dead-nodes=label:state=worse"});
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}}).ok());
  const std::string text = printed();
  EXPECT_NE(text.find("sick by label:state=bad"), std::string::npos);
  EXPECT_NE(text.find("sick by label:state=worse"), std::string::npos);
}

TEST_F(Plan, a_sign_of_the_operator_that_cannot_be_read_is_a_warning) {
  make_nodes(1, 1, 1);
  make_operator({"--avoid-nodes=state=bad"});
  ASSERT_TRUE(plan(target(), job(1), {}).ok());
  EXPECT_NE(printed().find("Warning: what the operator's pod lockstep/operator-0 takes for a sick node cannot be read: "
                           "\"state=bad\" must begin with"),
            std::string::npos);
}

TEST_F(Plan, a_level_of_the_operator_that_cannot_be_read_is_a_warning) {
  make_nodes(1, 1, 1);
  make_operator({"--topology-level=row"});
  ASSERT_TRUE(plan(target(), job(1), {}).ok());
  EXPECT_NE(printed().find("Warning: the levels of the operator's pod lockstep/operator-0 cannot be read: "),
            std::string::npos);
}

// Each line with the indent of a code block.
std::string as_block(const std::string& text) {
  std::string block;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) block += "    " + text.substr(at, end - at);
    block += "\n";
    at = end + 1;
  }
  return block;
}

TEST_F(Plan, the_page_on_placement_shows_what_the_commands_print) {
  const std::vector<std::vector<std::string>> nodes = {{"n1", "b1", "r1"}, {"n2", "b1", "r1"}, {"n3", "b1", "r2"},
                                                       {"n4", "b1", "r2"}, {"n5", "b2", "r3"}, {"n6", "b2", "r3"}};
  for (const auto& node : nodes) make_node(node[0], {{"x/block", node[1]}, {"x/rack", node[2]}});
  make_pod("bert-0", "n1", 8, make_job("bert", {}, "ml"));
  make_pod("notebook", "n3", 8);
  ASSERT_TRUE(topology(target(), {.profile = {.levels = kLevelFlags}}).ok());
  std::vector<std::string> outputs = {printed()};
  for (const json& placement :
       {json::object(), json({{"required", "block"}}), json({{"preferred", "block"}, {"preferredWaitSeconds", 300}})}) {
    exit_of(job(outputs.size() == 1 ? 2 : 3, placement));
    outputs.push_back(printed());
  }
  std::ifstream file(LOCKSTEP_DOCS "/placement.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  for (std::string& text : outputs) {
    // The page leaves out what follows: the profile, and of the topology the holes.
    text.resize(std::min(text.find("Profile:"), text.find("\nFREE and TOTAL")));
    EXPECT_NE(page.find(as_block(text)), std::string::npos) << as_block(text);
  }
}

class ExplainPending : public Plan {
 protected:
  json make_pending(int nodes, const std::string& reason = "NoRoom") {
    const json made = make_job("llm", job(nodes, {{"required", "rack"}})["spec"]);
    const json placed = {{"type", "Placed"}, {"status", "False"}, {"reason", reason}, {"message", "it waits"}};
    EXPECT_TRUE(api_.patch(kube::kTrainingJobs, "default", "llm", kube::PatchType::kMerge,
                           {{"status", {{"state", "Pending"}, {"conditions", json::array({placed})}}}}, "status")
                    .ok());
    return made;
  }
  std::string explained() {
    EXPECT_TRUE(explain(target(), "llm", {.levels = kLevelFlags}).ok());
    return printed();
  }
};

TEST_F(ExplainPending, shows_the_condition_and_what_is_short) {
  make_nodes(1, 2, 2);
  make_pod("a", "b1r1n1", 8);
  make_pod("b", "b1r2n1", 8);
  make_pending(2);
  const std::string text = explained();
  EXPECT_NE(text.find("  Placed: it waits (NoRoom, "), std::string::npos) << text;
  EXPECT_NE(text.find("\n1 of 2 pods fits into one rack now (rack b1/b1r1)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Hint: with preferred instead of required"), std::string::npos) << text;
}

TEST_F(ExplainPending, bound_pods_stay_and_gated_ones_take_nothing) {
  make_nodes(1, 2, 2);
  const json job = make_pending(2);
  make_pod("llm-0", "b1r1n1", 8, job);
  make_pod("other", "b1r1n2", 8);
  EXPECT_NE(explained().find("\nnone of 1 pod fits into one rack now\n"), std::string::npos);
  ASSERT_TRUE(api_.remove(kube::kPods, "default", "other", {.grace_period_seconds = 0}).ok());
  json gated = {{"metadata",
                 {{"name", "llm-1"},
                  {"annotations", {{"lockstep.dev/node", "b1r1n2"}}},
                  {"labels", {{api::kLabelJobUid, job["metadata"]["uid"]}, {api::kLabelSlot, "1"}}}}}};
  const json requests = {{"nvidia.com/gpu", "8"}};
  const json container = {{"name", "c"}, {"resources", {{"requests", requests}}}};
  gated["spec"]["containers"] = json::array({container});
  ASSERT_TRUE(api_.create(kube::kPods, "default", gated).ok());
  EXPECT_NE(explained().find("\n1 pod fits into one rack now: it waits for its turn"), std::string::npos);
}

TEST_F(ExplainPending, jobs_that_end_or_are_placed_show_no_room) {
  make_nodes(1, 1, 1);
  const json job = make_pending(1);
  make_pod("llm-0", "b1r1n1", 8, job);
  EXPECT_EQ(explained().find("Profile:"), std::string::npos);
  const json failed = {{"type", "Failed"}, {"status", "True"}, {"reason", "R"}, {"message", "m"}};
  make_node("n2", {});
  ASSERT_TRUE(api_.patch(kube::kTrainingJobs, "default", "llm", kube::PatchType::kMerge,
                         {{"status", {{"state", "Failed"}, {"conditions", json::array({failed})}}}}, "status")
                  .ok());
  EXPECT_EQ(explained().find("Profile:"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli::placement_commands_test
