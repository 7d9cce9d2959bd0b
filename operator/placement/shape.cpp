#include "operator/placement/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "operator/base/number.h"
#include "operator/placement/pod_scan.h"

namespace lockstep::placement {
namespace {

using api::Json;

const Json* member(const Json* object, const char* key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(key);
  return found == object->end() || found->is_null() ? nullptr : &*found;
}

std::string text(const Json* object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

const Json::array_t& elements(const Json* object, const char* key) {
  static const Json::array_t none;
  const Json* value = member(object, key);
  return value != nullptr && value->is_array() ? value->get_ref<const Json::array_t&>() : none;
}

Result<std::vector<Requirement>> requirements(const Json& term, const char* field) {
  static const std::pair<const char*, Relation> kRelations[] = {
      {"In", Relation::kIn},         {"NotIn", Relation::kNotIn},
      {"Exists", Relation::kExists}, {"DoesNotExist", Relation::kDoesNotExist},
      {"Gt", Relation::kGt},         {"Lt", Relation::kLt}};
  std::vector<Requirement> all;
  for (const Json& one : elements(&term, field)) {
    Requirement requirement;
    requirement.key = text(&one, "key");
    const std::string name = text(&one, "operator");
    const auto relation = std::find_if(std::begin(kRelations), std::end(kRelations),
                                       [&](const auto& known) { return known.first == name; });
    if (relation == std::end(kRelations)) {
      return fail(ErrorCode::kInvalid, fmt::format("nodeAffinity: the operator '{}' of {} is not known", name, field));
    }
    requirement.relation = relation->second;
    for (const Json& value : elements(&one, "values")) {
      if (value.is_string()) requirement.values.push_back(value.get<std::string>());
    }
    all.push_back(std::move(requirement));
  }
  return all;
}

// `value` is null where the node has no such label.
bool holds(const Requirement& requirement, const std::string* value) {
  const auto listed = [&] {
    return std::find(requirement.values.begin(), requirement.values.end(), *value) != requirement.values.end();
  };
  switch (requirement.relation) {
    case Relation::kIn:
      return value != nullptr && listed();
    case Relation::kNotIn:
      return value == nullptr || !listed();
    case Relation::kExists:
      return value != nullptr;
    case Relation::kDoesNotExist:
      return value == nullptr;
    case Relation::kGt:
    case Relation::kLt: {
      if (value == nullptr || requirement.values.size() != 1) return false;
      const auto has = as_number<std::int64_t>(*value), bound = as_number<std::int64_t>(requirement.values[0]);
      if (!has || !bound) return false;
      return requirement.relation == Relation::kGt ? *has > *bound : *has < *bound;
    }
  }
  return false;
}

bool holds(const SelectorTerm& term, const std::string& node, const api::Labels& labels) {
  if (term.labels.empty() && term.names.empty()) return false;
  const auto on_label = [&](const Requirement& requirement) {
    const auto label = labels.find(requirement.key);
    return holds(requirement, label == labels.end() ? nullptr : &label->second);
  };
  // metadata.name is the only field that the API server accepts.
  const auto on_name = [&](const Requirement& requirement) {
    return requirement.key == "metadata.name" && holds(requirement, &node);
  };
  return std::all_of(term.labels.begin(), term.labels.end(), on_label) &&
         std::all_of(term.names.begin(), term.names.end(), on_name);
}

bool tolerates(const Toleration& toleration, const Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (!toleration.key.empty() && toleration.key != taint.key) return false;
  return toleration.exists || (!toleration.key.empty() && toleration.value == taint.value);
}

}  // namespace

Result<Shape> shape_of(const api::Json& pod) {
  // The scan counts requests; a pod that is yet to be created has no uid.
  Json stored = {{"metadata", {{"uid", "none"}}}};
  if (const Json* spec = member(&pod, "spec")) stored["spec"] = *spec;
  LOCKSTEP_TRY(ScannedPod scanned, scan_pod(stored.dump(-1, ' ', false, Json::error_handler_t::replace)));
  Shape shape;
  shape.requests = std::move(scanned.requests);
  shape.host_ports = (scanned.flags & kHostPorts) != 0;
  const Json* spec = member(&pod, "spec");
  if (const Json* selector = member(spec, "nodeSelector"); selector != nullptr && selector->is_object()) {
    for (const auto& [key, value] : selector->items()) {
      if (value.is_string()) shape.node_selector[key] = value.get<std::string>();
    }
  }
  const Json* affinity = member(member(spec, "affinity"), "nodeAffinity");
  if (const Json* required = member(affinity, "requiredDuringSchedulingIgnoredDuringExecution")) {
    shape.terms.emplace();
    for (const Json& term : elements(required, "nodeSelectorTerms")) {
      LOCKSTEP_TRY(auto labels, requirements(term, "matchExpressions"));
      LOCKSTEP_TRY(auto names, requirements(term, "matchFields"));
      shape.terms->push_back({std::move(labels), std::move(names)});
    }
  }
  for (const Json& one : elements(spec, "tolerations")) {
    const std::string relation = text(&one, "operator");
    // Comparisons of numbers tolerate nothing here: a node is rather left free.
    if (relation != "" && relation != "Equal" && relation != "Exists") continue;
    shape.tolerations.push_back({text(&one, "key"), relation == "Exists", text(&one, "value"), text(&one, "effect")});
  }
  return shape;
}

bool tolerates(const Shape& shape, const std::vector<Taint>& taints) {
  return std::all_of(taints.begin(), taints.end(), [&](const Taint& taint) {
    return std::any_of(shape.tolerations.begin(), shape.tolerations.end(),
                       [&](const Toleration& toleration) { return tolerates(toleration, taint); });
  });
}

bool selects(const Shape& shape, const std::string& node, const api::Labels& labels) {
  for (const auto& [key, value] : shape.node_selector) {
    const auto label = labels.find(key);
    if (label == labels.end() || label->second != value) return false;
  }
  return !shape.terms || std::any_of(shape.terms->begin(), shape.terms->end(),
                                     [&](const SelectorTerm& term) { return holds(term, node, labels); });
}

std::vector<std::string> selector_keys(const Shape& shape) {
  std::set<std::string> keys;
  for (const auto& [key, value] : shape.node_selector) keys.insert(key);
  if (shape.terms) {
    for (const SelectorTerm& term : *shape.terms) {
      for (const Requirement& requirement : term.labels) keys.insert(requirement.key);
    }
  }
  return {keys.begin(), keys.end()};
}

bool reads_name(const Shape& shape) {
  return shape.terms && std::any_of(shape.terms->begin(), shape.terms->end(),
                                    [](const SelectorTerm& term) { return !term.names.empty(); });
}

}  // namespace lockstep::placement
