#include "operator/placement/subtree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "operator/placement/mutation.h"

namespace lockstep::placement {
namespace {

std::size_t mixed(std::size_t seed, std::uint64_t value) {
  return (seed ^ value) * 0x9e3779b97f4a7c15U + (seed >> 29);
}

// A child that is relaxed to a cost per pod.
struct Rated {
  double rate;
  std::int64_t pods;  // of all children of the group
};

// The lowest cost of n pods where they may be split at will.
double filled_by_rate(std::vector<Rated>& rated, std::int64_t n) {
  std::sort(rated.begin(), rated.end(), [](const Rated& a, const Rated& b) { return a.rate < b.rate; });
  double cost = 0;
  for (const Rated& child : rated) {
    const std::int64_t take = std::min(n, child.pods);
    cost += child.rate * static_cast<double>(take);
    n -= take;
    if (n == 0) break;
  }
  return cost;
}

std::int64_t most_of(const Group& group, int n) {
  return std::min<std::int64_t>(n, group.subtree->pods * group.count);
}

}  // namespace

std::vector<Cost> min_plus(std::span<const Cost> first, std::span<const Cost> second, std::int64_t most) {
  if (first.size() > second.size()) std::swap(first, second);  // the inner loop is the long one
  const auto size = std::min(static_cast<std::size_t>(most), first.size() + second.size() - 2) + 1;
  std::vector<Cost> out(size, std::numeric_limits<Cost>::infinity());
  for (std::size_t a = 0; a < std::min(first.size(), size); ++a) {
    const Cost base = first[a];
    const std::size_t count = std::min(second.size(), size - a);
    const Cost* __restrict from = second.data();
    Cost* __restrict to = out.data() + a;
    for (std::size_t b = 0; b < count; ++b) {
      const Cost sum = base + from[b];
      to[b] = sum < to[b] ? sum : to[b];
    }
  }
  return out;
}

std::size_t Subtrees::Hash::operator()(const Key& key) const {
  std::size_t hash = mixed(static_cast<std::size_t>(key.level), static_cast<std::uint64_t>(key.whole));
  hash = mixed(mixed(hash, static_cast<std::uint64_t>(key.pods)), static_cast<std::uint64_t>(key.free));
  hash = mixed(mixed(hash, static_cast<std::uint64_t>(key.young)), key.covered ? 1 : 0);
  for (const auto& [serial, count] : key.groups) hash = mixed(mixed(hash, serial), static_cast<std::uint64_t>(count));
  return hash;
}

SubtreePtr Subtrees::known(Key key, Subtree made) {
  auto& entry = known_[std::move(key)];
  if (auto there = entry.lock()) return there;
  made.serial = ++serials_;
  auto subtree = std::make_shared<const Subtree>(std::move(made));
  entry = subtree;
  if (known_.size() > sweep_at_) {
    std::erase_if(known_, [](const auto& item) { return item.second.expired(); });
    sweep_at_ = 2 * known_.size() + 1024;
  }
  return subtree;
}

SubtreePtr Subtrees::node(std::int64_t pods, std::int64_t free, bool covered) {
  Subtree made;
  made.level = levels_;
  made.pods = pods;
  made.whole = prices_.node_pods();
  made.size = std::max(made.whole, free);
  made.free = free;
  made.hole = prices_.hole(free, 0);
  made.covered = covered;
  made.largest[static_cast<std::size_t>(levels_)] = pods;
  made.rate = rate_of(made);
  return known({levels_, made.whole, pods, free, 0, covered, {}}, std::move(made));
}

SubtreePtr Subtrees::domain(int level, std::int64_t whole, std::int64_t free, std::int64_t young, bool covered,
                            std::vector<Group> groups) {
  std::erase_if(groups, [](const Group& group) { return group.subtree->pods == 0; });
  Key key{level, whole, 0, free, young, covered, {}};
  Subtree made;
  for (const Group& group : groups) {
    key.pods += group.subtree->pods * group.count;
    key.groups.emplace_back(kMutation == Mutation::kSharedByCapacity ? 0 : group.subtree->serial, group.count);
    for (std::size_t i = 0; i < made.largest.size(); ++i) {
      made.largest[i] = std::max(made.largest[i], group.subtree->largest[i]);
    }
  }
  std::sort(key.groups.begin(), key.groups.end());
  made.level = level;
  made.whole = whole;
  made.size = std::max({whole, free + young, std::int64_t{1}});
  made.pods = key.pods;
  made.free = free;
  made.young = young;
  made.hole = prices_.hole(free, young);
  made.covered = covered;
  made.groups = std::move(groups);
  if (level >= 0) made.largest[static_cast<std::size_t>(level)] = made.pods;
  made.rate = rate_of(made);
  return known(std::move(key), std::move(made));
}

std::span<const Cost> Subtrees::costs(const Subtree& subtree, int n) const {
  if (static_cast<std::int64_t>(subtree.costs.size()) <= std::min<std::int64_t>(n, subtree.pods)) compute(subtree, n);
  return subtree.costs;
}

void Subtrees::compute(const Subtree& subtree, int n) const {
  const std::int64_t most = std::min<std::int64_t>(n, subtree.pods);
  std::vector<Cost> costs{0};
  if (subtree.level == levels_) {
    costs.resize(static_cast<std::size_t>(most) + 1, 0);
  }
  for (const Group& group : subtree.groups) {
    if (has_closed_form(group, n)) {
      const std::vector<Cost> all = closed_form(group, n);
      costs = costs.size() == 1 ? all : min_plus(costs, all, most);
    } else {
      for (int i = 0; i < group.count; ++i) costs = min_plus(costs, this->costs(*group.subtree, n), most);
    }
  }
  for (std::int64_t j = 1; j <= most; ++j) {
    costs[static_cast<std::size_t>(j)] += own(subtree, j);
  }
  std::int64_t concave = std::min<std::int64_t>(1, most);
  while (concave < most) {
    const Cost* at = costs.data() + concave;
    if (at[1] - at[0] > at[0] - at[-1]) break;
    ++concave;
  }
  subtree.costs = std::move(costs);
  subtree.concave = concave;
}

bool Subtrees::has_closed_form(const Group& group, int n) const {
  if (group.count == 1) return true;
  costs(*group.subtree, n);
  return group.subtree->concave >= std::min<std::int64_t>(n, group.subtree->pods) ||
         kMutation == Mutation::kConcaveAlways;
}

std::vector<Cost> Subtrees::closed_form(const Group& group, int n) const {
  const std::span<const Cost> one = costs(*group.subtree, n);
  const std::int64_t full = group.subtree->pods, most = most_of(group, n);
  std::vector<Cost> all(static_cast<std::size_t>(most) + 1);
  for (std::int64_t j = 0; j <= most; ++j) {
    const Cost of_full = j >= full ? one[static_cast<std::size_t>(full)] * static_cast<Cost>(j / full) : 0;
    all[static_cast<std::size_t>(j)] = of_full + one[static_cast<std::size_t>(j % full)];
  }
  return all;
}

double Subtrees::rate_of(const Subtree& subtree) const {
  if (subtree.pods == 0) return 0;
  double below = subtree.groups.empty() ? 0 : std::numeric_limits<double>::infinity();
  for (const Group& group : subtree.groups) below = std::min(below, group.subtree->rate);
  // The own cost of j pods grows less than j does: it is lowest per pod where the subtree is full.
  return own(subtree, subtree.pods) / static_cast<double>(subtree.pods) + below;
}

Cost Subtrees::at_least(const Subtree& subtree, int n) const {
  if (subtree.groups.empty()) return own(subtree, n);
  std::vector<Rated> whole, without_span;
  std::vector<std::pair<std::int64_t, int>> sizes;
  std::int64_t uncovered = n;  // pods that covered children cannot hold
  const Cost span = prices_.span(subtree.level + 1);
  for (const Group& group : subtree.groups) {
    const Subtree& child = *group.subtree;
    const double share = child.covered ? 0 : span / static_cast<double>(child.pods);
    whole.push_back({child.rate, child.pods * group.count});
    without_span.push_back({child.rate - share, child.pods * group.count});
    if (child.covered) {
      uncovered -= child.pods * group.count;
    } else {
      sizes.emplace_back(child.pods, group.count);
    }
  }
  std::sort(sizes.rbegin(), sizes.rend());
  std::int64_t fewest = 0;
  for (const auto& [pods, count] : sizes) {
    if (uncovered <= 0) break;
    const std::int64_t more = std::min<std::int64_t>(count, (uncovered + pods - 1) / pods);
    fewest += more;
    uncovered -= more * pods;
  }
  const double by_number = span * static_cast<double>(fewest) + filled_by_rate(without_span, n);
  const double below = std::max(filled_by_rate(whole, n), by_number);
  if (kMutation == Mutation::kBoundTooHigh) return own(subtree, n) + 2 * below;
  // Each domain's cost is rounded by half a unit, and its part of a rate as well; a power of a large domain adds a
  // little. n pods use n domains of a level at most. A bound that exceeds the cost by its roundings would drop the
  // optimum.
  const double roundings = 2.0 * n * (levels_ + 1);
  return own(subtree, n) + std::max(0.0, std::floor(below * (1 - 1e-12) - roundings));
}

std::int64_t Subtrees::operations(const Subtree& subtree, int n, std::unordered_set<const Subtree*>& seen) const {
  if (!seen.insert(&subtree).second) return 0;
  std::int64_t operations = std::min<std::int64_t>(n, subtree.pods), before = 0;
  for (const Group& group : subtree.groups) {
    operations += this->operations(*group.subtree, n, seen);
    // Whether the closed form applies is known only with the tables; nodes of one capacity have it always.
    const bool closed = group.count == 1 || group.subtree->level == levels_;
    for (int i = 0; i < (closed ? 1 : group.count); ++i) {
      const std::int64_t more = std::min<std::int64_t>(n, group.subtree->pods * (closed ? group.count : 1));
      operations += (before + 1) * (more + 1);
      before = std::min<std::int64_t>(n, before + more);
    }
  }
  return operations;
}

}  // namespace lockstep::placement
