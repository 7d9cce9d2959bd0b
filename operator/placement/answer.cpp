#include "operator/placement/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lockstep::placement {
namespace {

std::vector<std::string> domains_of(const Tree& tree, const std::vector<std::pair<NodeId, int>>& nodes) {
  std::set<DomainId> ids;
  for (const auto& [node, pods] : nodes) ids.insert(tree.domain_of(node));
  std::set<std::string> paths;
  for (const DomainId id : ids) {
    if (id != kRoot) paths.insert(fmt::format("{}", fmt::join(tree.path(id), "/")));
    if (paths.size() > Where::kMostNamed) paths.erase(std::prev(paths.end()));
  }
  return {paths.begin(), paths.end()};
}

}  // namespace

void Whereabouts::update(ClusterView& cluster, ShapeId shape, const std::vector<std::pair<NodeId, int>>& nodes) {
  Where where;
  where.level_spanned = level_spanned(cluster.tree(), nodes);
  where.domains = domains_of(cluster.tree(), nodes);
  if (where_ && nodes_ == nodes && where_->level_spanned == where.level_spanned && where_->domains == where.domains) {
    return;
  }
  nodes_ = nodes;
  where_.reset();
  const auto score = cluster.cost(shape, nodes);
  if (!score) return;
  where.score = *score;
  where_ = std::move(where);
}

std::string describe(const Wait& wait, const std::string& level_name) {
  const std::string pods = wait.pods == 1 ? "1 pod" : fmt::format("{} pods", wait.pods);
  const std::string where = wait.level ? "one " + level_name : "the cluster";
  const std::string kept = wait.held.empty() ? "" : fmt::format("; {} is kept free for it", wait.held);
  const std::string found = wait.obstacles.empty() ? "" : "; " + wait.obstacles;
  const char* const need = wait.pods == 1 ? "needs" : "need";
  switch (wait.why) {
    case Why::kNothing:
      return "";
    case Why::kUnknown:
      return "the nodes are being listed for a label that the pods select by";
    case Why::kPaused:
      return "placement pauses before it is tried again" + kept;
    case Why::kReleasing:
      return "the gang was released because it was not whole in time; it is placed again when its pods are gone" + kept;
    case Why::kReplacing:
      return "a pod that its node refused is replaced" + kept;
    case Why::kTooLarge:
      return fmt::format("{} {} room in {}, and its nodes are too few even when they are empty", pods, need, where) +
             found;
    case Why::kPreferred:
    case Why::kNoRoom:
      break;
  }
  std::string text = fmt::format("{} {} room in {}, where {}", pods, need, where,
                                 wait.hole == 0   ? "none fit"
                                 : wait.hole == 1 ? "1 fits"
                                                  : fmt::format("{} fit", wait.hole));
  text += found;
  if (wait.why == Why::kPreferred) text += "; the gang would fit without the preferred level, which it still waits for";
  if (wait.avoided > 0) {
    text += wait.avoided == 1 ? "; 1 node that refused its pods is avoided for 5 minutes"
                              : fmt::format("; {} nodes that refused its pods are avoided for 5 minutes", wait.avoided);
  }
  text += kept;
  if (!wait.behind.empty()) text += fmt::format("; {} waits before it", wait.behind);
  return text;
}

}  // namespace lockstep::placement
