// What a pod asks of a node: its requests and which nodes it may use. Pods of one job have one shape. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/base/result.h"
#include "operator/placement/node_record.h"

namespace lockstep::placement {

enum class Relation { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt };

// One expression of a node selector, on a label or on metadata.name.
struct Requirement {
  std::string key;
  Relation relation = Relation::kExists;
  std::vector<std::string> values;

  auto operator<=>(const Requirement&) const = default;
};

// All of its expressions hold. A term without any holds nowhere.
struct SelectorTerm {
  std::vector<Requirement> labels, names;

  auto operator<=>(const SelectorTerm&) const = default;
};

struct Toleration {
  std::string key;      // "" with `exists`: every key
  bool exists = false;  // else the values are equal
  std::string value;
  std::string effect;  // "": every effect

  auto operator<=>(const Toleration&) const = default;
};

struct Shape {
  std::vector<Amount> requests;                    // as effective_requests() and one of kPods; ordered by name
  api::Labels node_selector;                       // all of these, and
  std::optional<std::vector<SelectorTerm>> terms;  // one of these, where there are any: required node affinity
  std::vector<Toleration> tolerations;
  bool host_ports = false;  // no two of these on one node

  auto operator<=>(const Shape&) const = default;
};

// The shape of a pod as the API server stores it, or as it is to be created. kInvalid where the pod has an expression
// that kube-scheduler knows and this does not.
Result<Shape> shape_of(const api::Json& pod);

// Whether a pod may use a node with these taints (of effect NoSchedule or NoExecute).
bool tolerates(const Shape& shape, const std::vector<Taint>& taints);
// Whether the node selector and the required affinity hold. `labels` has at least the keys of selector_keys().
bool selects(const Shape& shape, const std::string& node, const api::Labels& labels);
// The label keys that selects() reads; each once, in order.
std::vector<std::string> selector_keys(const Shape& shape);
// Whether selects() reads the name of the node.
bool reads_name(const Shape& shape);

}  // namespace lockstep::placement
