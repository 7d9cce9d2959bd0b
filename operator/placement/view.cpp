#include "operator/placement/view.h"

#include <utility>
#include <vector>

namespace lockstep::placement {

void View::mark(NodeId node, std::int64_t pods, std::int64_t free, bool covered) {
  const auto before = nodes_.find(node);
  const bool is_first = before == nodes_.end();
  const std::int64_t added = free - (is_first ? tables_.of_node(node)->free : before->second->free);
  nodes_[node] = subtrees().node(pods, free, covered);
  for (DomainId at = tree_.domain_of(node); at != kNone; at = tree_.parent(at)) {
    Mark& mark = domains_[at];
    mark.added += added;
    if (is_first) mark.young += tables_.room(node).young;
    mark.covered |= covered;
  }
}

const Subtree& View::of(DomainId domain) {
  return *pointer(domain);
}

const Subtree& View::of_node(NodeId node) {
  return *pointer_of_node(node);
}

SubtreePtr View::pointer(DomainId domain) {
  const auto found = domains_.find(domain);
  if (found == domains_.end()) {
    if (!alone_) return tables_.of(tree_, domain);
    if (!no_room_) no_room_ = subtrees().domain(0, 1, 0, 0, false, {});
    return no_room_;
  }
  Mark& mark = found->second;
  if (mark.subtree) return mark.subtree;
  std::vector<SubtreePtr> below;
  const auto add = [&](const SubtreePtr& child) {
    if (child->pods > 0) below.push_back(child);
  };
  for (const DomainId child : tree_.children(domain)) add(pointer(child));
  for (const NodeId node : tree_.nodes(domain)) add(pointer_of_node(node));
  const SubtreePtr& kept = tables_.of(tree_, domain);
  mark.subtree = subtrees().domain(tree_.level(domain), kept->whole, kept->free + mark.added,
                                   alone_ ? 0 : kept->young - mark.young, mark.covered, grouped(below));
  return mark.subtree;
}

const SubtreePtr& View::pointer_of_node(NodeId node) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) return found->second;
  if (!alone_) return tables_.of_node(node);
  if (!no_room_) no_room_ = subtrees().domain(0, 1, 0, 0, false, {});
  return no_room_;
}

}  // namespace lockstep::placement
