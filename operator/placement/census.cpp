#include "operator/placement/census.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "operator/api/quantity.h"

namespace lockstep::placement {
namespace {

std::size_t slot_of(std::int32_t id) {
  return static_cast<std::size_t>(id);
}

std::int64_t plus(std::int64_t one, std::int64_t other) {
  return one > kMostUnits - other ? kMostUnits : one + other;
}

Tally tally_of(const Cluster& cluster, const std::string& resource, NodeId node) {
  Tally tally;
  tally.nodes = 1;
  tally.usable = cluster.state(node) == NodeState::kUsable ? 1 : 0;
  for (const NodeAmount& amount : cluster.amounts(node)) {
    if (amount.name != resource) continue;
    tally.total = amount.allocatable;
    if (tally.usable > 0) tally.free = std::max<std::int64_t>(0, amount.allocatable - amount.used);
  }
  cluster.each_pod(node, [&](const PodRecord& pod) {
    if (!pod.job.is_zero()) ++tally.pods_by_job[pod.job];
    if (pod.job.is_zero() && !pod.is(kReservation)) tally.others = plus(tally.others, cluster.units(pod, resource));
  });
  return tally;
}

// Offers the hole of a domain or node to its level; the first of equal ones stays.
void offer_hole(const Tree& tree, int level, std::int64_t free, DomainId domain, NodeId node,
                std::vector<Hole>& largest) {
  Hole& hole = largest[slot_of(level + 1)];
  if (free <= hole.pods) return;
  hole.pods = free;
  hole.path = tree.path(domain);
  if (node != kNone) hole.path.push_back(tree.node_name(node));
}

// Depth-first in the order of names, so that ids do not matter.
void take_domain(const Tree& tree, DomainId domain, Census& census) {
  Tally& mine = census.domains[slot_of(domain)];
  for (const DomainId child : tree.children(domain)) {
    take_domain(tree, child, census);
    add_tally(census.domains[slot_of(child)], mine);
  }
  for (const NodeId node : tree.nodes(domain)) {
    const Tally& leaf = census.nodes[slot_of(node)];
    add_tally(leaf, mine);
    offer_hole(tree, tree.levels(), leaf.free, domain, node, census.largest);
  }
  offer_hole(tree, tree.level(domain), mine.free, domain, kNone, census.largest);
}

bool counts_gpus(const std::string& resource) {
  return resource.ends_with("/gpu") || resource.starts_with("gpu.");
}

bool counts_bytes(std::string_view resource) {
  return resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-");
}

}  // namespace

void add_tally(const Tally& from, Tally& to) {
  to.total = plus(to.total, from.total);
  to.free = plus(to.free, from.free);
  to.others = plus(to.others, from.others);
  to.nodes += from.nodes;
  to.usable += from.usable;
  for (const auto& [job, pods] : from.pods_by_job) to.pods_by_job[job] += pods;
}

Census take_census(const Cluster& cluster, const std::string& resource) {
  const Tree& tree = cluster.tree();
  Census census{resource, {}, {}, {}};
  census.domains.resize(slot_of(tree.domain_limit()));
  census.nodes.resize(slot_of(tree.node_limit()));
  for (NodeId node = 0; node < tree.node_limit(); ++node) {
    if (tree.node_in_use(node)) census.nodes[slot_of(node)] = tally_of(cluster, resource, node);
  }
  census.largest.resize(slot_of(tree.levels() + 2));
  for (int level = kClusterLevel; level <= tree.levels(); ++level) census.largest[slot_of(level + 1)].level = level;
  take_domain(tree, kRoot, census);
  return census;
}

std::string usual_resource(const Cluster& cluster) {
  std::map<std::string, int> nodes_by_resource;
  for (NodeId node = 0; node < cluster.tree().node_limit(); ++node) {
    if (!cluster.tree().node_in_use(node)) continue;
    for (const NodeAmount& amount : cluster.amounts(node)) {
      if (amount.allocatable > 0 && counts_gpus(amount.name)) ++nodes_by_resource[amount.name];
    }
  }
  const auto most = std::max_element(nodes_by_resource.begin(), nodes_by_resource.end(),
                                     [](const auto& one, const auto& other) { return one.second < other.second; });
  return most == nodes_by_resource.end() ? std::string(kCpu) : most->first;
}

std::vector<std::string> resources_of(const Cluster& cluster) {
  std::set<std::string> names;
  for (NodeId node = 0; node < cluster.tree().node_limit(); ++node) {
    if (!cluster.tree().node_in_use(node)) continue;
    for (const NodeAmount& amount : cluster.amounts(node)) {
      if (amount.name != kPods) names.insert(amount.name);
    }
  }
  return {names.begin(), names.end()};
}

std::string in_words(std::string_view resource, std::int64_t units) {
  if (units == kMostUnits) return "unlimited";
  if (counts_bytes(resource)) return api::format_bytes(units);
  if (resource != kCpu) return std::to_string(units);
  std::string text = fmt::format("{}.{:03}", units / 1000, units % 1000);
  text.resize(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace lockstep::placement
