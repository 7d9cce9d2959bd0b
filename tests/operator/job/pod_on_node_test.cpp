// The pod that placement gave a node: what is created, and the patches that move and open it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/job/children.h"

namespace lockstep::job::pod_on_node_test {
namespace {

using api::Json;

constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
const Json kOnN1 = Json::parse(R"([{"key": "metadata.name", "operator": "In", "values": ["n1"]}])");

api::TrainingJob job_of(const Json& affinity = nullptr) {
  Json spec{{"image", "i"}, {"command", {"t"}}, {"nodes", 2}};
  if (!affinity.is_null()) spec["podTemplate"] = {{"spec", {{"affinity", affinity}}}};
  return *api::parse_training_job({{"metadata", {{"name", "j"}, {"namespace", "a"}, {"uid", "1234"}}}, {"spec", spec}});
}

Json pod_of(const api::TrainingJob& job, bool gated) {
  auto pod = build_pod(job, {.slot = 1, .incarnation = 2, .avoid_nodes = {"n9"}, .node = "n1", .gated = gated},
                       {.image = "agent", .coordinator_address = "127.0.0.1:1"});
  EXPECT_TRUE(pod) << pod.error().message;
  (*pod)["metadata"]["uid"] = "u1";
  return *pod;
}

Json terms_of(const Json& pod) {
  return pod["spec"]["affinity"]["nodeAffinity"].value(kRequired, Json::object()).value("nodeSelectorTerms", Json());
}

Json opened(const Json& pod, bool has_node_affinity = false) {
  const auto patch = open_pod({.name = "j-1234-1-2", .uid = "u1", .node = "n1"}, has_node_affinity ? &pod : nullptr);
  EXPECT_TRUE(patch);
  return pod.patch(*patch);
}

TEST(PodOnNode, is_gated_and_names_its_node_in_an_annotation) {
  const Json pod = pod_of(job_of(), true);
  EXPECT_EQ(pod["spec"]["schedulingGates"], Json::parse(R"([{"name": "lockstep.dev/placement"}])"));
  EXPECT_EQ(pod["metadata"]["annotations"]["lockstep.dev/node"], "n1");
  EXPECT_TRUE(terms_of(pod).is_null()) << "what is gated can still be placed anew";
}

TEST(PodOnNode, without_a_gate_can_be_bound_there_alone) {
  const Json pod = pod_of(job_of(), false);
  EXPECT_FALSE(pod["spec"].contains("schedulingGates"));
  EXPECT_EQ(pod["metadata"]["annotations"]["lockstep.dev/node"], "n1");
  EXPECT_EQ(terms_of(pod), Json::array({{{"matchFields", kOnN1}}}));
}

TEST(PodOnNode, that_kube_scheduler_chooses_has_neither) {
  const auto pod = build_pod(job_of(), {.slot = 0, .incarnation = 1}, {.image = "a", .coordinator_address = "b:1"});
  ASSERT_TRUE(pod);
  EXPECT_FALSE((*pod)["spec"].contains("schedulingGates"));
  EXPECT_FALSE((*pod)["spec"].contains("affinity"));
  EXPECT_FALSE((*pod)["metadata"]["annotations"].contains("lockstep.dev/node"));
}

TEST(PodOnNode, opens_into_the_pod_that_is_created_without_a_gate) {
  for (const Json& affinity :
       {Json(), Json::parse(R"({"podAffinity": {}})"),
        Json::parse(R"({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}})")}) {
    Json open = opened(pod_of(job_of(affinity), true));
    EXPECT_TRUE(open["spec"]["schedulingGates"].empty());
    open["spec"].erase("schedulingGates");
    EXPECT_EQ(open, pod_of(job_of(affinity), false)) << affinity;
  }
}

TEST(PodOnNode, keeps_the_alternatives_of_its_own_affinity) {
  const Json own = Json::parse(R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
      "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]}]}}})");
  Json expected = own["nodeAffinity"][kRequired]["nodeSelectorTerms"];
  expected[0]["matchFields"] = kOnN1;
  expected[1]["matchFields"].push_back(kOnN1[0]);
  EXPECT_EQ(terms_of(pod_of(job_of(own), false)), expected);
  EXPECT_EQ(terms_of(opened(pod_of(job_of(own), true), true)), expected);
}

TEST(PodOnNode, is_opened_only_as_the_pod_that_was_decided_on) {
  const Json gated = pod_of(job_of(), true);
  const auto patch = *open_pod({.name = "p", .uid = "u1", .node = "n1"}, nullptr);
  for (const auto& [path, value] : {std::pair("/metadata/uid", "u2"),
                                    {"/spec/schedulingGates/0/name", "other"},
                                    {"/metadata/annotations/lockstep.dev~1node", "n2"}}) {
    Json changed = gated;
    changed[Json::json_pointer(path)] = value;
    EXPECT_THROW((void)changed.patch(patch), Json::exception) << path;
  }
  EXPECT_THROW((void)opened(gated).patch(patch), Json::exception) << "it is open";
}

TEST(PodOnNode, moves_only_from_the_node_that_was_seen) {
  const Json pod = pod_of(job_of(), true);
  const Json patch = move_pod({.name = "p", .uid = "u1", .from = "n1", .to = "n3"});
  const Json moved = pod.patch(patch);
  EXPECT_EQ(moved["metadata"]["annotations"]["lockstep.dev/node"], "n3");
  EXPECT_THROW((void)moved.patch(patch), Json::exception);
  EXPECT_THROW((void)opened(moved), Json::exception) << "a former leader cannot bind by an old decision";
}

TEST(PodOnNode, of_an_affinity_that_is_none_is_a_sentence) {
  for (const char* affinity :
       {R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 3}})",
        R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [3]}}})",
        R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                                   {"nodeSelectorTerms": [{"matchFields": "x"}]}}})",
        R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "x"}}})",
        R"({"nodeAffinity": 7})"}) {
    const auto pod = build_pod(job_of(Json::parse(affinity)), {.slot = 0, .incarnation = 1, .node = "n1"},
                               {.image = "a", .coordinator_address = "b:1"});
    ASSERT_FALSE(pod) << affinity;
    EXPECT_NE(pod.error().message.find("must be an"), std::string::npos) << pod.error().message;
  }
}

}  // namespace
}  // namespace lockstep::job::pod_on_node_test
