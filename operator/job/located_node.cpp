#include "operator/job/located_node.h"

#include <algorithm>

#include "operator/api/reader.h"

namespace lockstep::job {
namespace {

using placement::SickSigns;
using placement::SignKind;

// The first of `signs` that the node shows, as text; "".
std::string sign_of(const api::Reader& root, const api::Node& node, const SickSigns& signs) {
  std::size_t first = SickSigns::kNone;
  for (const auto& [key, value] : node.meta.labels) first = std::min(first, signs.find(SignKind::kLabel, key, value));
  for (const api::Reader& taint : root.child("spec").children("taints")) {
    std::string key, value;
    taint.read("key", key);
    taint.read("value", value);
    first = std::min(first, signs.find(SignKind::kTaint, key, value));
  }
  for (const api::Reader& condition : root.child("status").children("conditions")) {
    std::string type, status;
    condition.read("type", type);
    condition.read("status", status);
    first = std::min(first, signs.find(SignKind::kCondition, type, status));
  }
  return first == SickSigns::kNone ? "" : text_of(signs.all()[first]);
}

}  // namespace

Result<api::Node> parse_located_node(const api::Json& object, const placement::Profile& topology,
                                     const NodeSigns& signs) {
  LOCKSTEP_TRY(api::Node node, api::parse_node(object));
  bool known = false;
  for (const placement::Level& level : topology.levels) {
    const std::string& domain = node.meta.label(level.label);
    known = known || !domain.empty();
    node.path.push_back(domain.empty() ? "/" + node.meta.name : domain);  // label values have no slash
  }
  if (!known) node.path.clear();
  if (!signs.leave.all().empty() || !signs.dead.all().empty()) {
    std::optional<Error> error;
    const api::Reader root(object, "", error);
    node.sickness = sign_of(root, node, signs.leave);
    node.death = sign_of(root, node, signs.dead);
    if (error) return *error;
  }
  node.meta.labels.clear();
  return node;
}

}  // namespace lockstep::job
