#include "operator/api/training_job.h"

#include <gtest/gtest.h>

#include "tests/sanitizer.h"

namespace lockstep::api::training_job_test {
namespace {

Json full_job() {
  return Json::parse(R"({
    "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
    "metadata": {"name": "lm", "namespace": "team", "uid": "0123", "resourceVersion": "7", "generation": 2,
                 "labels": {"a": "b"}, "creationTimestamp": "2026-11-20T12:00:00Z"},
    "spec": {
      "image": "i", "command": ["c"], "args": ["--x=1"], "env": [{"name": "A", "value": "1"}],
      "envFrom": [{"configMapRef": {"name": "m"}}], "workingDir": "/w", "nodes": 4, "gpusPerNode": 2,
      "procsPerNode": 2, "gpuResourceName": "amd.com/gpu", "resources": {"limits": {"cpu": "1"}},
      "volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
      "imagePullSecrets": [{"name": "s"}], "shmSize": "1Gi", "podTemplate": {"spec": {"hostNetwork": true}},
      "rendezvous": {"kind": "Torch", "port": 29500, "env": {"NCCL_DEBUG": "INFO"}},
      "elastic": {"minNodes": 3, "maxNodes": 8, "holdSeconds": 5, "stabilizationSeconds": 4}, "spares": {"nodes": 2},
      "placement": {"required": "block", "preferred": "rack", "preferredWaitSeconds": 7, "exclusive": true,
                    "gangTimeoutSeconds": 8},
      "scheduling": {"backend": "None", "priorityClassName": "high", "schedulerName": "other"},
      "restart": {"strategy": "Gang", "maxRestarts": 3, "windowSeconds": 60,
                  "backoff": {"initialSeconds": 2, "maxSeconds": 9}, "forceDeleteAfterSeconds": 11,
                  "rules": [{"onReasons": ["NodeLost"], "action": "Restart", "countsTowardsMax": false},
                            {"onExitCodes": [64, 65], "action": "Fail", "countsTowardsMax": true}]},
      "deadlines": {"startupSeconds": 30, "activeSeconds": 3600, "progressSeconds": 20},
      "checkpoint": {"path": "/ckpt", "claimName": "c", "everySeconds": 5, "gracePeriodSeconds": 6},
      "suspend": true, "ttlSecondsAfterFinished": 0, "cleanPodPolicy": "All"},
    "status": {
      "observedGeneration": 2, "state": "Running", "incarnation": 3, "membershipGeneration": 5,
      "conditions": [{"type": "Running", "status": "True", "reason": "Up", "message": "", "observedGeneration": 2,
                      "lastTransitionTime": "2026-11-20T12:00:10Z"}],
      "nodes": {"desired": 4, "ready": 3, "min": 3, "max": 8, "spare": 2, "summary": "3/4"}, "procsPerNode": 2, "worldSize": 8,
      "placement": {"domains": ["b1/r1", "b1/r2"], "levelSpanned": "block", "score": "12.5"},
      "released": [{"fromSlot": 4, "incarnation": 2}],
      "restarts": {"total": 3, "charged": 2, "counted": 1, "lastCause": "NodeLost",
                   "window": [{"time": "2026-11-20T12:00:09Z", "count": 1}], "withoutProgress": 1, "bestStep": 17,
                   "lastFailure": {"step": 17, "exitCode": 139}, "outOfMemory": true},
      "attempts": [{"generation": 4, "cause": "ProcessExit", "firstFailingRank": 0, "pod": "p", "node": "n",
                    "exitCode": 1, "message": "m", "strategy": "InPlace", "decision": "d", "counted": true,
                    "startTime": "2026-11-20T12:00:00.000001Z", "endTime": "2026-11-20T12:00:09.123456Z", "step": 17,
                    "phases": {"detectMilliseconds": 0, "agreeMilliseconds": 9, "decideMilliseconds": 2, "abortMilliseconds": 3,
                               "recordMilliseconds": 4, "startMilliseconds": 11, "initMilliseconds": 5,
                               "transferMilliseconds": 6, "firstStepMilliseconds": 7}}],
      "slots": [{"slot": 2, "trouble": "Partitioned", "pod": "p", "node": "n", "since": "2026-11-20T12:00:09Z",
                 "generation": 4}],
      "progress": {"step": 20, "totalSteps": 100, "epoch": 1, "loss": "2.5", "samplesPerSecond": "10.0",
                   "percentage": 20, "etaSeconds": 60, "lastUpdateTime": "2026-11-20T12:00:11Z"},
      "startTime": "2026-11-20T12:00:01Z", "completionTime": "2026-11-20T12:30:00Z", "selector": "a=b"}})");
}

TEST(TrainingJob, every_field_survives_the_way_to_structs_and_back) {
  const auto job = parse_training_job(full_job());
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(to_json(*job), full_job()) << Json::diff(to_json(*job), full_job()).dump(2);
}

// After a rollback the status may hold names that only the newer version knows.
TEST(TrainingJob, names_of_another_version_are_kept_as_they_are) {
  Json object = full_job();
  object["status"]["restarts"]["lastCause"] = object["status"]["attempts"][0]["cause"] = "ComesLater";
  object["status"]["attempts"][0]["strategy"] = "Wait";
  object["status"]["slots"][0]["trouble"] = "Slow";
  const auto job = parse_training_job(object);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(to_json(*job), object);
  const StoredName<Cause>& cause = job->status.attempts[0].cause;
  EXPECT_EQ(Cause{cause}, Cause::kNone);
  for (const Cause known : all_causes()) EXPECT_FALSE(cause == known) << name_of(known);
  EXPECT_FALSE(cause == Cause::kNone) << "it has ended";
  for (const Strategy known : all_strategies()) EXPECT_FALSE(job->status.attempts[0].strategy == known);
}

TEST(TrainingJob, the_smallest_job_gets_the_defaults) {
  const auto job = parse_training_job(Json::parse(R"({"spec": {"image": "i", "command": ["c"], "nodes": 1}})"));
  ASSERT_TRUE(job) << job.error().message;
  const TrainingJobSpec defaults;
  EXPECT_EQ(job->spec.gpu_resource_name, "nvidia.com/gpu");
  EXPECT_EQ(job->spec.restart.max_restarts, defaults.restart.max_restarts);
  EXPECT_EQ(job->spec.deadlines.startup_seconds, defaults.deadlines.startup_seconds);
  EXPECT_FALSE(job->spec.ttl_seconds_after_finished);
  EXPECT_FALSE(job->status.progress);
  const auto back = parse_training_job(to_json(*job));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(*job));
}

