#include "operator/placement/choice.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "operator/placement/mutation.h"
#include "operator/placement/split.h"

namespace lockstep::placement {
namespace {

// A tighter candidate breaks a smaller hole: where not all can be searched, these are.
constexpr std::size_t kTightest = 64;

class Collector {
 public:
  Collector(View& view, const Where& where, int level, int pods)
      : view_(view), tree_(view.tree()), where_(where), level_(level), pods_(pods) {
    if (!where.survivors) return;
    for (DomainId at = where.around; at != kNone; at = tree_.parent(at)) path_.push_back(at);
    std::reverse(path_.begin(), path_.end());  // path_[level + 1] has all survivors
  }

  std::vector<Candidate> all() {
    visit(kRoot, 0);
    return std::move(found_);
  }

 private:
  bool may_use(DomainId domain) const {
    const int level = tree_.level(domain);
    // One node is together with itself, whatever its labels.
    const bool labelled = where_.required && *where_.required < tree_.levels() && level <= *where_.required;
    if (labelled && !tree_.complete(domain) && kMutation != Mutation::kAllowIncomplete) return false;
    if (!where_.survivors) return true;
    const auto depth = static_cast<std::size_t>(level + 1);
    return depth < path_.size() && path_[depth] == domain;
  }

  void visit(DomainId domain, Cost above) {
    const Subtree& subtree = view_.of(domain);
    if (subtree.pods < pods_ || !may_use(domain)) return;
    if (tree_.level(domain) == level_) {
      found_.push_back({domain, &subtree, above});
      return;
    }
    if (subtree.largest[static_cast<std::size_t>(level_)] < pods_) return;
    if (kMutation != Mutation::kHolesBelowAlone) {
      above += view_.subtrees().prices().of(subtree.level, subtree.nodes, subtree.free, pods_, subtree.covered);
    }
    for (const DomainId child : tree_.children(domain)) visit(child, above);
    for (const NodeId node : tree_.nodes(domain)) {
      if (where_.survivors && node != where_.around_node) continue;
      const Subtree& leaf = view_.of_node(node);
      if (leaf.pods >= pods_) found_.push_back({node, &leaf, above});
    }
  }

  View& view_;
  const Tree& tree_;
  const Where& where_;
  int level_;
  int pods_;
  std::vector<DomainId> path_;
  std::vector<Candidate> found_;
};

// The candidates that the budget allows: all, or the tightest.
std::vector<Candidate> affordable(View& view, const std::vector<Candidate>& all, int pods, std::int64_t budget) {
  std::unordered_set<const Subtree*> seen;
  std::int64_t operations = 0;
  for (const Candidate& candidate : all) operations += view.subtrees().operations(*candidate.subtree, pods, seen);
  if (operations <= budget) return all;
  std::vector<Candidate> kept = all;
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Candidate& a, const Candidate& b) { return a.subtree->pods < b.subtree->pods; });
  seen.clear();
  operations = 0;
  std::size_t count = 0;
  for (; count < std::min(kTightest, kept.size()); ++count) {
    operations += view.subtrees().operations(*kept[count].subtree, pods, seen);
    if (operations > budget) break;
  }
  kept.resize(count);
  return kept;
}

// Branch and bound: candidates by their lower bound, until it exceeds the best cost.
const Candidate& cheapest(View& view, const std::vector<Candidate>& among, int pods) {
  struct Bounded {
    Cost bound;
    std::size_t order;
  };
  Subtrees& subtrees = view.subtrees();
  std::unordered_map<const Subtree*, Cost> inside;  // equal subtrees have one bound
  std::vector<Bounded> sorted;
  sorted.reserve(among.size());
  for (std::size_t order = 0; order < among.size(); ++order) {
    const Subtree& subtree = *among[order].subtree;
    const auto [bound, added] = inside.try_emplace(&subtree, 0);
    if (added) {
      const bool known = static_cast<std::int64_t>(subtree.costs.size()) > pods;
      bound->second = known ? subtree.costs[static_cast<std::size_t>(pods)] : subtrees.at_least(subtree, pods);
    }
    sorted.push_back({among[order].above + bound->second, order});
  }
  const auto before = [](const Bounded& a, const Bounded& b) {
    return a.bound < b.bound || (a.bound == b.bound && a.order < b.order);
  };
  std::make_heap(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return before(b, a); });
  std::optional<Bounded> best;
  while (!sorted.empty()) {
    std::pop_heap(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return before(b, a); });
    const Bounded next = sorted.back();
    sorted.pop_back();
    if (best && !before(next, *best)) break;
    const Candidate& candidate = among[next.order];
    const Cost cost = candidate.above + subtrees.costs(*candidate.subtree, pods)[static_cast<std::size_t>(pods)];
    const Bounded exact{cost, next.order};
    if (!best || before(exact, *best)) best = exact;
  }
  return among[best->order];
}

}  // namespace

std::vector<Candidate> candidates(View& view, const Where& where, int level, int pods) {
  return Collector(view, where, level, pods).all();
}

Choice choose(View& view, const std::vector<Candidate>& all, int level, int pods, std::int64_t budget) {
  Choice choice;
  const bool node = level == view.tree().levels();
  std::vector<Candidate> kept = node ? all : affordable(view, all, pods, budget);
  choice.approximate = kept.size() < all.size();
  if (kept.empty()) {
    const auto tightest = std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return a.subtree->pods < b.subtree->pods;
    });
    fill(view, tightest->id, pods, choice.nodes);
    return choice;
  }
  if (choice.approximate) {  // back in depth-first order, for ties
    std::vector<Candidate> ordered;
    for (const Candidate& candidate : all) {
      if (std::any_of(kept.begin(), kept.end(), [&](const Candidate& k) { return k.id == candidate.id; })) {
        ordered.push_back(candidate);
      }
    }
    kept = std::move(ordered);
  }
  const Candidate& best = cheapest(view, kept, pods);
  if (node) {
    choice.nodes.emplace_back(best.id, pods);
  } else {
    split(view, best.id, pods, choice.nodes);
  }
  return choice;
}

Cost cost_of(View& view, const NodePods& nodes) {
  const Prices& prices = view.subtrees().prices();
  const auto cost = [&](const Subtree& subtree, std::int64_t taken) {
    return prices.of(subtree.level, subtree.nodes, subtree.free, taken, subtree.covered);
  };
  Cost sum = 0;
  std::map<DomainId, std::int64_t> taken;
  for (const auto& [node, pods] : nodes) {
    sum += cost(view.of_node(node), pods);
    for (DomainId at = view.tree().domain_of(node); at != kNone; at = view.tree().parent(at)) taken[at] += pods;
  }
  for (const auto& [domain, pods] : taken) sum += cost(view.of(domain), pods);
  return sum;
}

}  // namespace lockstep::placement
