#include "operator/placement/endings.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace lockstep::placement {
namespace {

using Uids = std::set<Uid, UidOrder>;

struct Candidacy {
  Uid job;
  Ending ending;
  WallTime since{};
  std::set<NodeId> nodes{};
};

// True if `one` ends first.
bool ends_before(const Candidacy& one, const Candidacy& other) {
  if (one.ending.priority != other.ending.priority) return one.ending.priority < other.ending.priority;
  if (one.since != other.since) return one.since > other.since;
  return one.ending.name < other.ending.name;
}

void nodes_below(const Tree& tree, DomainId domain, std::vector<NodeId>& nodes) {
  for (const DomainId child : tree.children(domain)) nodes_below(tree, child, nodes);
  for (const NodeId node : tree.nodes(domain)) nodes.push_back(node);
}

// One domain, while jobs end in it in thought.
class Emptying {
 public:
  Emptying(const Cluster& cluster, const Search& search, const std::vector<NodeId>& nodes)
      : cluster_(cluster), search_(search) {
    for (const NodeId node : nodes) room_ += rooms_[node] = room(node);
  }

  void end(const Candidacy& job) {
    gone_.insert(job.job);
    recount(job);
  }
  void keep(const Candidacy& job) {
    gone_.erase(job.job);
    recount(job);
  }
  bool enough() const { return room_ >= search_.pods; }

 private:
  std::int32_t room(NodeId node) const {
    return room_without(cluster_, search_, node,
                        [&](const PodRecord& pod) { return pod.is(kTerminating) || gone_.contains(pod.job); });
  }
  void recount(const Candidacy& job) {
    for (const NodeId node : job.nodes) {
      room_ -= rooms_[node];
      room_ += rooms_[node] = room(node);
    }
  }

  const Cluster& cluster_;
  const Search& search_;
  Uids gone_;
  std::map<NodeId, std::int32_t> rooms_;
  std::int64_t room_ = 0;
};

std::vector<Candidacy> candidacies(const Cluster& cluster, const std::vector<NodeId>& nodes, const Uid& self,
                                   const KnownJobs& jobs) {
  std::map<Uid, Candidacy, UidOrder> found;
  for (const NodeId node : nodes) {
    cluster.each_pod(node, [&](const PodRecord& pod) {
      const auto known = jobs.find(pod.job);
      if (pod.job.is_zero() || pod.job == self || pod.is(kTerminating) || known == jobs.end()) return;
      const auto [place, is_new] = found.try_emplace(pod.job);
      Candidacy& one = place->second;
      if (is_new) one = {pod.job, {known->second.name, pod.priority, 0}, known->second.since, {}};
      one.ending.priority = std::max(one.ending.priority, pod.priority);
      ++one.ending.pods;
      one.nodes.insert(node);
    });
  }
  std::vector<Candidacy> ordered;
  for (auto& [uid, one] : found) ordered.push_back(std::move(one));
  std::sort(ordered.begin(), ordered.end(), ends_before);
  return ordered;
}

std::optional<Endings> endings_in(const Cluster& cluster, const Search& search, const HeldDomain& domain,
                                  const std::vector<NodeId>& nodes, const Uid& self, const KnownJobs& jobs) {
  Emptying emptying(cluster, search, nodes);
  std::vector<Candidacy> chosen;
  for (const Candidacy& one : candidacies(cluster, nodes, self, jobs)) {
    if (emptying.enough()) break;
    emptying.end(one);
    chosen.push_back(one);
  }
  if (!emptying.enough()) return std::nullopt;
  for (std::size_t i = chosen.size(); i-- > 0;) {
    emptying.keep(chosen[i]);
    if (emptying.enough()) {
      chosen.erase(chosen.begin() + static_cast<long>(i));
    } else {
      emptying.end(chosen[i]);
    }
  }
  Endings endings{domain, {}};
  for (const Candidacy& one : chosen) endings.jobs.push_back(one.ending);
  return endings;
}

auto harm_of(const Endings& endings) {
  int priority = 0, pods = 0;
  for (std::size_t i = 0; i < endings.jobs.size(); ++i) {
    priority = i == 0 ? endings.jobs[i].priority : std::max(priority, endings.jobs[i].priority);
    pods += endings.jobs[i].pods;
  }
  return std::tuple(priority, endings.jobs.size(), pods);
}

// Looks at the domains of the level, and at the nodes where the level is theirs, in the order of names.
void search_domains(const Tree& tree, DomainId domain, int level, const std::function<void(const HeldDomain&)>& visit) {
  if (tree.level(domain) == level) return visit({domain, kNone});
  for (const DomainId child : tree.children(domain)) search_domains(tree, child, level, visit);
  for (const NodeId node : tree.nodes(domain)) visit({domain, node});
}

}  // namespace

std::int32_t room_without(const Cluster& cluster, const Search& search, NodeId node,
                          const std::function<bool(const PodRecord&)>& gone) {
  const Tree& tree = cluster.tree();
  const bool closed = std::find(search.closed.begin(), search.closed.end(), node) != search.closed.end();
  const bool labelled = !search.required || *search.required >= tree.levels() || tree.complete(node, *search.required);
  const bool beside = search.exclusive && std::any_of(search.survivors.begin(), search.survivors.end(),
                                                      [&](const auto& survivor) { return survivor.first == node; });
  if (closed || beside || !labelled) return 0;
  const std::int32_t room = cluster.fit_without(search.shape, node, gone);
  return search.exclusive ? std::min(room, 1) : room;
}

std::optional<Endings> jobs_to_end(const Cluster& cluster, const Search& search, const Uid& self,
                                   const KnownJobs& jobs) {
  const Tree& tree = cluster.tree();
  std::optional<Endings> best;
  search_domains(tree, kRoot, search.required.value_or(kClusterLevel), [&](const HeldDomain& domain) {
    std::vector<NodeId> nodes;
    if (domain.node != kNone) {
      nodes = {domain.node};
    } else {
      nodes_below(tree, domain.domain, nodes);
    }
    const bool around = std::all_of(search.survivors.begin(), search.survivors.end(), [&](const auto& survivor) {
      return std::find(nodes.begin(), nodes.end(), survivor.first) != nodes.end();
    });
    if (!around) return;
    auto endings = endings_in(cluster, search, domain, nodes, self, jobs);
    if (endings && (!best || harm_of(*endings) < harm_of(*best))) best = std::move(endings);
  });
  return best;
}

}  // namespace lockstep::placement
