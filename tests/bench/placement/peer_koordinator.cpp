// Koordinator's network topology: after the proposal "networktopology-aware-scheduling" and the behaviour of its
// solver of release 1.8 (MustGather and PreferGather).
//
// The candidates are the subtrees of the deepest layer, nodes included, that hold all pods within a domain of the
// MustGather layer. The best has the most pods of the gang, compared layer by layer upwards. Then the least room
// counts, in the same way, then the first name. Inside of it, children are filled in the order of the most pods of the
// gang, the most room, the first name; each as far as it goes.
#include <map>

#include "tests/bench/placement/peer_cells.h"

namespace lockstep::bench {
namespace {

// What a node of the topology is compared by: from itself upwards.
struct Chain {
  std::vector<std::int64_t> existing, room;
};

class Koordinator final : public Policy {
 public:
  bool anchored() const override { return true; }

  NodePods place(const World& world, const Ask& ask) override {
    existing_.clear();
    on_node_.clear();
    for (const auto& [node, pods] : ask.survivors) {
      on_node_[node] += pods;
      for (DomainId at = world.tree().domain_of(node); at != kNone; at = world.tree().parent(at)) existing_[at] += pods;
    }
    const int must = ask.required.value_or(kClusterLevel);
    int level = must;
    std::vector<Cell> candidates;
    for (int at = must; at <= kNode; ++at) {
      std::vector<Cell> hold = cells_inside(world, ask.gpus, kRoot, at);
      std::erase_if(hold, [&](const Cell& cell) { return cell.room < ask.pods; });
      if (hold.empty()) break;
      candidates = std::move(hold);
      level = at;
    }
    if (candidates.empty()) return {};
    sort(world, ask, level, candidates, true);
    if (level == kNode) return {{candidates.front().id, ask.pods}};
    NodePods taken;
    fill(world, ask, candidates.front().id, ask.pods, taken);
    return taken;
  }

 private:
  Chain chain(const World& world, const Ask& ask, int level, const Cell& cell) const {
    Chain chain;
    DomainId at = cell.id;
    if (level == kNode) {
      const auto known = on_node_.find(cell.id);
      chain.existing.push_back(known == on_node_.end() ? 0 : known->second);
      chain.room.push_back(cell.room);
      at = world.tree().domain_of(cell.id);
    }
    for (; at != kNone; at = world.tree().parent(at)) {
      const auto known = existing_.find(at);
      chain.existing.push_back(known == existing_.end() ? 0 : known->second);
      chain.room.push_back(room_of_domain(world, ask.gpus, at));
    }
    return chain;
  }

  void sort(const World& world, const Ask& ask, int level, std::vector<Cell>& cells, bool least_room) const {
    std::vector<std::pair<Chain, Cell>> keyed;
    for (const Cell& cell : cells) keyed.emplace_back(chain(world, ask, level, cell), cell);
    std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
      if (a.first.existing != b.first.existing) return a.first.existing > b.first.existing;
      return least_room ? a.first.room < b.first.room : a.first.room > b.first.room;
    });
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = keyed[i].second;
  }

  void fill(const World& world, const Ask& ask, DomainId domain, std::int64_t pods, NodePods& taken) const {
    std::vector<Cell> children;
    append_children(world, ask.gpus, domain, children);
    const int level = world.tree().level(domain) + 1;
    sort(world, ask, level, children, false);
    for (const Cell& child : children) {
      const std::int64_t share = std::min(pods, child.room);
      if (share == 0) continue;
      if (level == kNode) {
        taken.emplace_back(child.id, static_cast<int>(share));
      } else {
        fill(world, ask, child.id, share, taken);
      }
      pods -= share;
    }
  }

  std::map<DomainId, std::int64_t> existing_;  // pods of the gang, by domain
  std::map<NodeId, std::int64_t> on_node_;
};

}  // namespace

std::unique_ptr<Policy> koordinator_policy() {
  return std::make_unique<Koordinator>();
}

}  // namespace lockstep::bench
