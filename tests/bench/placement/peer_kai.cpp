// KAI Scheduler's topology plugin, after "Topology Aware Scheduling" of its documentation and designs and the behaviour
// of release 0.17.
//
// Levels are tried from the preferred one up to the required one. The search stops at the first level with a domain
// that holds all pods. There the domain comes first that the job fills the most, with its parents (pods ÷ room, largest
// first). If that level is above the preferred one, nodes are scored by their preferred-level domain in the same order;
// a score is rounded down to one of eleven values, so that domains tie in large clusters. Equal nodes: the fullest,
// then by name. A replacement stays in the required domain; `preferred` looks at no survivor.
#include <cmath>

#include "tests/bench/placement/peer_cells.h"

namespace lockstep::bench {
namespace {

class Kai final : public Policy {
 public:
  NodePods place(const World& world, const Ask& ask) override {
    const DomainId inside = domain_of_survivors(world, ask);
    const int highest = ask.required.value_or(kClusterLevel);
    const int deepest = ask.preferred.value_or(highest);
    for (int level = deepest; level >= highest; --level) {
      const std::vector<DomainId> ordered = by_packing(world, ask, inside, level);
      const auto fit = std::find_if(ordered.begin(), ordered.end(), [&](DomainId domain) {
        return room_of_domain(world, ask.gpus, domain) >= ask.pods;
      });
      if (fit == ordered.end()) continue;
      return fill_in_order(scored_nodes(world, ask, *fit, deepest), ask.pods);
    }
    return {};
  }

 private:
  // The domains of a level inside of `top`: children of a domain by pods ÷ room, largest first, then by name.
  static std::vector<DomainId> by_packing(const World& world, const Ask& ask, DomainId top, int level) {
    std::vector<DomainId> found{top};
    for (int at = world.tree().level(top); at < level; ++at) {
      std::vector<DomainId> below;
      for (const DomainId domain : found) {
        std::vector<Cell> children;
        append_children(world, ask.gpus, domain, children);
        // pods ÷ room is largest where there is the least room.
        std::stable_sort(children.begin(), children.end(),
                         [](const Cell& a, const Cell& b) { return a.room < b.room; });
        for (const Cell& child : children) below.push_back(child.id);
      }
      found = std::move(below);
    }
    return found;
  }

  // The nodes of a domain with room, in the order in which they are filled.
  static std::vector<Cell> scored_nodes(const World& world, const Ask& ask, DomainId domain, int preferred) {
    const int level = std::max(preferred, world.tree().level(domain));
    const std::vector<DomainId> ordered = by_packing(world, ask, domain, level);
    const auto count = static_cast<double>(ordered.size());
    std::vector<std::pair<int, Cell>> scored;
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      const int score = static_cast<int>(std::floor((count - static_cast<double>(i)) / count * 10));
      for (const Cell& node : cells_inside(world, ask.gpus, ordered[i], kNode)) {
        if (node.room > 0) scored.emplace_back(score, node);
      }
    }
    std::stable_sort(scored.begin(), scored.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first > b.first;
      const int free_a = world.free_gpus(a.second.id), free_b = world.free_gpus(b.second.id);
      if (free_a != free_b) return free_a < free_b;
      return a.second.id < b.second.id;
    });
    std::vector<Cell> nodes;
    for (const auto& [score, node] : scored) nodes.push_back(node);
    return nodes;
  }
};

}  // namespace

std::unique_ptr<Policy> kai_policy() {
  return std::make_unique<Kai>();
}

}  // namespace lockstep::bench
