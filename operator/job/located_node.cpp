#include "operator/job/located_node.h"

namespace lockstep::job {

Result<api::Node> parse_located_node(const api::Json& object, const placement::Profile& topology) {
  LOCKSTEP_TRY(api::Node node, api::parse_node(object));
  bool known = false;
  for (const placement::Level& level : topology.levels) {
    const std::string& domain = node.meta.label(level.label);
    known = known || !domain.empty();
    node.path.push_back(domain.empty() ? "/" + node.meta.name : domain);  // label values have no slash
  }
  if (!known) node.path.clear();
  node.meta.labels.clear();
  return node;
}

}  // namespace lockstep::job
