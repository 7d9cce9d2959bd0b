#include "operator/placement/choice.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "operator/placement/mutation.h"
#include "operator/placement/split.h"

namespace lockstep::placement {
namespace {

class Collector {
 public:
  Collector(View& view, const Reach& reach, int level, int pods)
      : view_(view), tree_(view.tree()), reach_(reach), level_(level), pods_(pods) {
    if (!reach.survivors) return;
    for (DomainId at = reach.around; at != kNone; at = tree_.parent(at)) path_.push_back(at);
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
    const bool labelled = reach_.required && *reach_.required < tree_.levels() && level <= *reach_.required;
    if (labelled && !tree_.complete(domain) && kMutation != Mutation::kAllowIncomplete) return false;
    if (!reach_.survivors) return true;
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
      above += view_.subtrees().prices().of(subtree.level, subtree.size, subtree.hole, pods_, subtree.covered);
    }
    for (const DomainId child : tree_.children(domain)) visit(child, above);
    for (const NodeId node : tree_.nodes(domain)) {
      if (reach_.survivors && node != reach_.around_node) continue;
      const Subtree& leaf = view_.of_node(node);
      if (leaf.pods >= pods_) found_.push_back({node, &leaf, above});
    }
  }

  View& view_;
  const Tree& tree_;
  const Reach& reach_;
  int level_;
  int pods_;
  std::vector<DomainId> path_;
  std::vector<Candidate> found_;
};

// A candidate with what it costs, or costs at least.
struct Bounded {
  Cost cost = 0;
  std::size_t order = 0;  // among the candidates

  bool before(const Bounded& other) const { return cost < other.cost || (cost == other.cost && order < other.order); }
};

// All candidates by their lower bounds, as a heap: the first is the lowest.
class ByBound {
 public:
  ByBound(View& view, const std::vector<Candidate>& all, int pods) {
    std::unordered_map<const Subtree*, Cost> inside;  // equal subtrees have one bound
    heap_.reserve(all.size());
    for (std::size_t order = 0; order < all.size(); ++order) {
      const auto [bound, added] = inside.try_emplace(all[order].subtree, 0);
      if (added) bound->second = view.subtrees().at_least(*all[order].subtree, pods);
      heap_.push_back({all[order].above + bound->second, order});
    }
    std::make_heap(heap_.begin(), heap_.end(), after);
  }

  bool empty() const { return heap_.empty(); }
  const Bounded& first() const { return heap_.front(); }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), after);
    heap_.pop_back();
  }

 private:
  static bool after(const Bounded& a, const Bounded& b) { return b.before(a); }

  std::vector<Bounded> heap_;
};

}  // namespace

std::vector<Candidate> candidates(View& view, const Reach& reach, int level, int pods) {
  return Collector(view, reach, level, pods).all();
}

Choice choose(View& view, const std::vector<Candidate>& all, int level, int pods, std::int64_t budget) {
  Choice choice;
  ByBound open(view, all, pods);
  const std::size_t most_promising = open.first().order;
  std::optional<Bounded> best;
  // What is known already counts as well: what the budget allows must not depend on earlier decisions.
  std::unordered_set<const Subtree*> counted;
  std::int64_t operations = 0;
  for (; !open.empty() && (!best || open.first().before(*best)); open.pop()) {
    const Candidate& candidate = all[open.first().order];
    operations += view.subtrees().operations(*candidate.subtree, pods, counted);
    if (operations > budget) {
      choice.approximate = true;
      break;
    }
    const Cost inside = view.subtrees().costs(*candidate.subtree, pods)[static_cast<std::size_t>(pods)];
    const Bounded exact{candidate.above + inside, open.first().order};
    if (!best || exact.before(*best)) best = exact;
  }
  const std::int32_t id = all[best ? best->order : most_promising].id;
  if (level == view.tree().levels()) {
    choice.nodes.emplace_back(id, pods);
  } else if (best) {
    split(view, id, pods, choice.nodes);
  } else {
    fill(view, id, pods, choice.nodes);
  }
  return choice;
}

Cost cost_of(View& view, const NodePods& nodes) {
  const Prices& prices = view.subtrees().prices();
  const auto cost = [&](const Subtree& subtree, std::int64_t taken) {
    return prices.of(subtree.level, subtree.size, subtree.hole, taken, subtree.covered);
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
