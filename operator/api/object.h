// The fields that every Kubernetes object has: metadata, owner references, conditions. Plain data; JSON in object.cpp.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::api {

using Json = nlohmann::json;
using Labels = std::map<std::string, std::string>;

// Group of our API, prefix of our labels and annotations.
inline constexpr const char* kGroup = "lockstep.dev";
inline constexpr const char* kVersion = "v1alpha1";

inline constexpr const char* kLabelJob = "lockstep.dev/job";                  // name of the TrainingJob
inline constexpr const char* kLabelJobUid = "lockstep.dev/job-uid";           // its uid
inline constexpr const char* kLabelSlot = "lockstep.dev/slot";                // place in the gang, from 0
inline constexpr const char* kLabelIncarnation = "lockstep.dev/incarnation";  // the job's counter at its creation

inline constexpr const char* kAnnotationNode = "lockstep.dev/node";      // the node that placement gave to a pod
inline constexpr const char* kPlacementGate = "lockstep.dev/placement";  // removed when the gang has its nodes

// A namespaced name; the work queue carries these.
struct ObjectKey {
  std::string name_space;
  std::string name;

  auto operator<=>(const ObjectKey&) const = default;
  std::string text() const { return name_space + "/" + name; }
};

struct OwnerReference {
  std::string api_version, kind, name, uid;
  bool controller = false;

  bool operator==(const OwnerReference&) const = default;
};

struct ObjectMeta {
  std::string name;
  std::string name_space;
  std::string uid;
  std::string resource_version;
  std::int64_t generation = 0;
  Labels labels;
  Labels annotations;
  std::vector<OwnerReference> owners;
  std::optional<WallTime> created;
  std::optional<WallTime> deleted;  // deletionTimestamp: if set, the object is being deleted

  ObjectKey key() const { return {name_space, name}; }
  // The uid of the controlling owner, or "".
  std::string controller_uid() const;
  const std::string& label(const std::string& key) const;  // "" if there is none

  bool operator==(const ObjectMeta&) const = default;
};

// metav1.Condition. `status` is "True", "False" or "Unknown".
struct Condition {
  std::string type;
  std::string status;
  std::string reason;   // CamelCase, never empty
  std::string message;  // one sentence for people
  std::int64_t observed_generation = 0;
  std::optional<WallTime> last_transition;

  bool operator==(const Condition&) const = default;
};

// Reads `metadata` of any object. Missing fields keep their defaults; a wrong type is kInvalid and names the field.
Result<ObjectMeta> parse_meta(const Json& object);
Json to_json(const OwnerReference& owner);

Json to_json(const Condition& condition);
Result<Condition> parse_condition(const Json& json);
// Sets the condition of that type; `last_transition` moves to `now` only when the status flips (metav1 rules).
void set_condition(std::vector<Condition>& conditions, Condition condition, WallTime now);
const Condition* find_condition(const std::vector<Condition>& conditions, std::string_view type);
bool is_true(const std::vector<Condition>& conditions, std::string_view type);

// Orders resourceVersions of one resource (KEP-5504): well-formed decimals, longer is greater, else lexicographic.
// kInvalid if one of the two is not a decimal number.
Result<std::strong_ordering> compare_resource_versions(std::string_view a, std::string_view b);

}  // namespace lockstep::api
