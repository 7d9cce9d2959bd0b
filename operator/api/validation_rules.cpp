#include "operator/api/validation_rules.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "operator/api/lookup.h"
#include "operator/api/quantity.h"
#include "operator/api/reserved_names.h"

namespace lockstep::api {
namespace {

using Json = nlohmann::json;

bool has(const Json& object, const char* key) {
  return !at(object, key).is_null();
}

std::int64_t number(const Json& value) {
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

bool starts_with(const std::string& text, std::string_view prefix) {
  return text.rfind(prefix, 0) == 0;
}

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return is_lower(c) || (c >= 'A' && c <= 'Z');
}

// Lower-case letters, digits and '-', with a letter or digit at both ends.
bool is_dns_label(const std::string& name) {
  const auto inner = [](char c) { return is_lower(c) || is_digit(c) || c == '-'; };
  return !name.empty() && name.front() != '-' && name.back() != '-' && std::all_of(name.begin(), name.end(), inner);
}

// The same with '.'.
bool is_object_name(const std::string& name) {
  const auto inner = [](char c) { return is_lower(c) || is_digit(c) || c == '-' || c == '.'; };
  const auto end = [](char c) { return is_lower(c) || is_digit(c); };
  return !name.empty() && end(name.front()) && end(name.back()) && std::all_of(name.begin(), name.end(), inner);
}

// [a-zA-Z_] and `more` at the start, digits too after it.
bool is_name(const std::string& name, std::string_view more) {
  const auto inner = [&](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || more.find(c) != std::string_view::npos;
  };
  return !name.empty() && !is_digit(name.front()) && std::all_of(name.begin(), name.end(), inner);
}

// A domain, '/', and a name: nvidia.com/gpu.
bool is_resource_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return false;
  const std::string domain = name.substr(0, slash), rest = name.substr(slash + 1);
  const auto ends = [](const std::string& part, auto allowed) {
    return !part.empty() && allowed(part.front()) && allowed(part.back());
  };
  const auto low = [](char c) { return is_lower(c) || is_digit(c); };
  const auto any = [](char c) { return is_letter(c) || is_digit(c); };
  return ends(domain, low) && ends(rest, any) &&
         std::all_of(domain.begin(), domain.end(), [&](char c) { return low(c) || c == '-' || c == '.'; }) &&
         std::all_of(rest.begin(), rest.end(), [&](char c) { return any(c) || c == '-' || c == '_' || c == '.'; });
}

enum class AtLeast { kZero, kMoreThanZero };

bool is_amount(const Json& self, AtLeast least) {
  if (self.is_number_integer()) return number(self) > (least == AtLeast::kZero ? -1 : 0);
  if (!self.is_string()) return true;
  const auto quantity = Quantity::parse(text_of(self));
  return quantity && !quantity->is_negative() && (least == AtLeast::kZero || !quantity->is_zero());
}

bool known_resources(const Json& self) {
  for (const auto& [name, amount] : self.items()) {
    if (name != "cpu" && name != "memory" && name != "ephemeral-storage" && !starts_with(name, "hugepages-") &&
        name.find('/') == std::string::npos) {
      return false;
    }
  }
  return true;
}

bool no_gpu_in(const Json& spec, const char* part) {
  return !at(at(spec, "resources"), part).contains(text_of(at(spec, "gpuResourceName")));
}

bool rank_variables_are_free(const Json& spec) {
  const Json& env = at(spec, "env");
  if (text_of(at(at(spec, "rendezvous"), "kind")) == "None" || !env.is_array()) return true;
  return std::none_of(env.begin(), env.end(), [](const Json& e) { return is_rank_variable(text_of(at(e, "name"))); });
}

bool mounts_are_of_known_volumes(const Json& spec) {
  const Json &mounts = at(spec, "volumeMounts"), &volumes = at(spec, "volumes");
  if (!mounts.is_array() || has(spec, "podTemplate")) return true;
  return std::all_of(mounts.begin(), mounts.end(), [&](const Json& mount) {
    return volumes.is_array() && std::any_of(volumes.begin(), volumes.end(), [&](const Json& volume) {
             return at(volume, "name") == at(mount, "name");
           });
  });
}

bool mounts(const Json& spec, const Json& path) {
  const Json& list = at(spec, "volumeMounts");
  return list.is_array() &&
         std::any_of(list.begin(), list.end(), [&](const Json& mount) { return at(mount, "mountPath") == path; });
}

bool all_keys(const Json& map, bool (*good)(const std::string& key)) {
  if (!map.is_object()) return true;
  return std::all_of(map.items().begin(), map.items().end(), [&](const auto& item) { return good(item.key()); });
}

// A rule about texts holds for everything that is none.
template <bool (*good)(const std::string&)>
bool string_rule(const Json& self) {
  return !self.is_string() || good(self.get_ref<const std::string&>());
}

bool is_job_name(const std::string& name) {
  return is_dns_label(name) && !is_digit(name.front());
}
bool is_image(const std::string& image) {
  return !image.empty() && image.find_first_of(" \t\r\n") == std::string::npos;
}
bool is_variable(const std::string& name) {
  return is_name(name, "-.");
}
bool is_foreign_variable(const std::string& name) {
  return !is_own_variable(name);
}
bool is_absolute_or_empty(const std::string& path) {
  return path.empty() || path.front() == '/';
}
bool is_foreign_volume(const std::string& name) {
  return !is_reserved_volume(name);
}
bool is_mount_path(const std::string& path) {
  return starts_with(path, "/") && path.find(':') == std::string::npos;
}
bool is_foreign_path(const std::string& path) {
  return !is_reserved_path(path);
}
bool is_checkpoint_path(const std::string& path) {
  return is_mount_path(path) && path.size() > 1;
}

std::vector<ValidationRule> make_rules() {
  return {
      {"",
       "metadata.name must start with a lower-case letter and hold only lower-case letters, digits and '-', because it "
       "becomes the DNS name of the job's Service",
       "metadata.name", [](const Json& self) { return string_rule<is_job_name>(at(at(self, "metadata"), "name")); }},
      {"", "metadata.name must be at most 40 characters long, because the names of the job's pods are made from it",
       "metadata.name", [](const Json& self) { return text_of(at(at(self, "metadata"), "name")).size() <= 40; }},

      {"spec", "procsPerNode must divide gpusPerNode, so that every process has the same number of GPUs",
       "procsPerNode",
       [](const Json& self) {
         const std::int64_t gpus = number(at(self, "gpusPerNode")), procs = number(at(self, "procsPerNode"));
         return gpus <= 0 || procs <= 0 || gpus % procs == 0;
       }},
      {"spec", "elastic.minNodes must not be greater than nodes", "elastic.minNodes",
       [](const Json& self) {
         const Json &least = at(at(self, "elastic"), "minNodes"), &most = at(self, "nodes");
         return !least.is_number_integer() || !most.is_number_integer() || number(least) <= number(most);
       }},
      {"spec", "nodes must not be greater than elastic.maxNodes", "nodes",
       [](const Json& self) {
         const Json &most = at(at(self, "elastic"), "maxNodes"), &wanted = at(self, "nodes");
         return !most.is_number_integer() || !wanted.is_number_integer() || number(wanted) <= number(most);
       }},
      {"spec", "elastic contradicts restart.strategy Gang, which recreates all pods after a failure", "elastic",
       [](const Json& self) { return !self.contains("elastic") || at(at(self, "restart"), "strategy") != "Gang"; }},
      {"spec", "spares contradict restart.strategy Gang, which recreates all pods after a failure", "spares",
       [](const Json& self) {
         return number(at(at(self, "spares"), "nodes")) <= 0 || at(at(self, "restart"), "strategy") != "Gang";
       }},
      {"spec", "placement needs scheduling.backend Lockstep, because with None kube-scheduler chooses the nodes",
       "placement",
       [](const Json& self) { return !has(self, "placement") || at(at(self, "scheduling"), "backend") != "None"; }},
      {"spec", "resources.limits must not name gpuResourceName, because gpusPerNode says how many GPUs a pod gets",
       "resources.limits", [](const Json& self) { return no_gpu_in(self, "limits"); }},
      {"spec", "resources.requests must not name gpuResourceName, because gpusPerNode says how many GPUs a pod gets",
       "resources.requests", [](const Json& self) { return no_gpu_in(self, "requests"); }},
      {"spec",
       "env must not set RANK, WORLD_SIZE, MASTER_ADDR or another variable of the rendezvous, because Lockstep sets "
       "them for each process",
       "env", rank_variables_are_free},
      {"spec", "volumeMounts must name volumes of spec.volumes (or of podTemplate, where there is one)", "volumeMounts",
       mounts_are_of_known_volumes},
      {"spec", "volumeMounts must not mount /dev/shm where shmSize is set, because shmSize mounts it", "volumeMounts",
       [](const Json& self) { return !has(self, "shmSize") || !mounts(self, "/dev/shm"); }},
      {"spec", "checkpoint.path is needed where checkpoint.claimName is set, because the claim is mounted there",
       "checkpoint.path",
       [](const Json& self) {
         const Json& checkpoint = at(self, "checkpoint");
         return !has(checkpoint, "claimName") || has(checkpoint, "path");
       }},
      {"spec",
       "volumeMounts must not mount checkpoint.path where checkpoint.claimName is set, because the claim is mounted "
       "there",
       "volumeMounts",
       [](const Json& self) {
         const Json& checkpoint = at(self, "checkpoint");
         return !has(checkpoint, "claimName") || !has(checkpoint, "path") || !mounts(self, at(checkpoint, "path"));
       }},

      {"spec.image", "image must name a container image, such as ghcr.io/lockstep/trainer:0.1", "",
       string_rule<is_image>},
      {"spec.command", "command must begin with the program to start, because the image's entrypoint is not used", "",
       [](const Json& self) { return !self.is_array() || (!self.empty() && self[0] != ""); }},
      {"spec.env[]", "value and valueFrom contradict each other; give one of them", "",
       [](const Json& self) { return text_of(at(self, "value")).empty() || !has(self, "valueFrom"); }},
      {"spec.env[].name",
       "the name of a variable must hold only letters, digits, '_', '-' and '.', and not start with a digit", "",
       string_rule<is_variable>},
      {"spec.env[].name", "names that start with LOCKSTEP_ are set by Lockstep", "", string_rule<is_foreign_variable>},
      {"spec.env[].valueFrom",
       "valueFrom must have exactly one of fieldRef, resourceFieldRef, secretKeyRef and configMapKeyRef", "",
       [](const Json& self) {
         return !self.is_object() || has(self, "fieldRef") + has(self, "resourceFieldRef") + has(self, "secretKeyRef") +
                                             has(self, "configMapKeyRef") ==
                                         1;
       }},
      {"spec.envFrom[]", "an entry of envFrom must have exactly one of configMapRef and secretRef", "",
       [](const Json& self) { return !self.is_object() || has(self, "configMapRef") != has(self, "secretRef"); }},
      {"spec.workingDir", "workingDir must be an absolute path", "", string_rule<is_absolute_or_empty>},
      {"spec.gpuResourceName", "gpuResourceName must be a name with a domain, such as nvidia.com/gpu", "",
       string_rule<is_resource_name>},
      {"spec.resources.limits",
       "the name of a resource must be cpu, memory, ephemeral-storage or hugepages-<size>, or have a domain, such as "
       "nvidia.com/gpu",
       "", known_resources},
      {"spec.resources.requests",
       "the name of a resource must be cpu, memory, ephemeral-storage or hugepages-<size>, or have a domain, such as "
       "nvidia.com/gpu",
       "", known_resources},
      {"spec.resources.limits{}", "the amount must be a quantity that is not negative, such as 2, 500m or 16Gi", "",
       [](const Json& self) { return is_amount(self, AtLeast::kZero); }},
      {"spec.resources.requests{}", "the amount must be a quantity that is not negative, such as 2, 500m or 16Gi", "",
       [](const Json& self) { return is_amount(self, AtLeast::kZero); }},
      {"spec.volumes[].name",
       "the name of a volume must hold only lower-case letters, digits and '-', and begin and end with a letter or "
       "digit",
       "", string_rule<is_dns_label>},
      {"spec.volumes[].name", "the volume names lockstep and lockstep-... belong to Lockstep", "",
       string_rule<is_foreign_volume>},
      {"spec.volumeMounts[].mountPath", "mountPath must be an absolute path without ':'", "",
       string_rule<is_mount_path>},
      {"spec.volumeMounts[].mountPath",
       "mountPath must not be in /lockstep or /var/run/secrets/lockstep, which belong to Lockstep", "",
       string_rule<is_foreign_path>},
      {"spec.shmSize", "shmSize must be a quantity greater than zero, such as 64Mi or 16Gi", "",
       [](const Json& self) { return is_amount(self, AtLeast::kMoreThanZero); }},

      {"spec.rendezvous", "rendezvous.port has no meaning with rendezvous.kind None", "port",
       [](const Json& self) { return text_of(at(self, "kind")) != "None" || number(at(self, "port")) == 0; }},
      {"spec.rendezvous",
       "names in rendezvous.env must hold only letters, digits and '_', not start with a digit, and not start with "
       "LOCKSTEP_",
       "env",
       [](const Json& self) {
         return all_keys(at(self, "env"),
                         [](const std::string& key) { return is_name(key, "") && !is_own_variable(key); });
       }},
      {"spec.rendezvous",
       "rendezvous.env must not set RANK, WORLD_SIZE, MASTER_ADDR or another variable of the rendezvous, because "
       "Lockstep sets them for each process",
       "env",
       [](const Json& self) {
         return text_of(at(self, "kind")) == "None" ||
                all_keys(at(self, "env"), [](const std::string& key) { return !is_rank_variable(key); });
       }},
      {"spec.rendezvous.port", "rendezvous.port must be 0 (a fresh one for each generation) or from 1024 to 65535", "",
       [](const Json& self) { return !self.is_number_integer() || number(self) <= 0 || number(self) >= 1024; }},

      {"spec.placement", "placement.preferredWaitSeconds needs placement.preferred, which names the level to wait for",
       "preferredWaitSeconds",
       [](const Json& self) { return !has(self, "preferredWaitSeconds") || has(self, "preferred"); }},
      {"spec.placement.required",
       "placement.required must be the name of a level, such as rack or node, not the key of a label", "",
       string_rule<is_dns_label>},
      {"spec.placement.preferred",
       "placement.preferred must be the name of a level, such as rack or node, not the key of a label", "",
       string_rule<is_dns_label>},
      {"spec.scheduling.priorityClassName",
       "scheduling.priorityClassName must hold only lower-case letters, digits, '-' and '.', and begin and end with a "
       "letter or digit",
       "", string_rule<is_object_name>},
      {"spec.scheduling.schedulerName",
       "scheduling.schedulerName must hold only lower-case letters, digits, '-' and '.', and begin and end with a "
       "letter or digit",
       "", string_rule<is_object_name>},

      {"spec.restart.backoff", "backoff.initialSeconds must not be greater than backoff.maxSeconds", "initialSeconds",
       [](const Json& self) {
         const Json &first = at(self, "initialSeconds"), &last = at(self, "maxSeconds");
         return !first.is_number_integer() || !last.is_number_integer() || number(first) <= number(last);
       }},
      {"spec.restart.rules[]", "countsTowardsMax cannot be false with action Fail, because no restart follows",
       "countsTowardsMax",
       [](const Json& self) { return at(self, "action") != "Fail" || at(self, "countsTowardsMax") != false; }},
      {"spec.checkpoint.path", "checkpoint.path must be an absolute path below / and without ':'", "",
       string_rule<is_checkpoint_path>},
      {"spec.checkpoint.path",
       "checkpoint.path must not be in /lockstep or /var/run/secrets/lockstep, which belong to Lockstep", "",
       string_rule<is_foreign_path>},
  };
}

}  // namespace

const std::vector<ValidationRule>& validation_rules() {
  static const std::vector<ValidationRule> rules = make_rules();
  return rules;
}

}  // namespace lockstep::api
