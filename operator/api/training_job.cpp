#include "operator/api/training_job.h"

#include <algorithm>

#include "operator/api/reader.h"
#include "operator/api/training_job_names.h"

namespace lockstep::api {
namespace {

void read_rendezvous(const Reader& root, RendezvousSpec& spec) {
  root.read_enum("kind", spec.kind, kRendezvousKinds);
  root.read("port", spec.port);
  Labels env;
  root.read("env", env);
  for (auto& [name, value] : env) spec.env[name] = std::move(value);
}

void read_elastic(const Reader& root, ElasticSpec& spec) {
  root.read("minNodes", spec.min_nodes);
  root.read("maxNodes", spec.max_nodes);
  root.read("holdSeconds", spec.hold_seconds);
  root.read("stabilizationSeconds", spec.stabilization_seconds);
}

void read_placement(const Reader& root, PlacementSpec& spec) {
  root.read("required", spec.required);
  root.read("preferred", spec.preferred);
  root.read("preferredWaitSeconds", spec.preferred_wait_seconds);
  root.read("exclusive", spec.exclusive);
  root.read("gangTimeoutSeconds", spec.gang_timeout_seconds);
}

void read_scheduling(const Reader& root, SchedulingSpec& spec) {
  if (root.has("backend")) root.read_enum("backend", spec.backend.emplace(), kSchedulingBackends);
  root.read("priorityClassName", spec.priority_class_name);
  root.read("schedulerName", spec.scheduler_name);
}

void read_restart(const Reader& root, RestartSpec& spec) {
  root.read_enum("strategy", spec.strategy, kRestartStrategies);
  root.read("maxRestarts", spec.max_restarts);
  root.read("windowSeconds", spec.window_seconds);
  root.read("forceDeleteAfterSeconds", spec.force_delete_after_seconds);
  const Reader backoff = root.child("backoff");
  backoff.read("initialSeconds", spec.backoff_initial_seconds);
  backoff.read("maxSeconds", spec.backoff_max_seconds);
  for (const Reader& item : root.children("rules")) {
    RestartRule& rule = spec.rules.emplace_back();
    item.read("onReasons", rule.on_reasons);
    item.read("onExitCodes", rule.on_exit_codes);
    item.read_enum("action", rule.action, kRuleActions);
    item.read("countsTowardsMax", rule.counts_towards_max);
  }
}

void read_spec(const Reader& root, TrainingJobSpec& spec) {
  root.read("image", spec.image);
  root.read("command", spec.command);
  root.read("args", spec.args);
  root.read_objects("env", spec.env);
  root.read_objects("envFrom", spec.env_from);
  root.read("workingDir", spec.working_dir);
  root.read("nodes", spec.nodes);
  root.read("gpusPerNode", spec.gpus_per_node);
  root.read("procsPerNode", spec.procs_per_node);
  root.read("gpuResourceName", spec.gpu_resource_name);
  root.read_object("resources", spec.resources);
  root.read_objects("volumes", spec.volumes);
  root.read_objects("volumeMounts", spec.volume_mounts);
  root.read_objects("imagePullSecrets", spec.image_pull_secrets);
  root.read_quantity("shmSize", spec.shm_size);
  root.read_object("podTemplate", spec.pod_template);
  read_rendezvous(root.child("rendezvous"), spec.rendezvous);
  if (root.has("elastic")) read_elastic(root.child("elastic"), spec.elastic.emplace());
  root.child("spares").read("nodes", spec.spares);
  read_placement(root.child("placement"), spec.placement);
  read_scheduling(root.child("scheduling"), spec.scheduling);
  read_restart(root.child("restart"), spec.restart);
  const Reader deadlines = root.child("deadlines");
  deadlines.read("startupSeconds", spec.deadlines.startup_seconds);
  deadlines.read("activeSeconds", spec.deadlines.active_seconds);
  deadlines.read("progressSeconds", spec.deadlines.progress_seconds);
  const Reader checkpoint = root.child("checkpoint");
  checkpoint.read("path", spec.checkpoint.path);
  checkpoint.read("claimName", spec.checkpoint.claim_name);
  checkpoint.read("everySeconds", spec.checkpoint.every_seconds);
  checkpoint.read("gracePeriodSeconds", spec.checkpoint.grace_period_seconds);
  root.read("suspend", spec.suspend);
  root.read("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished);
  root.read_enum("cleanPodPolicy", spec.clean_pod_policy, kCleanPodPolicies);
}

// Writes `value` unless it is empty: an empty list or text means the same as none.
template <typename T>
void put(Json& json, const char* key, const T& value) {
  if (!value.empty()) json[key] = value;
}

Json placement_json(const PlacementSpec& placement) {
  Json json{{"exclusive", placement.exclusive}, {"gangTimeoutSeconds", placement.gang_timeout_seconds}};
  put(json, "required", placement.required);
  put(json, "preferred", placement.preferred);
  if (placement.preferred_wait_seconds) json["preferredWaitSeconds"] = *placement.preferred_wait_seconds;
  return json;
}

Json scheduling_json(const SchedulingSpec& scheduling) {
  Json json = Json::object();
  if (scheduling.backend) json["backend"] = name_of(*scheduling.backend, kSchedulingBackends);
  put(json, "priorityClassName", scheduling.priority_class_name);
  put(json, "schedulerName", scheduling.scheduler_name);
  return json;
}

Json restart_json(const RestartSpec& restart) {
  Json json{
      {"strategy", name_of(restart.strategy, kRestartStrategies)},
      {"maxRestarts", restart.max_restarts},
      {"windowSeconds", restart.window_seconds},
      {"backoff", {{"initialSeconds", restart.backoff_initial_seconds}, {"maxSeconds", restart.backoff_max_seconds}}},
      {"forceDeleteAfterSeconds", restart.force_delete_after_seconds}};
  for (const RestartRule& rule : restart.rules) {
    Json item{{"action", name_of(rule.action, kRuleActions)}, {"countsTowardsMax", rule.counts_towards_max}};
    put(item, "onReasons", rule.on_reasons);
    put(item, "onExitCodes", rule.on_exit_codes);
    json["rules"].push_back(std::move(item));
  }
  return json;
}

}  // namespace

std::int32_t slots_with_pods(const TrainingJobSpec& spec) {
  return std::max(spec.nodes, 0) + std::max(spec.spares, 0);
}

std::int32_t fewest_nodes(const TrainingJobSpec& spec) {
  return spec.elastic ? spec.elastic->min_nodes : spec.nodes;
}

bool may_leave_out(const TrainingJobSpec& spec) {
  return spec.elastic.has_value() || spec.spares > 0;
}

std::int32_t resolved_procs_per_node(const TrainingJobSpec& spec) {
  if (spec.procs_per_node > 0) return spec.procs_per_node;
  return spec.gpus_per_node > 0 ? spec.gpus_per_node : 1;
}

Result<TrainingJob> parse_training_job(const Json& object) {
  std::optional<Error> error;
  const Reader root(object, "", error);
  if (error) return *error;
  std::string kind = "TrainingJob", api_version = std::string(kGroup) + "/" + kVersion;
  const std::string expected = api_version;
  root.read("kind", kind);
  root.read("apiVersion", api_version);
  if (kind != "TrainingJob") return fail(ErrorCode::kInvalid, "kind must be TrainingJob");
  if (api_version != expected) return fail(ErrorCode::kInvalid, "apiVersion must be " + expected);
  TrainingJob job;
  LOCKSTEP_TRY(job.meta, parse_meta(object));
  read_spec(root.child("spec"), job.spec);
  read_status(root.child("status"), job.status);
  if (error) return *error;
  return job;
}

Json to_json(const TrainingJobSpec& spec) {
  Json json{{"nodes", spec.nodes},
            {"gpusPerNode", spec.gpus_per_node},
            {"gpuResourceName", spec.gpu_resource_name},
            {"restart", restart_json(spec.restart)},
            {"suspend", spec.suspend},
            {"cleanPodPolicy", name_of(spec.clean_pod_policy, kCleanPodPolicies)}};
  put(json, "image", spec.image);
  put(json, "command", spec.command);
  put(json, "args", spec.args);
  put(json, "env", spec.env);
  put(json, "envFrom", spec.env_from);
  put(json, "workingDir", spec.working_dir);
  if (spec.procs_per_node > 0) json["procsPerNode"] = spec.procs_per_node;
  put(json, "resources", spec.resources);
  put(json, "volumes", spec.volumes);
  put(json, "volumeMounts", spec.volume_mounts);
  put(json, "imagePullSecrets", spec.image_pull_secrets);
  put(json, "shmSize", spec.shm_size);
  put(json, "podTemplate", spec.pod_template);
  Json& rendezvous = json["rendezvous"];
  rendezvous = {{"kind", name_of(spec.rendezvous.kind, kRendezvousKinds)}, {"port", spec.rendezvous.port}};
  put(rendezvous, "env", spec.rendezvous.env);
  if (spec.elastic) {
    json["elastic"] = {{"minNodes", spec.elastic->min_nodes},
                       {"holdSeconds", spec.elastic->hold_seconds},
                       {"stabilizationSeconds", spec.elastic->stabilization_seconds}};
    if (spec.elastic->max_nodes) json["elastic"]["maxNodes"] = *spec.elastic->max_nodes;
  }
  if (spec.spares > 0) json["spares"] = {{"nodes", spec.spares}};
  if (spec.placement != PlacementSpec()) json["placement"] = placement_json(spec.placement);
  if (spec.scheduling != SchedulingSpec()) json["scheduling"] = scheduling_json(spec.scheduling);
  Json& deadlines = json["deadlines"];
  deadlines = {{"startupSeconds", spec.deadlines.startup_seconds}};
  if (spec.deadlines.active_seconds) deadlines["activeSeconds"] = *spec.deadlines.active_seconds;
  if (spec.deadlines.progress_seconds) deadlines["progressSeconds"] = *spec.deadlines.progress_seconds;
  Json& checkpoint = json["checkpoint"];
  checkpoint = {{"everySeconds", spec.checkpoint.every_seconds},
                {"gracePeriodSeconds", spec.checkpoint.grace_period_seconds}};
  put(checkpoint, "path", spec.checkpoint.path);
  put(checkpoint, "claimName", spec.checkpoint.claim_name);
  if (spec.ttl_seconds_after_finished) json["ttlSecondsAfterFinished"] = *spec.ttl_seconds_after_finished;
  return json;
}

Json to_json(const TrainingJob& job) {
  Json meta{{"name", job.meta.name}};
  put(meta, "namespace", job.meta.name_space);
  put(meta, "uid", job.meta.uid);
  put(meta, "resourceVersion", job.meta.resource_version);
  if (job.meta.generation != 0) meta["generation"] = job.meta.generation;
  put(meta, "labels", job.meta.labels);
  put(meta, "annotations", job.meta.annotations);
  if (job.meta.created) meta["creationTimestamp"] = format_timestamp(*job.meta.created);
  if (job.meta.deleted) meta["deletionTimestamp"] = format_timestamp(*job.meta.deleted);
  for (const OwnerReference& owner : job.meta.owners) meta["ownerReferences"].push_back(to_json(owner));
  return {{"apiVersion", std::string(kGroup) + "/" + kVersion},
          {"kind", "TrainingJob"},
          {"metadata", std::move(meta)},
          {"spec", to_json(job.spec)},
          {"status", to_json(job.status)}};
}

}  // namespace lockstep::api
