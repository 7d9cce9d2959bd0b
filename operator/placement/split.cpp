#include "operator/placement/split.h"

#include <algorithm>
#include <unordered_map>

namespace lockstep::placement {
namespace {

struct Child {
  std::int32_t id = kNone;  // NodeId where the domain is innermost
  const Subtree* subtree = nullptr;
  std::int64_t pods = 0;  // that it gets
};

// The children that have room, by name.
std::vector<Child> children_of(View& view, DomainId domain) {
  std::vector<Child> children;
  const auto add = [&](std::int32_t id, const Subtree& subtree) {
    if (subtree.pods > 0) children.push_back({id, &subtree, 0});
  };
  for (const DomainId child : view.tree().children(domain)) add(child, view.of(child));
  for (const NodeId node : view.tree().nodes(domain)) add(node, view.of_node(node));
  return children;
}

// Children that are split together: equal ones with a closed form, or one alone.
struct Item {
  std::vector<std::size_t> members;  // of the children, by name
  std::vector<Cost> own;             // costs of 0, 1, ... pods in its members together
};

std::vector<Item> items_of(View& view, const Subtree& subtree, const std::vector<Child>& children, int pods) {
  std::unordered_map<const Subtree*, const Group*> closed;  // groups that have the closed form
  for (const Group& group : subtree.groups) {
    if (view.subtrees().has_closed_form(group, pods)) closed[group.subtree.get()] = &group;
  }
  std::unordered_map<const Subtree*, std::size_t> item_of;
  std::vector<Item> items;
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Subtree* const child = children[i].subtree;
    if (const auto group = closed.find(child); group != closed.end()) {
      const auto [item, added] = item_of.try_emplace(child, items.size());
      if (added) items.push_back({{}, view.subtrees().closed_form(*group->second, pods)});
      items[item->second].members.push_back(i);
      continue;
    }
    const auto costs = view.subtrees().costs(*child, pods);
    const auto most = std::min<std::int64_t>(pods, child->pods);
    items.push_back({{i}, {costs.begin(), costs.begin() + most + 1}});
  }
  return items;
}

void hand_out(const Item& item, std::int64_t pods, std::vector<Child>& children) {
  for (const std::size_t member : item.members) {
    Child& child = children[member];
    child.pods = std::min(pods, child.subtree->pods);
    pods -= child.pods;
    if (pods == 0) break;
  }
}

void descend(View& view, DomainId domain, const std::vector<Child>& children, NodePods& nodes,
             void (*split_further)(View&, DomainId, int, NodePods&)) {
  for (const Child& child : children) {
    if (child.pods == 0) continue;
    const int pods = static_cast<int>(child.pods);
    if (view.tree().innermost(domain)) {
      nodes.emplace_back(child.id, pods);
    } else {
      split_further(view, child.id, pods, nodes);
    }
  }
}

}  // namespace

void split(View& view, DomainId domain, int pods, NodePods& nodes) {
  std::vector<Child> children = children_of(view, domain);
  const std::vector<Item> items = items_of(view, view.of(domain), children, pods);
  // rest[i]: costs of 0, 1, ... pods in the items from i on together.
  std::vector<std::vector<Cost>> rest(items.size() + 1, std::vector<Cost>{0});
  for (std::size_t i = items.size(); i-- > 0;) rest[i] = min_plus(items[i].own, rest[i + 1], pods);
  auto left = static_cast<std::size_t>(pods);
  for (std::size_t i = 0; i < items.size() && left > 0; ++i) {
    left = std::min(left, rest[i].size() - 1);  // changes nothing, unless the tables are not those of the tree
    std::size_t take = std::min(left, items[i].own.size() - 1);
    // The sums are exact, so that the minimum is met by equality; the largest share is tried first.
    const auto meets = [&] {
      return left - take < rest[i + 1].size() && items[i].own[take] + rest[i + 1][left - take] == rest[i][left];
    };
    while (take > 0 && !meets()) --take;
    hand_out(items[i], static_cast<std::int64_t>(take), children);
    left -= take;
  }
  descend(view, domain, children, nodes, split);
}

void fill(View& view, DomainId domain, int pods, NodePods& nodes) {
  std::vector<Child> children = children_of(view, domain);
  std::vector<Child*> largest_first;
  for (Child& child : children) largest_first.push_back(&child);
  std::stable_sort(largest_first.begin(), largest_first.end(), [](const Child* a, const Child* b) {
    if (a->subtree->covered != b->subtree->covered) return a->subtree->covered;
    return a->subtree->pods > b->subtree->pods;
  });
  std::int64_t left = pods;
  for (std::size_t i = 0; left > 0 && i < largest_first.size(); ++i) {
    Child* child = largest_first[i];
    for (std::size_t j = i + 1; j < largest_first.size() && child->subtree->pods >= left; ++j) {
      const Subtree& tighter = *largest_first[j]->subtree;
      if (tighter.covered != child->subtree->covered || tighter.pods < left) break;
      if (tighter.pods < child->subtree->pods) child = largest_first[j];
    }
    child->pods = std::min(left, child->subtree->pods);
    left -= child->pods;
  }
  descend(view, domain, children, nodes, fill);
}

}  // namespace lockstep::placement
