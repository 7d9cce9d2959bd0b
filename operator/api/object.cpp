#include "operator/api/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "operator/api/reader.h"
#include "operator/base/timestamp.h"

namespace lockstep::api {
namespace {

bool is_decimal(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::string ObjectMeta::controller_uid() const {
  for (const OwnerReference& owner : owners) {
    if (owner.controller) return owner.uid;
  }
  return "";
}

const std::string& ObjectMeta::label(const std::string& key) const {
  static const std::string none;
  const auto it = labels.find(key);
  return it == labels.end() ? none : it->second;
}

Result<ObjectMeta> parse_meta(const Json& object) {
  std::optional<Error> error;
  ObjectMeta meta;
  const Reader root = Reader(object, "", error).child("metadata");
  root.read("name", meta.name);
  root.read("namespace", meta.name_space);
  root.read("uid", meta.uid);
  root.read("resourceVersion", meta.resource_version);
  root.read("generation", meta.generation);
  root.read("labels", meta.labels);
  root.read("annotations", meta.annotations);
  root.read("creationTimestamp", meta.created);
  root.read("deletionTimestamp", meta.deleted);
  for (const Reader& item : root.children("ownerReferences")) {
    OwnerReference& owner = meta.owners.emplace_back();
    item.read("apiVersion", owner.api_version);
    item.read("kind", owner.kind);
    item.read("name", owner.name);
    item.read("uid", owner.uid);
    item.read("controller", owner.controller);
  }
  if (error) return *error;
  return meta;
}

Json to_json(const OwnerReference& owner) {
  return {{"apiVersion", owner.api_version},
          {"kind", owner.kind},
          {"name", owner.name},
          {"uid", owner.uid},
          {"controller", owner.controller},
          {"blockOwnerDeletion", owner.controller}};
}

Json to_json(const Condition& condition) {
  Json json{{"type", condition.type},
            {"status", condition.status},
            {"reason", condition.reason},
            {"message", condition.message}};
  if (condition.observed_generation != 0) json["observedGeneration"] = condition.observed_generation;
  if (condition.last_transition) json["lastTransitionTime"] = format_timestamp(*condition.last_transition);
  return json;
}

void read_condition(const Reader& item, Condition& condition) {
  item.read("type", condition.type);
  item.read("status", condition.status);
  item.read("reason", condition.reason);
  item.read("message", condition.message);
  item.read("observedGeneration", condition.observed_generation);
  item.read("lastTransitionTime", condition.last_transition);
}

Result<Condition> parse_condition(const Json& json) {
  std::optional<Error> error;
  Condition condition;
  read_condition(Reader(json, "condition", error), condition);
  if (error) return *error;
  return condition;
}

void set_condition(std::vector<Condition>& conditions, Condition condition, WallTime now) {
  for (Condition& old : conditions) {
    if (old.type != condition.type) continue;
    const bool flips = old.status != condition.status || !old.last_transition;
    condition.last_transition = flips ? now : *old.last_transition;
    old = std::move(condition);
    return;
  }
  condition.last_transition = now;
  conditions.push_back(std::move(condition));
}

const Condition* find_condition(const std::vector<Condition>& conditions, std::string_view type) {
  for (const Condition& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool is_true(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* condition = find_condition(conditions, type);
  return condition != nullptr && condition->status == "True";
}

Result<std::strong_ordering> compare_resource_versions(std::string_view a, std::string_view b) {
  for (const std::string_view text : {a, b}) {
    if (!is_decimal(text)) {
      return fail(ErrorCode::kInvalid, fmt::format("'{}' is not a decimal resourceVersion", text.substr(0, 64)));
    }
  }
  if (a.size() != b.size()) return a.size() <=> b.size();
  return std::string_view(a) <=> b;
}

}  // namespace lockstep::api
