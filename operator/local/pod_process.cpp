#include "operator/local/pod_process.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace lockstep::local {
namespace {

using Json = nlohmann::json;
using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kAgentInPod = "/lockstep/lockstep-agent";

const Json& at(const Json& object, const char* key) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto& fields = object.get_ref<const Json::object_t&>();
  const auto found = fields.find(key);
  return found == fields.end() ? nothing : found->second;
}

std::string text(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

std::vector<Json> items(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_array() ? value.get<std::vector<Json>>() : std::vector<Json>();
}

Error refused(const std::string& what) {
  return fail(ErrorCode::kInvalid, what + " without a cluster: remove it from the job file for `lockstep run`");
}

void set(Variables& variables, const std::string& name, std::string value) {
  for (auto& [known, old] : variables) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

Result<std::string> downward(const Json& pod, const Machine& machine, const std::string& variable,
                             const std::string& path) {
  const Json& meta = at(pod, "metadata");
  if (path == "metadata.name") return text(meta, "name");
  if (path == "metadata.namespace") return text(meta, "namespace");
  if (path == "metadata.uid") return text(meta, "uid");
  if (path == "spec.nodeName") return machine.node_name;
  if (path == "spec.serviceAccountName") return std::string("default");
  if (path == "status.podIP" || path == "status.podIPs" || path == "status.hostIP" || path == "status.hostIPs") {
    return machine.address;
  }
  for (const char* field : {"labels", "annotations"}) {
    const std::string start = std::string("metadata.") + field + "['";
    if (path.starts_with(start) && path.ends_with("']")) {
      return text(at(meta, field), path.substr(start.size(), path.size() - start.size() - 2).c_str());
    }
  }
  return refused("the variable " + variable + " takes its value from the field " + path + ", which is not known");
}

Result<Variables> container_environment(const Json& pod, const Json& container, const Machine& machine) {
  Variables variables;
  if (!items(container, "envFrom").empty()) {
    return refused("spec.envFrom takes variables from a ConfigMap or a Secret, which is not there");
  }
  for (const Json& entry : items(container, "env")) {
    const std::string name = text(entry, "name");
    const Json& from = at(entry, "valueFrom");
    if (from.is_null()) {
      set(variables, name, expand(text(entry, "value"), variables));
    } else if (const Json& field = at(from, "fieldRef"); field.is_object()) {
      LOCKSTEP_TRY(std::string value, downward(pod, machine, name, text(field, "fieldPath")));
      set(variables, name, std::move(value));
    } else {
      for (const char* kind : {"configMapKeyRef", "secretKeyRef"}) {
        if (at(at(from, kind), "optional") == true) continue;
        if (at(from, kind).is_object()) {
          return refused("the variable " + name + " takes its value from a " +
                         (kind[0] == 'c' ? "ConfigMap" : "Secret") + ", which is not there");
        }
      }
      if (at(from, "resourceFieldRef").is_object()) {
        return refused("the variable " + name + " takes its value from resources, which are not applied");
      }
    }
  }
  return variables;
}

// The volume's folder on this machine; "" for those that the machine has by itself.
Result<std::string> folder_of(const Json& volume, const Json& pod, const Machine& machine) {
  const std::string name = text(volume, "name");
  if (volume.contains("emptyDir")) return machine.folder + "/volumes/" + text(at(pod, "metadata"), "name") + "/" + name;
  if (volume.contains("persistentVolumeClaim")) {
    return machine.folder + "/claims/" + text(volume["persistentVolumeClaim"], "claimName");
  }
  if (volume.contains("hostPath")) return text(volume["hostPath"], "path");
  std::string kind = "of that kind";
  for (const auto& [key, value] : volume.items()) {
    if (key != "name") kind = key;
  }
  return refused("the volume \"" + name + "\" (" + kind + ") cannot be given");
}

bool is_token(const Json& volume) {
  const auto sources = items(at(volume, "projected"), "sources");
  return std::any_of(sources.begin(), sources.end(),
                     [](const Json& source) { return at(source, "serviceAccountToken").is_object(); });
}

std::string token_path(const Json& volume) {
  for (const Json& source : items(at(volume, "projected"), "sources")) {
    const std::string path = text(at(source, "serviceAccountToken"), "path");
    if (!path.empty()) return path;
  }
  return "token";
}

Status add_volumes(PodProcess& result, Variables& variables, const Json& pod, const Json& container,
                   const Machine& machine) {
  std::map<std::string, Json> volumes;
  for (const Json& volume : items(at(pod, "spec"), "volumes")) volumes[text(volume, "name")] = volume;
  const std::string pod_name = text(at(pod, "metadata"), "name");
  for (const Json& mount : items(container, "volumeMounts")) {
    const std::string target = text(mount, "mountPath");
    const auto found = volumes.find(text(mount, "name"));
    if (found == volumes.end()) {
      return fail(ErrorCode::kInvalid, "spec.volumeMounts names the volume \"" + text(mount, "name") +
                                           "\", which spec.volumes does not have");
    }
    const Json& volume = found->second;
    // The machine has the agent and shared memory already.
    if (target == "/lockstep" || target == "/dev/shm") continue;
    if (is_token(volume)) {
      const std::string folder = machine.folder + "/tokens/" + pod_name;
      result.folders.push_back(folder);
      result.token_file = folder + "/" + token_path(volume);
      for (auto& [name, value] : variables) {
        if (value.starts_with(target + "/")) value = folder + value.substr(target.size());
      }
      continue;
    }
    LOCKSTEP_TRY(std::string folder, folder_of(volume, pod, machine));
    if (const std::string sub = text(mount, "subPath"); !sub.empty()) folder += "/" + sub;
    if (folder.find("/../") != std::string::npos || folder.ends_with("/..")) {
      return fail(ErrorCode::kInvalid, "the volume mounted at " + target + " must not have \"..\" in its path");
    }
    if (volume.contains("hostPath")) {
      if (!std::filesystem::exists(folder)) {
        return fail(ErrorCode::kNotFound,
                    "the volume \"" + found->first + "\" needs " + folder + ", which this " + "machine does not have");
      }
    } else {
      result.folders.push_back(folder);
    }
    result.process.mounts.push_back({folder, target, at(mount, "readOnly") == true});
  }
  if (!result.process.mounts.empty()) {
    result.process.scratch = machine.folder + "/roots/" + pod_name;
    result.folders.push_back(result.process.scratch);
  }
  return {};
}

// Entries of the machine first, those of the pod over them; the program folders in front of PATH.
std::vector<std::string> merged_environment(const Machine& machine, const Variables& variables) {
  Variables all;
  for (const std::string& entry : machine.environment) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) set(all, entry.substr(0, equals), entry.substr(equals + 1));
  }
  for (const auto& [name, value] : variables) set(all, name, value);
  std::string path;
  for (const std::string& folder : machine.program_folders) path += folder + ":";
  const auto known = std::find_if(all.begin(), all.end(), [](const auto& entry) { return entry.first == "PATH"; });
  set(all, "PATH", path + (known == all.end() ? "/usr/local/bin:/usr/bin:/bin" : known->second));
  std::vector<std::string> result;
  for (const auto& [name, value] : all) result.push_back(name + "=" + value);
  return result;
}

}  // namespace

