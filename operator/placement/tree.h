// The topology tree of a cluster: domains by the labels of a profile, nodes as leaves. Structure only: what nodes have
// free is elsewhere (cluster.h), and what a gang takes is decided elsewhere (place.h).
//
// Every node has exactly one domain at each level, so that all leaves are equally deep. A domain is identified by its
// level and its full path, never by a label's value alone. The same value under two parents is two domains.
//
// A node without the label of a level (absent, or empty) gets a private domain there, of which it is the only node.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "operator/api/object.h"
#include "operator/placement/profile.h"

namespace lockstep::placement {

using DomainId = std::int32_t;  // dense from 0; the id of a domain that has gone is used again
using NodeId = std::int32_t;    // dense from 0; the id of a node that was removed is used again

inline constexpr DomainId kRoot = 0;       // the cluster
inline constexpr int kClusterLevel = -1;   // its level; the domains of the profile's levels have 0, 1, ...
inline constexpr std::int32_t kNone = -1;  // no node, or no domain

// Not thread-safe. Ids are valid until the node or domain is removed. Asking for an id that is not in use is a bug.
class Tree {
 public:
  // `profile` has passed check().
  explicit Tree(Profile profile);

  const Profile& profile() const { return profile_; }
  // How many levels the profile has. A node's own level is this number.
  int levels() const { return static_cast<int>(profile_.levels.size()); }

  // Adds the node, or moves it to where its labels say. A node that is known keeps its id. O(depth) when nothing
  // changes; else O(depth · log siblings) and the shift of the siblings that follow by name.
  NodeId put(const std::string& node, const api::Labels& labels);
  // Removes the node, and the domains that are empty then. False: no such node.
  bool remove(const std::string& node);
  // The node's id, or kNone.
  NodeId find(const std::string& node) const;

  // All ids in use are below these: the sizes of arrays that are indexed by id.
  std::int32_t node_limit() const { return static_cast<std::int32_t>(nodes_.size()); }
  std::int32_t domain_limit() const { return static_cast<std::int32_t>(domains_.size()); }
  bool node_in_use(NodeId node) const { return nodes_[index(node)].domain != kNone; }

  const std::string& node_name(NodeId node) const { return nodes_[index(node)].name; }
  // The innermost domain of the node.
  DomainId domain_of(NodeId node) const { return nodes_[index(node)].domain; }
  // The domain of the node at a level, kClusterLevel ≤ level < levels().
  DomainId domain_of(NodeId node, int level) const;
  // Whether the node has the labels of all levels from the outermost to `level`. A job that requires `level` may not
  // use the node otherwise.
  bool complete(NodeId node, int level) const;

  DomainId parent(DomainId domain) const { return domains_[index(domain)].parent; }  // kNone for the root
  int level(DomainId domain) const { return domains_[index(domain)].level; }
  bool innermost(DomainId domain) const { return level(domain) == levels() - 1; }
  // The value of the label; for a private domain the name of its node in parentheses; "" for the root.
  const std::string& name(DomainId domain) const { return domains_[index(domain)].name; }
  // Whether it is the domain of a node that lacks the label.
  bool is_private(DomainId domain) const { return domains_[index(domain)].private_; }
  // The names from the outermost level down; empty for the root.
  std::vector<std::string> path(DomainId domain) const;
  // Whether neither the domain nor one above it is private.
  bool complete(DomainId domain) const { return domains_[index(domain)].complete; }
  // The domains of the next level in the order of their names; empty where innermost().
  std::span<const DomainId> children(DomainId domain) const;
  // The nodes in the order of their names, where innermost(); else empty.
  std::span<const NodeId> nodes(DomainId domain) const;
  // How many nodes are below the domain.
  int node_count(DomainId domain) const { return domains_[index(domain)].node_count; }
  // Grows whenever a node below the domain comes, goes or moves, and is never repeated for the same id.
  std::uint64_t version(DomainId domain) const { return domains_[index(domain)].version; }

 private:
  struct Domain {
    DomainId parent = kNone;
    int level = kClusterLevel;
    int node_count = 0;
    bool complete = true;
    bool private_ = false;
    std::uint64_t version = 0;
    std::string name;
    std::vector<std::int32_t> below;  // DomainId, or NodeId where innermost; by name
  };
  struct Node {
    DomainId domain = kNone;  // kNone: the id is free
    std::string name;
  };

  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }
  // Where the child of that name is, or would be.
  std::vector<std::int32_t>::iterator place_of_child(DomainId parent, const std::string& name, bool is_private);
  std::vector<std::int32_t>::iterator place_of_node(DomainId domain, const std::string& name);
  DomainId child(DomainId parent, const std::string& name, bool is_private);
  // Adds to the counts and stamps the versions from the domain up to the root.
  void count(DomainId domain, int nodes);
  // Takes the node out of its domain and frees the domains that are empty then.
  void detach(NodeId node);
  bool is_where(NodeId node, const api::Labels& labels) const;

  Profile profile_;
  std::vector<Domain> domains_;
  std::vector<Node> nodes_;
  std::vector<DomainId> free_domains_;
  std::vector<NodeId> free_nodes_;
  std::unordered_map<std::string, NodeId> ids_;
  std::uint64_t changes_ = 0;
};

}  // namespace lockstep::placement
