#include "operator/job/children.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "operator/api/schema.h"

namespace lockstep::job::children_test {
namespace {

using api::Json;

api::TrainingJob job_of(const char* spec) {
  auto job = api::parse_training_job(
      {{"metadata", {{"name", "lm"}, {"namespace", "team"}, {"uid", "4f2A1b9c-0000-4000-8000-000000000000"}}},
       {"spec", Json::parse(spec)}});
  EXPECT_TRUE(job) << job.error().message;
  return *job;
}

constexpr const char* kSmall = R"({"image": "img", "command": ["train"], "args": ["--x"], "nodes": 2})";
const AgentSettings kSettings{"agent:1", "10.0.3.4:7077", "-----PEM-----", {}, false};

Json pod_of(const api::TrainingJob& job) {
  auto pod = build_pod(job, {.slot = 1, .incarnation = 3}, kSettings);
  EXPECT_TRUE(pod) << pod.error().message;
  return pod ? *pod : Json();
}

std::string refusal(const char* spec) {
  const auto pod = build_pod(job_of(spec), {.slot = 0, .incarnation = 1}, kSettings);
  EXPECT_FALSE(pod) << spec;
  return pod ? "" : pod.error().message;
}

Json entry(const Json& list, const char* key, const std::string& value) {
  for (const Json& item : list) {
    if (item.at(key) == value) return item;
  }
  return {};
}

TEST(PodName, holds_job_uid_slot_and_incarnation_and_fits_a_label) {
  auto job = job_of(kSmall);
  EXPECT_EQ(pod_name(job, 1, 3), "lm-4f2a-1-3");
  job.meta.name = std::string(40, 'n');
  EXPECT_EQ(pod_name(job, 16383, 99'999'999).size(), 40u + 5 + 6 + 9);
  job.meta.name = std::string(300, 'n');
  const std::string name = pod_name(job, 16383, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(name.size(), 63u);
  EXPECT_TRUE(std::regex_match(name, std::regex("[a-z]([-a-z0-9]*[a-z0-9])?")));
}

TEST(Service, is_headless_and_publishes_pods_that_are_not_ready) {
  const Json service = build_service(job_of(kSmall));
  EXPECT_EQ(service["metadata"]["name"], "lm");
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  EXPECT_EQ(service["spec"]["selector"]["lockstep.dev/job-uid"], "4f2A1b9c-0000-4000-8000-000000000000");
  EXPECT_EQ(service["metadata"]["ownerReferences"][0]["controller"], true);
}

// The whole pod of a small job, so that a change of any part of it is seen.
TEST(Pod, of_a_small_job_is_this_one) {
  const Json expected = Json::parse(R"({
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "lm-4f2a-1-3", "namespace": "team",
      "labels": {"lockstep.dev/job": "lm", "lockstep.dev/job-uid": "4f2A1b9c-0000-4000-8000-000000000000",
                 "lockstep.dev/slot": "1", "lockstep.dev/incarnation": "3", "app.kubernetes.io/name": "lockstep-job",
                 "app.kubernetes.io/instance": "lm", "app.kubernetes.io/managed-by": "lockstep-operator"},
      "annotations": {"kubectl.kubernetes.io/default-container": "trainer"},
      "ownerReferences": [{"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "name": "lm",
        "uid": "4f2A1b9c-0000-4000-8000-000000000000", "controller": true, "blockOwnerDeletion": true}]},
    "spec": {"restartPolicy": "Never", "hostname": "lm-4f2a-1-3", "subdomain": "lm",
      "automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 60,
      "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
      "initContainers": [{"name": "lockstep-agent", "image": "agent:1",
        "command": ["/lockstep-agent", "install", "/lockstep/lockstep-agent"],
        "volumeMounts": [{"name": "lockstep", "mountPath": "/lockstep"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
      "containers": [{"name": "trainer", "image": "img",
        "command": ["/lockstep/lockstep-agent", "run", "--", "train", "--x"],
        "env": [{"name": "LOCKSTEP_COORDINATOR", "value": "10.0.3.4:7077"},
                {"name": "LOCKSTEP_COORDINATOR_CA", "value": "-----PEM-----"},
                {"name": "LOCKSTEP_NAMESPACE", "value": "team"},
                {"name": "LOCKSTEP_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LOCKSTEP_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                {"name": "LOCKSTEP_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "LOCKSTEP_SLOT", "value": "1"}, {"name": "LOCKSTEP_INCARNATION", "value": "3"},
                {"name": "LOCKSTEP_PROCS_PER_NODE", "value": "1"},
                {"name": "LOCKSTEP_TOKEN_FILE", "value": "/var/run/secrets/lockstep/token"}],
        "volumeMounts": [{"name": "lockstep", "mountPath": "/lockstep"},
                         {"name": "lockstep-token", "mountPath": "/var/run/secrets/lockstep", "readOnly": true}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
      "volumes": [{"name": "lockstep", "emptyDir": {}},
        {"name": "lockstep-token", "projected": {"sources": [{"serviceAccountToken":
          {"audience": "lockstep", "expirationSeconds": 3600, "path": "token"}}]}}]}})");
  const Json pod = pod_of(job_of(kSmall));
  EXPECT_EQ(pod, expected) << Json::diff(expected, pod).dump(2);
}

TEST(Pod, carries_what_the_job_says_about_its_container) {
  const Json pod = pod_of(job_of(R"({"image": "img", "command": ["t"], "nodes": 1, "procsPerNode": 2,
    "env": [{"name": "A", "value": "1"}], "envFrom": [{"secretRef": {"name": "s"}}], "workingDir": "/w",
    "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}], "imagePullSecrets": [{"name": "reg"}],
    "checkpoint": {"path": "/ckpt", "claimName": "claim", "gracePeriodSeconds": 7}})"));
  const Json& trainer = pod["spec"]["containers"][0];
  EXPECT_EQ(trainer["env"].back(), Json::parse(R"({"name": "A", "value": "1"})"));
  EXPECT_EQ(entry(trainer["env"], "name", "LOCKSTEP_PROCS_PER_NODE")["value"], "2");
  EXPECT_EQ(trainer["envFrom"], Json::parse(R"([{"secretRef": {"name": "s"}}])"));
  EXPECT_EQ(trainer["workingDir"], "/w");
  EXPECT_EQ(pod["spec"]["imagePullSecrets"], Json::parse(R"([{"name": "reg"}])"));
  EXPECT_EQ(entry(pod["spec"]["volumes"], "name", "data")["hostPath"]["path"], "/data");
  EXPECT_EQ(entry(trainer["volumeMounts"], "name", "data")["mountPath"], "/data");
  EXPECT_EQ(entry(pod["spec"]["volumes"], "name", "lockstep-checkpoint")["persistentVolumeClaim"]["claimName"],
            "claim");
  EXPECT_EQ(entry(trainer["volumeMounts"], "name", "lockstep-checkpoint")["mountPath"], "/ckpt");
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 7);
}

TEST(Pod, shared_memory_is_a_volume_that_counts_towards_the_memory_limit) {
  const Json pod = pod_of(job_of(R"({"image": "i", "command": ["t"], "nodes": 1, "shmSize": "1Gi",
    "resources": {"limits": {"memory": "16Gi", "cpu": 4}, "requests": {"memory": "1000M"}}})"));
  const Json& trainer = pod["spec"]["containers"][0];
  EXPECT_EQ(entry(pod["spec"]["volumes"], "name", "lockstep-shm")["emptyDir"],
            Json::parse(R"({"medium": "Memory", "sizeLimit": "1Gi"})"));
  EXPECT_EQ(entry(trainer["volumeMounts"], "name", "lockstep-shm")["mountPath"], "/dev/shm");
  EXPECT_EQ(trainer["resources"]["limits"], Json::parse(R"({"memory": "17Gi", "cpu": 4})"));
  EXPECT_EQ(trainer["resources"]["requests"]["memory"], "2073741824") << "1000 MB and 1 GiB";
  EXPECT_EQ(pod["spec"]["initContainers"][0]["resources"]["limits"], Json::parse(R"({"memory": "16Gi", "cpu": 4})"));
}

TEST(Pod, gpus_are_a_limit_and_their_taint_is_tolerated) {
  const Json pod = pod_of(job_of(R"({"image": "i", "command": ["t"], "nodes": 1, "gpusPerNode": 8,
    "gpuResourceName": "amd.com/gpu", "podTemplate": {"spec": {"tolerations": [{"key": "other"}]}}})"));
  EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"], 8);
  EXPECT_EQ(pod["spec"]["tolerations"],
            Json::parse(R"([{"key": "other"}, {"key": "amd.com/gpu", "operator": "Exists"}])"));
  EXPECT_FALSE(pod["spec"]["initContainers"][0].contains("resources"));
  EXPECT_FALSE(pod_of(job_of(kSmall))["spec"].contains("tolerations"));
}

TEST(Pod, asks_for_a_user_other_than_root_where_the_namespace_wants_it) {
  AgentSettings settings = kSettings;
  settings.run_as_non_root = true;
  const auto pod = build_pod(job_of(kSmall), {.slot = 0, .incarnation = 1}, settings);
  ASSERT_TRUE(pod);
  EXPECT_EQ((*pod)["spec"]["securityContext"]["runAsNonRoot"], true);
}

TEST(Pod, goes_to_other_nodes_where_it_can_beside_what_the_user_wishes) {
  const auto wishes = [](const char* spec) {
    const auto pod = build_pod(job_of(spec), {.slot = 0, .incarnation = 1, .avoid_nodes = {"n1", "n2"}}, kSettings);
    EXPECT_TRUE(pod);
    return (*pod)["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
  };
  const Json own = Json::parse(R"({"weight": 100, "preference": {"matchFields": [
      {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
      {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]}})");
  EXPECT_EQ(wishes(kSmall), Json::array({own}));
  const Json both = wishes(R"({"image": "i", "command": ["t"], "nodes": 1, "podTemplate": {"spec": {"affinity": {
      "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}}}})");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1], own);
  EXPECT_FALSE(pod_of(job_of(kSmall))["spec"].contains("affinity"));
}

TEST(Pod, amounts_of_memory_that_are_none_are_refused_by_name) {
  EXPECT_EQ(refusal(R"({"shmSize": "1Gi", "resources": {"limits": {"memory": "1Gb"}}})"),
            "spec.resources.limits.memory: '1Gb' is not a quantity such as 2, 500m or 16Gi");
  EXPECT_EQ(refusal(R"({"shmSize": "lots", "resources": {"limits": {"memory": "1Gi"}}})"),
            "spec.shmSize: 'lots' is not a quantity such as 2, 500m or 16Gi");
  EXPECT_EQ(refusal(R"({"shmSize": "7Ei", "resources": {"limits": {"memory": "7Ei"}}})"),
            "spec.resources.limits.memory and spec.shmSize are together more than any node has");
  EXPECT_EQ(refusal(R"({"resources": {"limits": 1}})"), "spec.resources.limits must be an object");
}

TEST(PodTemplate, reaches_everything_that_is_not_owned) {
  const Json pod = pod_of(job_of(R"({"image": "i", "command": ["t"], "nodes": 1, "podTemplate": {
    "metadata": {"labels": {"team": "nlp"}, "annotations": {"a": "b"}},
    "spec": {"hostNetwork": true, "nodeSelector": {"pool": "a100"}, "serviceAccountName": "sa",
      "securityContext": {"runAsNonRoot": true, "runAsUser": 1000},
      "containers": [{"name": "trainer", "env": [{"name": "X", "value": "y"}],
                      "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}},
                     {"name": "side", "image": "s"}],
      "volumes": [{"name": "scratch", "emptyDir": {}}]}}})"));
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "nlp");
  EXPECT_EQ(pod["spec"]["securityContext"],
            Json::parse(R"({"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": true, "runAsUser": 1000})"));
  EXPECT_EQ(pod["spec"]["containers"].size(), 2u);
  const Json trainer = entry(pod["spec"]["containers"], "name", "trainer");
  EXPECT_EQ(entry(trainer["env"], "name", "X")["value"], "y");
  EXPECT_EQ(trainer["securityContext"]["capabilities"], Json::parse(R"({"drop": ["ALL"], "add": ["IPC_LOCK"]})"));
  EXPECT_FALSE(entry(pod["spec"]["volumes"], "name", "lockstep").is_null());
}

TEST(PodTemplate, what_lockstep_owns_cannot_be_patched) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"metadata": {"name": "x"}})", "metadata.name"},
      {R"({"metadata": {"generateName": "x"}})", "metadata.generateName"},
      {R"({"metadata": {"ownerReferences": null}})", "metadata.ownerReferences"},
      {R"({"metadata": {"labels": null}})", "metadata.labels[app.kubernetes.io/instance]"},
      {R"({"metadata": {"labels": {"lockstep.dev/slot": "9"}}})", "metadata.labels[lockstep.dev/slot]"},
      {R"({"metadata": {"labels": {"lockstep.dev/x": "9"}}})", "metadata.labels[lockstep.dev/x]"},
      {R"({"metadata": null})", "metadata.name"},
      {R"({"kind": "Job"})", "kind"},
      {R"({"spec": {"restartPolicy": "Always"}})", "spec.restartPolicy"},
      {R"({"spec": {"hostname": null}})", "spec.hostname"},
      {R"({"spec": {"schedulingGates": [{"name": "g"}]}})", "spec.schedulingGates"},
      {R"({"spec": {"containers": [{"name": "trainer", "restartPolicy": "Always"}]}})",
       "spec.containers[trainer].restartPolicy"},
      {R"({"spec": {"containers": [{"name": "trainer", "$patch": "delete"}]}})", "spec.containers[trainer]"},
      {R"({"spec": {"containers": [{"$patch": "replace"}, {"name": "side"}]}})", "spec.containers[trainer]"},
      {R"({"spec": {"containers": null}})", "spec.containers[trainer]"},
      {R"({"spec": {"containers": [{"name": "trainer", "env": null}]}})",
       "spec.containers[trainer].env[LOCKSTEP_COORDINATOR]"},
      {R"({"spec": {"containers": [{"name": "trainer", "env": [{"name": "LOCKSTEP_SLOT", "value": "9"}]}]}})",
       "spec.containers[trainer].env[LOCKSTEP_SLOT]"},
      {R"({"spec": {"containers": [{"name": "trainer", "env": [{"name": "LOCKSTEP_X", "value": "0"}]}]}})",
       "spec.containers[trainer].env[LOCKSTEP_X]"},
      {R"({"spec": {"containers": [{"name": "trainer", "env": [{"name": "RANK", "value": "0"}]}]}})",
       "spec.containers[trainer].env[RANK]"},
      {R"({"spec": {"containers": [{"name": "trainer", "volumeMounts": [{"mountPath": "/lockstep", "name": "x"}]}]}})",
       "spec.containers[trainer].volumeMounts[/lockstep]"},
      {R"({"spec": {"containers": [{"name": "trainer", "volumeMounts": [{"mountPath":"/lockstep/x", "name": "x"}]}]}})",
       "spec.containers[trainer].volumeMounts[/lockstep/x]"},
      {R"({"spec": {"initContainers": null}})", "spec.initContainers[lockstep-agent]"},
      {R"({"spec": {"initContainers": [{"name": "lockstep-agent", "image": "x"}]}})",
       "spec.initContainers[lockstep-agent].image"},
      {R"({"spec": {"volumes": [{"name": "lockstep", "$patch": "delete"}]}})", "spec.volumes[lockstep]"},
      {R"({"spec": {"volumes": [{"name": "lockstep-x", "emptyDir": {}}]}})", "spec.volumes[lockstep-x]"},
  };
  for (const auto& [patch, place] : cases) {
    api::TrainingJob job = job_of(kSmall);
    job.spec.pod_template = Json::parse(patch);
    const auto pod = build_pod(job, {.slot = 0, .incarnation = 1}, kSettings);
    ASSERT_FALSE(pod) << patch;
    EXPECT_EQ(pod.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(pod.error().message,
              "spec.podTemplate." + std::string(place) + " belongs to Lockstep and cannot be patched");
  }
  EXPECT_EQ(
      refusal(R"({"image": "i", "podTemplate": {"spec": {"containers": [{"name": "trainer", "image": "x"}]}}})"),
      "spec.podTemplate.spec.containers[trainer].image belongs to Lockstep and cannot be patched; set spec.image");
  EXPECT_EQ(
      refusal(R"({"podTemplate": {"spec": {"containers": [{"name": "trainer", "command": ["x"]}]}}})"),
      "spec.podTemplate.spec.containers[trainer].command belongs to Lockstep and cannot be patched; set spec.command");
  EXPECT_EQ(refusal(R"({"podTemplate": {"spec": {"containers": [{"name": "trainer", "args": ["x"]}]}}})"),
            "spec.podTemplate.spec.containers[trainer].args belongs to Lockstep and cannot be patched; set spec.args");
  EXPECT_EQ(refusal(R"({"podTemplate": {"spec": {"terminationGracePeriodSeconds": 5}}})"),
            "spec.podTemplate.spec.terminationGracePeriodSeconds belongs to Lockstep and cannot be patched; set "
            "spec.checkpoint.gracePeriodSeconds");
  EXPECT_EQ(refusal(R"({"podTemplate": {"spec": null}})"),
            "spec.podTemplate.spec.restartPolicy belongs to Lockstep and cannot be patched");
}

// The template may set what the job does not: jobs of versions without spec.scheduling do.
TEST(Pod, has_the_priority_class_and_the_scheduler_of_the_job_or_of_its_template) {
  const Json plain = pod_of(job_of(kSmall))["spec"];
  EXPECT_FALSE(plain.contains("priorityClassName") || plain.contains("schedulerName"));
  const Json own = pod_of(job_of(R"({"image": "i", "command": ["t"], "nodes": 2,
    "scheduling": {"priorityClassName": "high", "schedulerName": "other"}})"))["spec"];
  EXPECT_EQ(own["priorityClassName"], "high");
  EXPECT_EQ(own["schedulerName"], "other");
  const Json patched = pod_of(job_of(R"({"image": "i", "command": ["t"], "nodes": 2, "scheduling": {
    "schedulerName": "other"}, "podTemplate": {"spec": {"priorityClassName": "low"}}})"))["spec"];
  EXPECT_EQ(patched["priorityClassName"], "low");
  EXPECT_EQ(patched["schedulerName"], "other");
  EXPECT_EQ(refusal(R"({"scheduling": {"priorityClassName": "high"},
                        "podTemplate": {"spec": {"priorityClassName": "low"}}})"),
            "spec.podTemplate.spec.priorityClassName belongs to Lockstep and cannot be patched; change "
            "spec.scheduling.priorityClassName");
  EXPECT_EQ(refusal(R"({"scheduling": {"schedulerName": "other"}, "podTemplate": {"spec": {"schedulerName": null}}})"),
            "spec.podTemplate.spec.schedulerName belongs to Lockstep and cannot be patched; change "
            "spec.scheduling.schedulerName");
}

