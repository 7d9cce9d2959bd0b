// Slurm's topology/tree, after its "Topology Guide" and the behaviour of release 26.05. Leaf switches (racks) are added
// one by one until the job has its nodes.
//
// Between two leaves, the better one holds what is left and has the least room. If neither does, the switches above
// them are compared in the same way; where that decides nothing, the switch with more room is better. A leaf that is
// closer to those that were taken wins only if it, or the switch that was compared last, holds what is left; of leaves
// that are equally close the better one wins.
//
// Slurm has no required level. `required` gives it the tightest domain that holds the job, as if the partition were
// that domain. A job that loses a node is queued again; here its replacement is a job of its own.
#include "tests/bench/placement/peer_cells.h"

namespace lockstep::bench {
namespace {

// One allocation that grows.
class Allocation {
 public:
  Allocation(const World& world, int gpus, DomainId top, std::int64_t pods)
      : world_(world), gpus_(gpus), left_(pods), room_(world.room(gpus).begin(), world.room(gpus).end()) {
    for (const Cell& leaf : cells_inside(world, gpus, top, kRack)) {
      if (leaf.room > 0) leaves_.push_back({leaf.id, 0});
    }
  }

  NodePods complete() {
    NodePods taken;
    while (left_ > 0) {
      const Leaf* const best = choose();
      if (best == nullptr) return {};
      take(best->id, taken);
    }
    return taken;
  }

 private:
  struct Leaf {
    DomainId id = kNone;
    int distance = 0;  // the sum of the links to the leaves that were taken
  };
  struct Verdict {
    bool better = false;
    bool holds = false;  // the last switch above the first leaf that was compared holds what is left
  };

  std::int64_t room(DomainId at) const { return room_[static_cast<std::size_t>(at)]; }

  Verdict compare(DomainId a, DomainId b) const {
    for (;;) {
      const bool a_holds = room(a) >= left_, b_holds = room(b) >= left_;
      if (a_holds != b_holds) return {a_holds, a_holds};
      if (a_holds) return {room(a) < room(b), true};
      const DomainId above_a = world_.tree().parent(a), above_b = world_.tree().parent(b);
      if (above_a == above_b) return {room(a) > room(b), false};
      a = above_a;
      b = above_b;
    }
  }

  const Leaf* choose() const {
    const Leaf* best = nullptr;
    for (const Leaf& leaf : leaves_) {
      if (room(leaf.id) == 0) continue;
      if (best == nullptr) {
        best = &leaf;
        continue;
      }
      const Verdict verdict = compare(leaf.id, best->id);
      const bool closer = leaf.distance < best->distance && verdict.holds;
      if (closer || (leaf.distance == best->distance && verdict.better)) best = &leaf;
    }
    return best;
  }

  int links(DomainId a, DomainId b) const {
    int up = 0;
    for (; a != b; ++up) {
      a = world_.tree().parent(a);
      b = world_.tree().parent(b);
    }
    return 2 * up;
  }

  void take(DomainId leaf, NodePods& taken) {
    const std::int64_t share = std::min(left_, room(leaf));
    const NodePods nodes = fill_in_order(cells_inside(world_, gpus_, leaf, kNode), share);
    taken.insert(taken.end(), nodes.begin(), nodes.end());
    left_ -= share;
    const std::int64_t had = room(leaf);  // the leaf is used up: what is left over is not looked at again
    for (DomainId at = leaf; at != kNone; at = world_.tree().parent(at)) room_[static_cast<std::size_t>(at)] -= had;
    for (Leaf& other : leaves_) other.distance += links(other.id, leaf);
  }

  const World& world_;
  int gpus_;
  std::int64_t left_;
  std::vector<std::int64_t> room_;  // by DomainId
  std::vector<Leaf> leaves_;
};

class SlurmTree final : public Policy {
 public:
  NodePods place(const World& world, const Ask& ask) override {
    DomainId top = kRoot;
    if (ask.required) {
      top = kNone;
      for (const DomainId domain : world.domains(*ask.required)) {
        const std::int64_t room = room_of_domain(world, ask.gpus, domain);
        if (room >= ask.pods && (top == kNone || room < room_of_domain(world, ask.gpus, top))) top = domain;
      }
      if (top == kNone) return {};
    }
    return Allocation(world, ask.gpus, top, ask.pods).complete();
  }
};

}  // namespace

std::unique_ptr<Policy> slurm_tree() {
  return std::make_unique<SlurmTree>();
}

}  // namespace lockstep::bench