TEST(TrainingJob, a_quantity_may_be_a_number) {
  const auto job = parse_training_job(Json::parse(R"({"spec": {"shmSize": 1048576}})"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->spec.shm_size, "1048576");
}

TEST(TrainingJob, processes_per_node_follow_the_gpus_unless_they_are_given) {
  TrainingJobSpec spec;
  EXPECT_EQ(resolved_procs_per_node(spec), 1);
  spec.gpus_per_node = 8;
  EXPECT_EQ(resolved_procs_per_node(spec), 8);
  spec.procs_per_node = 2;
  EXPECT_EQ(resolved_procs_per_node(spec), 2);
}

TEST(TrainingJob, a_wrong_type_names_the_field) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "the object must be an object"},
      {R"({"kind": "Job"})", "kind must be TrainingJob"},
      {R"({"apiVersion": "batch/v1"})", "apiVersion must be lockstep.dev/v1alpha1"},
      {R"({"spec": []})", "spec must be an object"},
      {R"({"spec": {"nodes": "4"}})", "spec.nodes must be an integer"},
      {R"({"spec": {"nodes": 4294967296}})", "spec.nodes must be an integer between -2147483648 and 2147483647"},
      {R"({"spec": {"command": "run"}})", "spec.command must be a list of strings"},
      {R"({"spec": {"command": ["a", 1]}})", "spec.command[1] must be a string"},
      {R"({"spec": {"env": {"A": "1"}}})", "spec.env must be a list of objects"},
      {R"({"spec": {"env": ["A"]}})", "spec.env[0] must be an object"},
      {R"({"spec": {"resources": 1}})", "spec.resources must be an object"},
      {R"({"spec": {"suspend": "yes"}})", "spec.suspend must be true or false"},
      {R"({"spec": {"rendezvous": {"kind": "torch"}}})", "spec.rendezvous.kind must be one of Lockstep, Torch, None"},
      {R"({"spec": {"rendezvous": {"env": {"A": 1}}}})", "spec.rendezvous.env.A must be a string"},
      {R"({"spec": {"restart": {"rules": [{"onExitCodes": [1, "2"]}]}}})",
       "spec.restart.rules[0].onExitCodes[1] must be an integer"},
      {R"({"spec": {"restart": {"strategy": "Auto"}}})", "spec.restart.strategy must be one of InPlace, Gang"},
      {R"({"spec": {"placement": {"preferredWaitSeconds": "5"}}})",
       "spec.placement.preferredWaitSeconds must be an integer"},
      {R"({"spec": {"scheduling": {"backend": "none"}}})", "spec.scheduling.backend must be one of Lockstep, None"},
      {R"({"status": {"placement": {"score": 12.5}}})", "status.placement.score must be a string"},
      {R"({"status": {"attempts": [{"phases": 1}]}})", "status.attempts[0].phases must be an object"},
      {R"({"status": {"progress": {"loss": 2.5}}})", "status.progress.loss must be a string"},
  };
  for (const auto& [text, message] : cases) {
    const auto job = parse_training_job(Json::parse(text));
    ASSERT_FALSE(job) << text;
    EXPECT_EQ(job.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(job.error().message, message);
  }
}

// Whatever value of whatever type a field has, reading ends in a job or a sentence, never in an exception.
TEST(TrainingJob, any_value_in_any_field_is_a_job_or_a_sentence) {
  const Json values = Json::parse(R"([null, true, -1, 1e300, "", "x", [], [null], [[]], {}, {"a": null}])");
  const Json job = full_job();
  const Json flat = job.flatten();
  int refused = 0, tried = 0;
  for (const auto& [pointer, unused] : flat.items()) {
    for (const Json& value : values) {
      if (sanitizer::kOn && ++tried % 5 != 0) continue;
      for (Json::json_pointer at(pointer); !at.empty(); at.pop_back()) {
        Json broken = job;
        broken[at] = value;
        const auto parsed = parse_training_job(broken);
        if (parsed) continue;
        ++refused;
        ASSERT_NE(parsed.error().message.find(" must "), std::string::npos) << parsed.error().message;
      }
    }
  }
  EXPECT_GT(refused, sanitizer::kOn ? 100 : 500);
}

}  // namespace
}  // namespace lockstep::api::training_job_test
