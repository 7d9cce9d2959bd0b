#include "operator/placement/tree.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace lockstep::placement {
namespace {

// The name of a node's domain at a level, and whether it is private.
std::pair<std::string, bool> domain_name(const std::string& node, const api::Labels& labels, const Level& level) {
  const auto label = labels.find(level.label);
  if (label != labels.end() && !label->second.empty()) return {label->second, false};
  return {"(" + node + ")", true};
}

}  // namespace

Tree::Tree(Profile profile) : profile_(std::move(profile)) {
  domains_.emplace_back();
}

NodeId Tree::find(const std::string& node) const {
  const auto found = ids_.find(node);
  return found == ids_.end() ? kNone : found->second;
}

NodeId Tree::put(const std::string& node, const api::Labels& labels) {
  NodeId id = find(node);
  if (id != kNone) {
    if (is_where(id, labels)) return id;
    detach(id);
  } else if (!free_nodes_.empty()) {
    id = free_nodes_.back();
    free_nodes_.pop_back();
  } else {
    id = static_cast<NodeId>(nodes_.size());
    nodes_.emplace_back();
  }
  DomainId at = kRoot;
  for (const Level& level : profile_.levels) {
    const auto [name, is_private] = domain_name(node, labels, level);
    at = child(at, name, is_private);
  }
  nodes_[index(id)] = {at, node};
  ids_[node] = id;
  domains_[index(at)].below.insert(place_of_node(at, node), id);
  count(at, 1);
  return id;
}

bool Tree::remove(const std::string& node) {
  const auto found = ids_.find(node);
  if (found == ids_.end()) return false;
  const NodeId id = found->second;
  detach(id);
  nodes_[index(id)] = {};
  free_nodes_.push_back(id);
  ids_.erase(found);
  return true;
}

DomainId Tree::domain_of(NodeId node, int level) const {
  DomainId at = domain_of(node);
  while (this->level(at) > level) at = parent(at);
  return at;
}

bool Tree::complete(NodeId node, int level) const {
  return complete(domain_of(node, std::min(level, levels() - 1)));
}

std::vector<std::string> Tree::path(DomainId domain) const {
  std::vector<std::string> names;
  for (; domain != kRoot; domain = parent(domain)) names.push_back(name(domain));
  std::reverse(names.begin(), names.end());
  return names;
}

std::span<const DomainId> Tree::children(DomainId domain) const {
  if (innermost(domain)) return {};
  return domains_[index(domain)].below;
}

std::span<const NodeId> Tree::nodes(DomainId domain) const {
  if (!innermost(domain)) return {};
  return domains_[index(domain)].below;
}

std::vector<std::int32_t>::iterator Tree::place_of_child(DomainId parent, const std::string& name, bool is_private) {
  auto& below = domains_[index(parent)].below;
  return std::lower_bound(below.begin(), below.end(), std::tie(name, is_private), [&](DomainId id, const auto& key) {
    const Domain& domain = domains_[index(id)];
    return std::tie(domain.name, domain.private_) < key;
  });
}

std::vector<std::int32_t>::iterator Tree::place_of_node(DomainId domain, const std::string& name) {
  auto& below = domains_[index(domain)].below;
  return std::lower_bound(below.begin(), below.end(), name,
                          [&](NodeId id, const std::string& key) { return nodes_[index(id)].name < key; });
}

DomainId Tree::child(DomainId parent, const std::string& name, bool is_private) {
  const auto place = place_of_child(parent, name, is_private);
  auto& below = domains_[index(parent)].below;
  if (place != below.end() && this->name(*place) == name && domains_[index(*place)].private_ == is_private) {
    return *place;
  }
  const auto offset = place - below.begin();
  Domain made;
  made.parent = parent;
  made.level = level(parent) + 1;
  made.complete = complete(parent) && !is_private;
  made.private_ = is_private;
  made.name = name;
  DomainId id = static_cast<DomainId>(domains_.size());
  if (!free_domains_.empty()) {
    id = free_domains_.back();
    free_domains_.pop_back();
    domains_[index(id)] = std::move(made);
  } else {
    domains_.push_back(std::move(made));
  }
  auto& grown = domains_[index(parent)].below;  // push_back may have moved it
  grown.insert(grown.begin() + offset, id);
  return id;
}

void Tree::count(DomainId domain, int nodes) {
  ++changes_;
  for (DomainId at = domain; at != kNone; at = parent(at)) {
    domains_[index(at)].node_count += nodes;
    domains_[index(at)].version = changes_;
  }
}

void Tree::detach(NodeId node) {
  DomainId at = domain_of(node);
  domains_[index(at)].below.erase(place_of_node(at, node_name(node)));
  count(at, -1);
  while (at != kRoot && node_count(at) == 0) {
    const DomainId above = parent(at);
    const Domain& gone = domains_[index(at)];
    domains_[index(above)].below.erase(place_of_child(above, gone.name, gone.private_));
    domains_[index(at)] = {};
    free_domains_.push_back(at);
    at = above;
  }
}

bool Tree::is_where(NodeId node, const api::Labels& labels) const {
  DomainId at = domain_of(node);
  for (int i = levels() - 1; i >= 0; --i, at = parent(at)) {
    const Domain& domain = domains_[index(at)];
    const auto label = labels.find(profile_.levels[index(i)].label);
    const bool missing = label == labels.end() || label->second.empty();
    if (missing != domain.private_ || (!missing && label->second != domain.name)) return false;
  }
  return true;
}

}  // namespace lockstep::placement
