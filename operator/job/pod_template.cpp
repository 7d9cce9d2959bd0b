#include "operator/job/pod_template.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "operator/api/lookup.h"
#include "operator/api/reserved_names.h"
#include "operator/job/children.h"
#include "operator/job/strategic_merge.h"

namespace lockstep::job {
namespace {

using Json = nlohmann::json;
using api::at;

std::string text(const Json& object, const char* key) {
  return api::text_of(at(object, key));
}

const Json& named(const Json& list, const char* key, const std::string& name) {
  static const Json none;
  for (const Json& item : list) {
    if (item.is_object() && text(item, key) == name) return item;
  }
  return none;
}

Error owned(const std::string& place, const std::string& instead = "") {
  return fail(ErrorCode::kInvalid,
              "spec.podTemplate." + place + " belongs to Lockstep and cannot be patched" + instead);
}

// A field of a pod that must come out of the merge as it went in, and the field of the job to use instead.
struct OwnedField {
  const char* name;
  const char* instead;
};

constexpr std::array<OwnedField, 5> kPodFields{{
    {"restartPolicy", ""},
    {"hostname", ""},
    {"subdomain", ""},
    {"terminationGracePeriodSeconds", "; set spec.checkpoint.gracePeriodSeconds"},
    {"schedulingGates", ""},
}};
// Of the pod, owned where the job's own field is set.
constexpr std::array<OwnedField, 2> kSetPodFields{{
    {"priorityClassName", "; change spec.scheduling.priorityClassName"},
    {"schedulerName", "; change spec.scheduling.schedulerName"},
}};
constexpr std::array<OwnedField, 4> kTrainerFields{{
    {"image", "; set spec.image"},
    {"command", "; set spec.command"},
    {"args", "; set spec.args"},
    {"restartPolicy", ""},
}};
constexpr std::array<OwnedField, 6> kAgentFields{
    {{"image", ""}, {"command", ""}, {"args", ""}, {"env", ""}, {"volumeMounts", ""}, {"restartPolicy", ""}}};

template <size_t n>
Status same_fields(const Json& before, const Json& after, const std::array<OwnedField, n>& fields,
                   const std::string& place) {
  for (const OwnedField& field : fields) {
    if (at(before, field.name) != at(after, field.name)) return owned(place + "." + field.name, field.instead);
  }
  return {};
}

Status check_metadata(const Json& before, const Json& after) {
  for (const auto& [key, value] : after.items()) {
    if (key != "labels" && key != "annotations" && at(before, key) != value) return owned("metadata." + key);
  }
  for (const auto& [key, value] : before.items()) {
    if (key != "labels" && key != "annotations" && !after.contains(key)) return owned("metadata." + key);
  }
  for (const auto& [key, value] : at(before, "labels").items()) {
    if (at(at(after, "labels"), key) != value) return owned("metadata.labels[" + key + "]");
  }
  for (const auto& [key, value] : at(after, "labels").items()) {
    if (key.rfind("lockstep.dev/", 0) == 0 && !at(before, "labels").contains(key)) {
      return owned("metadata.labels[" + key + "]");
    }
  }
  return {};
}

Status check_environment(const Json& before, const Json& after, const api::TrainingJobSpec& spec,
                         const std::string& place) {
  for (const Json& entry : at(before, "env")) {
    const std::string name = text(entry, "name");
    if (api::is_own_variable(name) && named(at(after, "env"), "name", name) != entry) {
      return owned(place + ".env[" + name + "]");
    }
  }
  for (const Json& entry : at(after, "env")) {
    const std::string name = text(entry, "name");
    const bool rank = spec.rendezvous.kind != api::RendezvousKind::kNone && api::is_rank_variable(name);
    const bool own = api::is_own_variable(name) && named(at(before, "env"), "name", name).is_null();
    if (rank || own) return owned(place + ".env[" + name + "]");
  }
  return {};
}

Status check_mounts(const Json& before, const Json& after, const std::string& place) {
  for (const Json& mount : at(before, "volumeMounts")) {
    if (!api::is_reserved_volume(text(mount, "name"))) continue;
    const std::string path = text(mount, "mountPath");
    if (named(at(after, "volumeMounts"), "mountPath", path) != mount) {
      return owned(place + ".volumeMounts[" + path + "]");
    }
  }
  for (const Json& mount : at(after, "volumeMounts")) {
    const std::string path = text(mount, "mountPath");
    if (api::is_reserved_path(path) && named(at(before, "volumeMounts"), "mountPath", path).is_null()) {
      return owned(place + ".volumeMounts[" + path + "]");
    }
  }
  return {};
}

Status check_volumes(const Json& before, const Json& after) {
  for (const Json& volume : at(before, "volumes")) {
    const std::string name = text(volume, "name");
    if (api::is_reserved_volume(name) && named(at(after, "volumes"), "name", name) != volume) {
      return owned("spec.volumes[" + name + "]");
    }
  }
  for (const Json& volume : at(after, "volumes")) {
    const std::string name = text(volume, "name");
    if (api::is_reserved_volume(name) && named(at(before, "volumes"), "name", name).is_null()) {
      return owned("spec.volumes[" + name + "]");
    }
  }
  return {};
}

Status check_owned(const Json& before, const Json& after, const api::TrainingJobSpec& spec) {
  for (const char* key : {"apiVersion", "kind"}) {
    if (at(before, key) != at(after, key)) return owned(key);
  }
  LOCKSTEP_CHECK_OK(check_metadata(at(before, "metadata"), at(after, "metadata")));
  const Json &old_spec = at(before, "spec"), &new_spec = at(after, "spec");
  LOCKSTEP_CHECK_OK(same_fields(old_spec, new_spec, kPodFields, "spec"));
  for (const OwnedField& field : kSetPodFields) {
    const Json& set = at(old_spec, field.name);
    if (!set.is_null() && at(new_spec, field.name) != set) {
      return owned(std::string("spec.") + field.name, field.instead);
    }
  }

  const std::string trainer_place = fmt::format("spec.containers[{}]", kTrainerContainer);
  const Json& old_trainer = named(at(old_spec, "containers"), "name", kTrainerContainer);
  const Json& new_trainer = named(at(new_spec, "containers"), "name", kTrainerContainer);
  if (!new_trainer.is_object()) return owned(trainer_place);
  LOCKSTEP_CHECK_OK(same_fields(old_trainer, new_trainer, kTrainerFields, trainer_place));
  LOCKSTEP_CHECK_OK(check_environment(old_trainer, new_trainer, spec, trainer_place));
  LOCKSTEP_CHECK_OK(check_mounts(old_trainer, new_trainer, trainer_place));

  const std::string agent_place = fmt::format("spec.initContainers[{}]", kAgentContainer);
  const Json& old_agent = named(at(old_spec, "initContainers"), "name", kAgentContainer);
  const Json& new_agent = named(at(new_spec, "initContainers"), "name", kAgentContainer);
  if (!new_agent.is_object()) return owned(agent_place);
  LOCKSTEP_CHECK_OK(same_fields(old_agent, new_agent, kAgentFields, agent_place));
  return check_volumes(old_spec, new_spec);
}

}  // namespace

Result<Json> apply_pod_template(const Json& generated, const api::TrainingJobSpec& spec) {
  if (spec.pod_template.empty()) return generated;
  LOCKSTEP_TRY(Json pod, strategic_merge(generated, spec.pod_template, "spec.podTemplate"));
  LOCKSTEP_CHECK_OK(check_owned(generated, pod, spec));
  return pod;
}

}  // namespace lockstep::job
