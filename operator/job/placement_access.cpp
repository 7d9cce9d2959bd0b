#include "operator/job/placement_access.h"

#include <fmt/format.h>

namespace lockstep::job {

Result<std::string> placement_obstacle(kube::Api& api) {
  std::string missing, resources;
  for (const auto* resource : {&kube::kNodes, &kube::kPods}) {
    kube::ListOptions options;
    options.limit = 1;
    const auto page = api.list(*resource, options);
    if (page) continue;
    if (page.error().code != ErrorCode::kForbidden) return page.error().in("listing " + resource->plural);
    missing += (missing.empty() ? "" : " and ") + resource->plural;
    if (resource->namespaced) missing += " of all namespaces";
    resources += (resources.empty() ? "" : ", ") + resource->plural;
  }
  if (missing.empty()) return std::string();
  return fmt::format(
      "the operator may not list {}: a ClusterRole of it needs the rule {{apiGroups: [\"\"], resources: [{}], verbs: "
      "[list, watch]}}",
      missing, resources);
}

}  // namespace lockstep::job