std::string expand(const std::string& given, const Variables& environment) {
  std::string result;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != '$' || i + 1 == given.size()) {
      result += given[i];
      continue;
    }
    const auto close = given.find(')', i);
    if (given[i + 1] == '$') {
      result += '$';
      ++i;
    } else if (given[i + 1] == '(' && close != std::string::npos) {
      const std::string name = given.substr(i + 2, close - i - 2);
      const auto found =
          std::find_if(environment.begin(), environment.end(), [&](const auto& entry) { return entry.first == name; });
      result += found == environment.end() ? given.substr(i, close - i + 1) : found->second;
      i = close;
    } else {
      result += '$';
    }
  }
  return result;
}

Result<PodProcess> make_pod_process(const Json& pod, const Machine& machine) {
  const std::vector<Json> containers = items(at(pod, "spec"), "containers");
  if (containers.size() != 1) {
    return refused("a pod with " + std::to_string(containers.size()) + " containers cannot be started");
  }
  const Json& container = containers[0];
  PodProcess result;
  result.container = text(container, "name");
  result.image = text(container, "image");
  LOCKSTEP_TRY(Variables variables, container_environment(pod, container, machine));
  const Variables as_in_a_pod = variables;
  LOCKSTEP_CHECK_OK(add_volumes(result, variables, pod, container, machine));
  for (const char* field : {"command", "args"}) {
    for (const Json& word : items(container, field)) {
      if (word.is_string()) result.process.argv.push_back(expand(word.get<std::string>(), as_in_a_pod));
    }
  }
  std::vector<std::string>& argv = result.process.argv;
  if (argv.empty()) return fail(ErrorCode::kInvalid, "spec.command is empty, and `lockstep run` uses no image");
  if (argv[0] == kAgentInPod) {
    if (machine.agent.empty()) {
      return fail(ErrorCode::kNotFound, "lockstep-agent was found neither beside lockstep nor in PATH");
    }
    argv[0] = machine.agent;
    // The image's path of a program need not exist on this machine: its name is looked up instead.
    const auto separator = std::find(argv.begin(), argv.end(), "--");
    if (separator != argv.end() && separator + 1 != argv.end() && (separator + 1)->find('/') != std::string::npos &&
        !find_program(*(separator + 1), {})) {
      const std::string name = std::filesystem::path(*(separator + 1)).filename();
      if (const auto found = find_program(name, machine.program_folders)) *(separator + 1) = *found;
    }
  }
  const auto program = find_program(argv[0], machine.program_folders);
  if (!program) {
    return fail(ErrorCode::kNotFound, "the command \"" + argv[0] + "\" was found neither beside lockstep nor in PATH");
  }
  result.process.program = *program;
  result.process.working_dir = text(container, "workingDir");
  result.process.environment = merged_environment(machine, variables);
  return result;
}

}  // namespace lockstep::local