TEST(PodTemplate, rank_variables_are_the_users_where_there_is_no_rendezvous) {
  const auto pod = build_pod(job_of(R"({"image": "i", "command": ["t"], "nodes": 1, "rendezvous": {"kind": "None"},
    "podTemplate": {"spec": {"containers": [{"name": "trainer", "env": [{"name": "RANK", "value": "7"}]}]}}})"),
                             {.slot = 0, .incarnation = 1}, kSettings);
  EXPECT_TRUE(pod) << pod.error().message;
}

TEST(PodTemplate, can_be_checked_without_a_cluster) {
  EXPECT_TRUE(check_pod_template(job_of(kSmall)));
  EXPECT_FALSE(check_pod_template(job_of(R"({"podTemplate": {"spec": {"hostname": "x"}}})")));
}

// What one pod is given must not show in the next.
TEST(PodMaker, makes_each_pod_as_if_it_were_the_only_one) {
  const auto job = job_of(R"({"image": "i", "command": ["t"], "nodes": 3, "env": [{"name": "A", "value": "1"}],
    "podTemplate": {"spec": {"containers": [{"name": "sidecar", "image": "s", "env": [{"name": "B", "value": "2"}]},
                                            {"name": "trainer", "env": [{"name": "C", "value": "3"}]}]}}})");
  const auto maker = PodMaker::of(job, kSettings);
  ASSERT_TRUE(maker) << maker.error().message;
  const std::vector<PodToCreate> wanted{{.slot = 0, .incarnation = 1, .node = "n1"},
                                        {.slot = 1, .incarnation = 12, .avoid_nodes = {"n1"}},
                                        {.slot = 2, .incarnation = 3, .node = "n2", .gated = true},
                                        {.slot = 0, .incarnation = 2}};
  for (const PodToCreate& one : wanted) {
    const auto pod = maker->pod(one);
    ASSERT_TRUE(pod) << pod.error().message;
    EXPECT_EQ(*pod, *build_pod(job, one, kSettings));
    EXPECT_EQ(pod->dump().find("(of each pod)"), std::string::npos) << pod->dump(1);
    const Json &meta = (*pod)["metadata"], &labels = meta["labels"];
    EXPECT_EQ(meta["name"], pod_name(job, one.slot, one.incarnation));
    EXPECT_EQ((*pod)["spec"]["hostname"], meta["name"]);
    EXPECT_EQ(labels["lockstep.dev/slot"], std::to_string(one.slot));
    EXPECT_EQ(labels["lockstep.dev/incarnation"], std::to_string(one.incarnation));
    const Json& trainer = entry((*pod)["spec"]["containers"], "name", "trainer");
    EXPECT_EQ(entry(trainer["env"], "name", "LOCKSTEP_SLOT")["value"], std::to_string(one.slot));
    EXPECT_EQ(entry(trainer["env"], "name", "LOCKSTEP_INCARNATION")["value"], std::to_string(one.incarnation));
    EXPECT_EQ(meta["annotations"].value("lockstep.dev/node", ""), one.node);
  }
}

// Whatever stands in the fields that are passed through, the result is a pod or a sentence.
TEST(Pod, of_any_spec_is_a_pod_or_a_sentence) {
  const Json values = Json::parse(R"([{}, {"name": 1}, {"name": null}, {"mountPath": []}, {"$patch": "delete"}])");
  for (const char* field : {"env", "envFrom", "volumes", "volumeMounts", "imagePullSecrets"}) {
    for (const Json& value : values) {
      api::TrainingJob job = job_of(kSmall);
      Json spec = to_json(job.spec);
      spec[field] = Json::array({value});
      spec["podTemplate"] = {
          {"spec",
           {{"volumes", {{{"name", "a"}}}}, {"containers", {{{"name", "trainer"}, {"env", {{{"name", "A"}}}}}}}}}};
      job.spec = job_of(spec.dump().c_str()).spec;
      (void)build_pod(job, {.slot = 0, .incarnation = 1}, kSettings);
    }
  }
}

}  // namespace
}  // namespace lockstep::job::children_test
