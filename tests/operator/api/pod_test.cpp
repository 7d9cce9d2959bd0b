#include "operator/api/pod.h"

#include <gtest/gtest.h>

#include "operator/base/timestamp.h"

namespace lockstep::api::pod_test {
namespace {

TEST(Pod, the_states_of_its_containers_are_kept) {
  const auto pod = parse_pod(Json::parse(R"({
    "metadata": {"name": "p", "namespace": "n", "uid": "u"},
    "spec": {"nodeName": "node-1", "containers": [{"name": "trainer"}]},
    "status": {"phase": "Failed", "reason": "Evicted", "message": "disk", "podIP": "10.0.0.1",
      "initContainerStatuses": [{"name": "lockstep-agent", "restartCount": 0, "ready": true,
         "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}],
      "containerStatuses": [{"name": "trainer", "restartCount": 2, "ready": false,
         "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "tail"}},
         "lastState": {"terminated": {"exitCode": 1}}}]}})"));
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_TRUE(pod->terminal());
  EXPECT_EQ(pod->node_name, "node-1");
  EXPECT_EQ(pod->pod_ip, "10.0.0.1");
  EXPECT_EQ(pod->reason, "Evicted");
  ASSERT_EQ(pod->containers.size(), 2u);
  EXPECT_TRUE(pod->containers[0].is_init);
  const ContainerState& trainer = pod->containers[1];
  EXPECT_TRUE(trainer.terminated);
  EXPECT_FALSE(trainer.running);
  EXPECT_EQ(trainer.exit_code, 137);
  EXPECT_EQ(trainer.signal, 9);
  EXPECT_EQ(trainer.terminated_reason, "OOMKilled");
  EXPECT_EQ(trainer.terminated_message, "tail");
  EXPECT_EQ(trainer.restart_count, 2);
}

TEST(Pod, a_waiting_container_says_why) {
  const auto pod = parse_pod(Json::parse(R"({"status": {"phase": "Pending", "containerStatuses": [
    {"name": "trainer", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}})"));
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->containers[0].waiting_reason, "ImagePullBackOff");
  EXPECT_EQ(pod->containers[0].waiting_message, "no such image");
}

TEST(Pod, a_device_that_is_unhealthy_is_named) {
  const auto with_health = [](const char* second) {
    auto pod = Json::parse(R"({"status": {"containerStatuses": [{"name": "trainer", "allocatedResourcesStatus": [
      {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-0", "health": "Healthy"}, {"resourceID": "GPU-1"}]}
    ]}]}})");
    pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"][1]["health"] = second;
    return parse_pod(pod)->unhealthy_device;
  };
  EXPECT_EQ(with_health("Unhealthy"), "nvidia.com/gpu GPU-1");
  EXPECT_EQ(with_health("Healthy"), "");
  EXPECT_EQ(with_health("Unknown"), "") << "the plugin does not answer, which says nothing of the device";
}

