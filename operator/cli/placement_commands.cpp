#include "operator/cli/placement_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

Result<std::string> resource_of(const placement::Cluster& cluster, const std::string& asked) {
  if (asked.empty()) return placement::usual_resource(cluster);
  const std::vector<std::string> names = placement::resources_of(cluster);
  if (std::find(names.begin(), names.end(), asked) != names.end()) return asked;
  const std::string near = nearest(asked, names);
  return fail(ErrorCode::kNotFound, fmt::format("--resource {}: no node has it{}; nodes have {}", asked,
                                                near.empty() ? "" : fmt::format(", did you mean {}?", near),
                                                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace

Status topology(const Target& target, const TopologyOptions& options) {
  LOCKSTEP_TRY(const ClusterReading reading, read_cluster(target.api, options.profile));
  if (reading.cluster->tree().node_count(placement::kRoot) == 0 && !options.json) {
    fmt::print(target.out, "the cluster has no nodes\n");
    return {};
  }
  LOCKSTEP_TRY(const std::string resource, resource_of(*reading.cluster, options.resource));
  const placement::Census census = placement::take_census(*reading.cluster, resource);
  if (options.json) {
    fmt::print(target.out, "{}\n", topology_json(reading, census).dump(2));
  } else {
    fmt::print(target.out, "{}\nFREE and TOTAL: {}. OTHERS: what pods take that are no TrainingJob's.\n{}",
               draw_topology(reading, census, options.draw), resource, topology_summary(reading, census));
  }
  return {};
}

}  // namespace lockstep::cli
