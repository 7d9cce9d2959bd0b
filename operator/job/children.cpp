#include "operator/job/children.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "operator/api/lookup.h"
#include "operator/api/quantity.h"
#include "operator/api/reserved_names.h"
#include "operator/job/pod_template.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::job {
namespace {

using api::Json;
using api::TrainingJob;
using api::TrainingJobSpec;

constexpr size_t kMaxLabel = 63;
constexpr const char* kOfEachPod = "(of each pod)";  // in the place of what name_pod() writes

Json base_labels(const TrainingJob& job) {
  return {{api::kLabelJob, job.meta.name},
          {api::kLabelJobUid, job.meta.uid},
          {"app.kubernetes.io/name", "lockstep-job"},
          {"app.kubernetes.io/instance", job.meta.name},
          {"app.kubernetes.io/managed-by", "lockstep-operator"}};
}

Json metadata(const TrainingJob& job, std::string name) {
  return {{"name", std::move(name)},
          {"namespace", job.meta.name_space},
          {"labels", base_labels(job)},
          {"ownerReferences", Json::array({to_json(owner_reference(job))})}};
}

Json variable(const char* name, std::string value) {
  return {{"name", name}, {"value", std::move(value)}};
}

Json field_variable(const char* name, const char* path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

// Lockstep's own come first, so that the user's may refer to them: $(LOCKSTEP_POD_IP).
Json environment(const TrainingJob& job, const AgentSettings& settings) {
  Json env = Json::array({
      variable(rendezvous::kEnvCoordinator, settings.coordinator_address),
      variable(rendezvous::kEnvCoordinatorCa, settings.coordinator_ca_pem),
      variable(rendezvous::kEnvNamespace, job.meta.name_space),
      field_variable(rendezvous::kEnvPodName, "metadata.name"),
      field_variable(rendezvous::kEnvPodUid, "metadata.uid"),
      field_variable(rendezvous::kEnvPodIp, "status.podIP"),
      variable(rendezvous::kEnvSlot, kOfEachPod),
      variable(rendezvous::kEnvIncarnation, kOfEachPod),
      variable(rendezvous::kEnvProcsPerNode, std::to_string(resolved_procs_per_node(job.spec))),
      variable(rendezvous::kEnvTokenFile, std::string(api::kTokenFolder) + "/token"),
  });
  for (const Json& entry : job.spec.env) env.push_back(entry);
  return env;
}

std::string amount_text(const Json& amount) {
  return amount.is_string() ? amount.get<std::string>() : amount.dump();
}

// Pages of /dev/shm are charged to the container that touched them, so a memory limit has to have room for them.
Status add_memory(Json& amounts, const std::string& place, const std::string& shm_size) {
  const auto memory = amounts.find("memory");
  if (memory == amounts.end()) return {};
  const auto own = api::Quantity::parse(amount_text(*memory));
  if (!own) return own.error().in(place + ".memory");
  const auto shm = api::Quantity::parse(shm_size);
  if (!shm) return shm.error().in("spec.shmSize");
  std::int64_t total = 0;
  if (__builtin_add_overflow(own->ceil(), shm->ceil(), &total)) {
    return fail(ErrorCode::kInvalid, place + ".memory and spec.shmSize are together more than any node has");
  }
  *memory = api::format_bytes(total);
  return {};
}

Result<Json> trainer_resources(const TrainingJobSpec& spec) {
  Json resources = spec.resources;
  for (const char* part : {"limits", "requests"}) {
    const auto amounts = resources.find(part);
    if (amounts == resources.end()) continue;
    const std::string place = std::string("spec.resources.") + part;
    if (!amounts->is_object()) return fail(ErrorCode::kInvalid, place + " must be an object");
    if (!spec.shm_size.empty()) LOCKSTEP_CHECK_OK(add_memory(*amounts, place, spec.shm_size));
  }
  if (spec.gpus_per_node > 0) resources["limits"][spec.gpu_resource_name] = spec.gpus_per_node;
  return resources;
}

// The agent's copy may use what the trainer may. It costs nothing, because the two never run together. A pod whose
// limits equal its requests keeps the class Guaranteed.
Json agent_resources(const TrainingJobSpec& spec) {
  Json resources = Json::object();
  for (const char* part : {"limits", "requests"}) {
    const auto amounts = spec.resources.find(part);
    if (amounts == spec.resources.end()) continue;
    for (const char* name : {"cpu", "memory"}) {
      if (const auto amount = amounts->find(name); amount != amounts->end()) resources[part][name] = *amount;
    }
  }
  return resources;
}

Json container_security() {
  return {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", Json::array({"ALL"})}}}};
}

Json mount(const char* volume, const std::string& path) {
  return {{"name", volume}, {"mountPath", path}};
}

Json agent_container(const TrainingJobSpec& spec, const AgentSettings& settings) {
  const std::string target = std::string(api::kAgentFolder) + "/lockstep-agent";
  Json container{{"name", kAgentContainer},
                 {"image", settings.image},
                 {"command", Json::array({"/lockstep-agent", "install", target})},
                 {"volumeMounts", Json::array({mount(api::kAgentVolume, api::kAgentFolder)})},
                 {"terminationMessagePolicy", "FallbackToLogsOnError"},
                 {"securityContext", container_security()}};
  if (Json resources = agent_resources(spec); !resources.empty()) container["resources"] = std::move(resources);
  return container;
}

Json volume_mounts(const TrainingJobSpec& spec) {
  Json token = mount(api::kTokenVolume, api::kTokenFolder);
  token["readOnly"] = true;
  Json mounts = Json::array({mount(api::kAgentVolume, api::kAgentFolder), std::move(token)});
  if (!spec.shm_size.empty()) mounts.push_back(mount(api::kShmVolume, "/dev/shm"));
  if (!spec.checkpoint.claim_name.empty()) mounts.push_back(mount(api::kCheckpointVolume, spec.checkpoint.path));
  for (const Json& entry : spec.volume_mounts) mounts.push_back(entry);
  return mounts;
}

Json volumes(const TrainingJobSpec& spec) {
  const Json token{{"audience", rendezvous::kTokenAudience}, {"expirationSeconds", 3600}, {"path", "token"}};
  Json result = Json::array({{{"name", api::kAgentVolume}, {"emptyDir", Json::object()}},
                             {{"name", api::kTokenVolume},
                              {"projected", {{"sources", Json::array({Json{{"serviceAccountToken", token}}})}}}}});
  if (!spec.shm_size.empty()) {
    result.push_back({{"name", api::kShmVolume}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", spec.shm_size}}}});
  }
  if (!spec.checkpoint.claim_name.empty()) {
    result.push_back(
        {{"name", api::kCheckpointVolume}, {"persistentVolumeClaim", {{"claimName", spec.checkpoint.claim_name}}}});
  }
  for (const Json& entry : spec.volumes) result.push_back(entry);
  return result;
}

Result<Json> trainer_container(const TrainingJob& job, const AgentSettings& settings) {
  const TrainingJobSpec& spec = job.spec;
  Json command = Json::array({std::string(api::kAgentFolder) + "/lockstep-agent", "run", "--"});
  for (const std::string& word : spec.command) command.push_back(word);
  for (const std::string& word : spec.args) command.push_back(word);
  Json container{{"name", kTrainerContainer},
                 {"image", spec.image},
                 {"command", std::move(command)},
                 {"env", environment(job, settings)},
                 {"volumeMounts", volume_mounts(spec)},
                 {"terminationMessagePolicy", "FallbackToLogsOnError"},
                 {"securityContext", container_security()}};
  if (!spec.env_from.empty()) container["envFrom"] = spec.env_from;
  if (!spec.working_dir.empty()) container["workingDir"] = spec.working_dir;
  LOCKSTEP_TRY(Json resources, trainer_resources(spec));
  if (!resources.empty()) container["resources"] = std::move(resources);
  return container;
}

// Nodes with GPUs are often tainted by the name of the resource. Added after the template, because a patch of
// tolerations replaces the list.
void tolerate_gpu_taint(Json& pod_spec, const TrainingJobSpec& spec) {
  if (spec.gpus_per_node == 0) return;
  const Json toleration{{"key", spec.gpu_resource_name}, {"operator", "Exists"}};
  Json& tolerations = pod_spec["tolerations"];
  if (!tolerations.is_array()) tolerations = Json::array();
  if (std::find(tolerations.begin(), tolerations.end(), toleration) == tolerations.end()) {
    tolerations.push_back(toleration);
  }
}

// A wish, not a condition: where no other node has room, one that may be cut off is better than none. Added after the
// template for the same reason.
void prefer_other_nodes(Json& pod_spec, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return;
  Json fields = Json::array();
  for (const std::string& node : nodes) {
    fields.push_back({{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", Json::array({node})}});
  }
  Json* at = &pod_spec;
  for (const char* name : {"affinity", "nodeAffinity"}) {
    at = &(*at)[name];
    if (at->is_null()) *at = Json::object();
    if (!at->is_object()) return;  // the API server will say what is wrong with it
  }
  Json& wishes = (*at)["preferredDuringSchedulingIgnoredDuringExecution"];
  if (wishes.is_null()) wishes = Json::array();
  if (wishes.is_array()) wishes.push_back({{"weight", 100}, {"preference", {{"matchFields", std::move(fields)}}}});
}

constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";

Json is_node(const std::string& node) {
  return {{"key", "metadata.name"}, {"operator", "In"}, {"values", Json::array({node})}};
}

// Node affinity by which only `node` is left. The terms of a pod are alternatives, so each of them gets the node.
Result<Json> pinned(Json required, const std::string& node) {
  const auto refused = [](const char* field, const char* must) {
    return fail(ErrorCode::kInvalid, fmt::format("the pod's required node affinity: {} must be {}", field, must));
  };
  if (!required.is_object()) return refused(kRequired, "an object");
  Json& terms = required["nodeSelectorTerms"];
  if (terms.is_null() || terms.empty()) terms = Json::array({Json::object()});
  if (!terms.is_array()) return refused("nodeSelectorTerms", "an array");
  for (Json& term : terms) {
    if (!term.is_object()) return refused("nodeSelectorTerms", "an array of objects");
    Json& fields = term["matchFields"];
    if (!fields.is_null() && !fields.is_array()) return refused("matchFields", "an array");
    fields.push_back(is_node(node));
  }
  return required;
}

// After the template, which could replace the lists.
Status give_node(Json& pod, const PodToCreate& wanted) {
  pod["metadata"]["annotations"][api::kAnnotationNode] = wanted.node;
  Json& spec = pod["spec"];
  Json* at = &spec;
  // For the patch of a gated pod too: it can add to what is there alone.
  for (const char* name : {"affinity", "nodeAffinity"}) {
    at = &(*at)[name];
    if (at->is_null()) *at = Json::object();
    if (!at->is_object()) return fail(ErrorCode::kInvalid, fmt::format("spec.podTemplate: {} must be an object", name));
  }
  if (wanted.gated) {
    spec["schedulingGates"] = Json::array({{{"name", api::kPlacementGate}}});  // the template has none
    return {};
  }
  LOCKSTEP_TRY((*at)[kRequired], pinned(at->value(kRequired, Json::object()), wanted.node));
  return {};
}

// The item of that name, which the template cannot have removed.
Json& named(Json& list, const char* name) {
  return *std::find_if(list.begin(), list.end(),
                       [name](const Json& item) { return api::text_of(api::at(item, "name")) == name; });
}

// Writes what differs between the pods of a job. The template cannot have touched any of it.
void name_pod(Json& pod, const TrainingJob& job, const PodToCreate& wanted) {
  const std::string slot = std::to_string(wanted.slot), incarnation = std::to_string(wanted.incarnation);
  Json &meta = pod["metadata"], &spec = pod["spec"];
  meta["name"] = pod_name(job, wanted.slot, wanted.incarnation);
  meta["labels"][api::kLabelSlot] = slot;
  meta["labels"][api::kLabelIncarnation] = incarnation;
  spec["hostname"] = meta["name"];
  Json& environment = named(spec["containers"], kTrainerContainer)["env"];
  named(environment, rendezvous::kEnvSlot)["value"] = slot;
  named(environment, rendezvous::kEnvIncarnation)["value"] = incarnation;
}

Json test(const std::string& path, Json value) {
  return {{"op", "test"}, {"path", path}, {"value", std::move(value)}};
}

// Escapes the slash of the key.
const std::string kNodePath =
    (Json::json_pointer("/metadata/annotations") / std::string(api::kAnnotationNode)).to_string();

}  // namespace

std::string trust_label(const std::string& fingerprint) {
  return "lockstep.dev/trusts-" + fingerprint;
}

std::string pod_name(const TrainingJob& job, int slot, std::int64_t incarnation) {
  std::string uid;
  for (const char c : job.meta.uid) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) uid += static_cast<char>(std::tolower(c));
    if (uid.size() == 4) break;
  }
  const std::string rest = fmt::format("-{}-{}-{}", uid.empty() ? "0000" : uid, slot, incarnation);
  return job.meta.name.substr(0, kMaxLabel - rest.size()) + rest;
}

std::string service_name(const TrainingJob& job) {
  return job.meta.name;
}

std::string pod_selector(const TrainingJob& job) {
  return std::string(api::kLabelJobUid) + "=" + job.meta.uid;
}

api::OwnerReference owner_reference(const TrainingJob& job) {
  return {std::string(api::kGroup) + "/" + api::kVersion, "TrainingJob", job.meta.name, job.meta.uid, true};
}

Json build_service(const TrainingJob& job) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", metadata(job, service_name(job))},
      {"spec",
       {{"clusterIP", "None"}, {"publishNotReadyAddresses", true}, {"selector", {{api::kLabelJobUid, job.meta.uid}}}}}};
}

Result<PodMaker> PodMaker::of(const TrainingJob& job, AgentSettings settings) {
  const TrainingJobSpec& spec = job.spec;
  LOCKSTEP_TRY(Json trainer, trainer_container(job, settings));
  Json meta = metadata(job, kOfEachPod);
  for (const char* label : {api::kLabelSlot, api::kLabelIncarnation}) meta["labels"][label] = kOfEachPod;
  for (const std::string& fingerprint : settings.trusts) meta["labels"][trust_label(fingerprint)] = "";
  meta["annotations"] = {{"kubectl.kubernetes.io/default-container", kTrainerContainer}};
  Json security{{"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (settings.run_as_non_root) security["runAsNonRoot"] = true;
  Json pod_spec{{"restartPolicy", "Never"},
                {"hostname", kOfEachPod},
                {"subdomain", service_name(job)},
                {"automountServiceAccountToken", false},
                {"enableServiceLinks", false},
                {"terminationGracePeriodSeconds", spec.checkpoint.grace_period_seconds},
                {"securityContext", std::move(security)},
                {"initContainers", Json::array({agent_container(spec, settings)})},
                {"containers", Json::array({std::move(trainer)})},
                {"volumes", volumes(spec)}};
  if (!spec.image_pull_secrets.empty()) pod_spec["imagePullSecrets"] = spec.image_pull_secrets;
  const api::SchedulingSpec& scheduling = spec.scheduling;
  if (!scheduling.priority_class_name.empty()) pod_spec["priorityClassName"] = scheduling.priority_class_name;
  if (!scheduling.scheduler_name.empty()) pod_spec["schedulerName"] = scheduling.scheduler_name;
  const Json generated{
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", std::move(meta)}, {"spec", std::move(pod_spec)}};
  LOCKSTEP_TRY(Json pod, apply_pod_template(generated, spec));
  tolerate_gpu_taint(pod["spec"], spec);
  return PodMaker(job, std::move(settings), std::move(pod));
}

Result<Json> PodMaker::pod(const PodToCreate& wanted) const {
  Json pod = shared_;
  name_pod(pod, job_, wanted);
  if (wanted.node.empty()) {
    prefer_other_nodes(pod["spec"], wanted.avoid_nodes);
  } else {
    LOCKSTEP_CHECK_OK(give_node(pod, wanted));
  }
  return pod;
}

Result<Json> build_pod(const TrainingJob& job, const PodToCreate& wanted, const AgentSettings& settings) {
  LOCKSTEP_TRY(const PodMaker maker, PodMaker::of(job, settings));
  return maker.pod(wanted);
}

Result<Json> open_pod(const PodToOpen& opening, const Json* live) {
  const std::string gate = fmt::format("/spec/schedulingGates/{}", opening.gate);
  const std::string affinity = std::string("/spec/affinity/nodeAffinity/") + kRequired;
  Json patch = Json::array(
      {test("/metadata/uid", opening.uid), test(gate + "/name", api::kPlacementGate), test(kNodePath, opening.node)});
  Json required = Json::object();
  if (live != nullptr) {
    const Json::json_pointer at(affinity);
    if (live->contains(at)) required = live->at(at);
    patch.push_back(test(affinity, required));
  }
  LOCKSTEP_TRY(required, pinned(std::move(required), opening.node));
  patch.push_back({{"op", "add"}, {"path", affinity}, {"value", std::move(required)}});
  patch.push_back({{"op", "remove"}, {"path", gate}});
  return patch;
}

Json move_pod(const PodToMove& move) {
  return Json::array({test("/metadata/uid", move.uid), test(kNodePath, move.from),
                      Json{{"op", "replace"}, {"path", kNodePath}, {"value", move.to}}});
}

Status check_pod_template(const TrainingJob& job) {
  auto pod = build_pod(job, {.slot = 0, .incarnation = 1}, {.image = "agent", .coordinator_address = "127.0.0.1:1"});
  if (!pod) return pod.error();
  return {};
}

}  // namespace lockstep::job
