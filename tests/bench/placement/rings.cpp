#include "tests/bench/placement/rings.h"

#include <map>
#include <set>

namespace lockstep::bench {

Crossings crossings(const Tree& tree, const std::vector<NodeId>& ring) {
  Crossings found;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const NodeId from = ring[i], to = ring[(i + 1) % ring.size()];
    found.racks += tree.domain_of(from, kRack) != tree.domain_of(to, kRack);
    found.blocks += tree.domain_of(from, kBlock) != tree.domain_of(to, kBlock);
  }
  return found;
}

Crossings least_crossings(const Tree& tree, const std::vector<NodeId>& nodes) {
  std::set<DomainId> racks, blocks;
  for (const NodeId node : nodes) {
    racks.insert(tree.domain_of(node, kRack));
    blocks.insert(tree.domain_of(node, kBlock));
  }
  const auto entered = [](const std::set<DomainId>& domains) {
    return domains.size() > 1 ? static_cast<std::int64_t>(domains.size()) : 0;
  };
  return {entered(racks), entered(blocks)};
}

std::vector<rendezvous::Place> ranks(const Tree& tree, const std::vector<rendezvous::Place>& before,
                                     const std::vector<Member>& members) {
  std::vector<rendezvous::LocatedMember> located;
  for (const Member& member : members) {
    const auto name = [&](int level) -> std::string_view { return tree.name(tree.domain_of(member.node, level)); };
    located.push_back({member.place, {name(kBlock), name(kRack), tree.node_name(member.node)}});
  }
  return rendezvous::rank_order(before, std::move(located));
}

std::vector<NodeId> nodes_of(const std::vector<Member>& members, const std::vector<rendezvous::Place>& order) {
  std::map<rendezvous::Place, NodeId> where;
  for (const Member& member : members) where[member.place] = member.node;
  std::vector<NodeId> nodes;
  for (const rendezvous::Place& place : order) nodes.push_back(where.at(place));
  return nodes;
}

}  // namespace lockstep::bench