TEST(Pod, its_conditions_say_unschedulable_and_disrupted) {
  const auto waiting = parse_pod(Json::parse(R"({"status": {"conditions": [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}})"));
  ASSERT_TRUE(waiting);
  EXPECT_FALSE(waiting->scheduled);
  EXPECT_EQ(waiting->unschedulable_reason, "Unschedulable");
  EXPECT_EQ(waiting->unschedulable_message, "0/3 nodes");
  const auto disrupted = parse_pod(Json::parse(R"({"status": {"conditions": [
    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T12:00:00Z"},
    {"type": "Ready", "status": "True"},
    {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drain"}]}})"));
  ASSERT_TRUE(disrupted);
  EXPECT_TRUE(disrupted->scheduled);
  EXPECT_TRUE(disrupted->ready);
  EXPECT_EQ(disrupted->unschedulable_reason, "");
  EXPECT_EQ(disrupted->disruption_reason, "EvictionByEvictionAPI");
}

TEST(Pod, a_wrong_type_names_the_field) {
  const auto pod = parse_pod(Json::parse(R"({"status": {"containerStatuses": [{"state": {"terminated": 1}}]}})"));
  ASSERT_FALSE(pod);
  EXPECT_EQ(pod.error().message, "status.containerStatuses[0].state.terminated must be an object");
}

TEST(Node, readiness_follows_its_condition) {
  const auto ready = parse_node(Json::parse(R"({"metadata": {"name": "n"}, "status": {"conditions": [
    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T12:34:56Z"}]}})"));
  ASSERT_TRUE(ready);
  EXPECT_TRUE(ready->ready);
  EXPECT_EQ(format_timestamp(*ready->ready_since), "2026-11-20T12:34:56Z");
  const auto lost = parse_node(Json::parse(R"({"status": {"conditions": [
    {"type": "MemoryPressure", "status": "False"},
    {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}})"));
  ASSERT_TRUE(lost);
  EXPECT_FALSE(lost->ready);
  EXPECT_EQ(lost->not_ready_reason, "NodeStatusUnknown");
  EXPECT_FALSE(lost->ready_since);
}

TEST(Node, the_out_of_service_taint_and_cordon_are_seen) {
  const auto node = parse_node(Json::parse(R"({"spec": {"unschedulable": true, "taints": [
    {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}})"));
  ASSERT_TRUE(node);
  EXPECT_TRUE(node->unschedulable);
  EXPECT_TRUE(node->out_of_service);
}

TEST(Pod, of_its_fields_alone_is_the_pod_of_the_whole_text) {
  const std::string text = R"({"kind": "Pod",
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "5", "generation": 2,
      "labels": {"lockstep.dev/job": "j", "lockstep.dev/job-uid": "w", "lockstep.dev/slot": "3",
        "lockstep.dev/incarnation": "7", "other": "o"},
      "annotations": {"lockstep.dev/node": "reserved", "other": "o"}, "managedFields": [{"manager": "m"}],
      "creationTimestamp": "2026-11-28T12:00:00Z", "deletionTimestamp": "2026-11-28T13:00:00Z",
      "ownerReferences": [{"uid": "w", "controller": true}]},
    "spec": {"nodeName": "node-1", "schedulingGates": [{"name": "gate"}], "containers": [{"name": "trainer"}],
      "affinity": {"podAffinity": {}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
    "status": {"phase": "Failed", "reason": "Evicted", "message": "disk", "podIP": "10.0.0.1", "hostIP": "10.0.0.2",
      "conditions": [{"type": "Ready", "status": "True"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T12:00:01Z"},
        {"type": "DisruptionTarget", "status": "True", "reason": "d", "message": "drained"}],
      "initContainerStatuses": [{"name": "agent", "ready": true, "state": {"running": {}}}],
      "containerStatuses": [{"name": "trainer", "restartCount": 2,
        "allocatedResourcesStatus": [{"name": "gpu", "resources": [{"resourceID": "0", "health": "Unhealthy"}]}],
        "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "tail"}}}]}})";
  const auto kept = Json::parse(keep_paths(text, pod_fields()));
  EXPECT_FALSE(kept["metadata"].contains("managedFields"));
  EXPECT_FALSE(kept["spec"].contains("containers"));
  const auto of_fields = parse_pod(kept);
  auto whole = parse_pod(Json::parse(text));
  ASSERT_TRUE(of_fields && whole);
  EXPECT_EQ(whole->meta.labels.erase("other") + whole->meta.annotations.erase("other"), 2U);
  EXPECT_TRUE(*of_fields == *whole);
  const Pod none;
  EXPECT_NE(whole->meta.generation, none.meta.generation);
  EXPECT_NE(whole->meta.created, none.meta.created);
  EXPECT_NE(whole->meta.deleted, none.meta.deleted);
  EXPECT_EQ(whole->meta.controller_uid(), "w");
  EXPECT_EQ(whole->gates.size(), 1U);
  EXPECT_EQ(whole->reserved_node, "reserved");
  EXPECT_TRUE(whole->has_node_affinity && whole->ready && whole->scheduled);
  EXPECT_EQ(whole->disruption_message, "drained");
  EXPECT_EQ(whole->unhealthy_device, "gpu 0");
}

}  // namespace
}  // namespace lockstep::api::pod_test
