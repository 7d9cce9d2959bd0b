// Lockstep's objective with more knowledge than a scheduler has or uses. It shows what such knowledge would be worth.
//
// The hole of a rack counts nodes that are expected to become free soon. So a gang goes where the other gangs stay, and
// racks that may soon be empty stay whole. For pods of whole nodes.
#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "tests/bench/placement/peer_cells.h"

namespace lockstep::bench {
namespace {

// Chosen by simulations with seeds from 101 on. Nodes that become free after this share of the gang's time do not
// count; how much of a node counts when its gang has just started, and at which age (s) half as much; how much of a
// node each gang counts.
constexpr double kHorizon = 0.4, kNewGang = 0.1, kHalfAge = 600, kEachGang = 0.02;

// Costs of 0, 1, ... pods in a domain, and how many of them each child gets.
struct Table {
  std::vector<double> costs{0};
  std::vector<std::vector<int>> shares;  // by child, by the pods in it and the children before it

  void add(const std::vector<double>& child, int most) {
    const auto size = std::min(static_cast<std::size_t>(most), costs.size() + child.size() - 2) + 1;
    std::vector<double> sums(size, std::numeric_limits<double>::infinity());
    std::vector<int> share(size, 0);
    for (std::size_t a = 0; a < costs.size(); ++a) {
      for (std::size_t b = 0; b < child.size() && a + b < size; ++b) {
        if (const double sum = costs[a] + child[b]; sum < sums[a + b]) {
          sums[a + b] = sum;
          share[a + b] = static_cast<int>(b);
        }
      }
    }
    costs = std::move(sums);
    shares.push_back(std::move(share));
  }

  std::vector<int> split(int pods) const {
    std::vector<int> parts(shares.size(), 0);
    for (std::size_t child = shares.size(); child-- > 0;) {
      parts[child] = shares[child][static_cast<std::size_t>(pods)];
      pods -= parts[child];
    }
    return parts;
  }
};

// One decision.
class Decision {
 public:
  Decision(const World& world, const Ask& ask, Knowledge knowledge, double block_span)
      : world_(world), ask_(ask), knowledge_(knowledge), block_span_(block_span) {}

  NodePods complete() {
    const int outermost = ask_.required.value_or(kClusterLevel);
    if (fill_one_rack()) return std::move(taken_);
    if (outermost == kRack) return {};
    std::vector<Table> blocks;
    for (const DomainId block : world_.domains(kBlock)) blocks.push_back(table_of(block));
    if (fill_one_block(blocks)) return std::move(taken_);
    if (outermost == kBlock) return {};
    Table cluster;
    for (const Table& block : blocks) cluster.add(block.costs, ask_.pods);
    if (cluster.costs.size() <= static_cast<std::size_t>(ask_.pods)) return {};
    const std::vector<int> parts = cluster.split(ask_.pods);
    for (std::size_t i = 0; i < blocks.size(); ++i) fill(world_.domains(kBlock)[i], blocks[i], parts[i]);
    return std::move(taken_);
  }

 private:
  int room(DomainId at) const { return static_cast<int>(world_.room(ask_.gpus)[static_cast<std::size_t>(at)]); }

  static double damage(double free, int taken, int nodes) { return taken * (2 * free - taken) / nodes; }

  double cost_of_block(DomainId block, int pods) const {
    if (pods == 0) return 0;
    return block_span_ +
           objective_.lambda * objective_.hole[kBlock] * damage(room(block), pods, world_.tree().node_count(block));
  }

  // What is free in the rack, and what may soon be.
  double hole(DomainId rack) const {
    double free = room(rack);
    if (ask_.residents.empty()) return free;
    std::set<int> gangs;
    for (const NodeId node : world_.tree().nodes(rack)) {
      const Resident& resident = ask_.residents[static_cast<std::size_t>(node)];
      if (resident.gang == kNone) continue;
      switch (knowledge_) {
        case Knowledge::kGangs:
          if (gangs.insert(resident.gang).second) free += kEachGang;
          break;
        case Knowledge::kAges:
          free += kNewGang * kHalfAge / (kHalfAge + resident.age);
          break;
        case Knowledge::kEnds:
          free += std::max(0.0, 1 - resident.left / std::max(60.0, kHorizon * ask_.seconds));
      }
    }
    return free;
  }

  double cost_of_rack(DomainId rack, double hole, int pods) const {
    return pods == 0 ? 0
                     : objective_.span[kRack] + objective_.lambda * objective_.hole[kRack] *
                                                    damage(hole, pods, world_.tree().node_count(rack));
  }

  bool fill_one_rack() {
    DomainId best = kNone;
    double lowest = std::numeric_limits<double>::infinity();
    for (const DomainId rack : world_.domains(kRack)) {
      if (room(rack) < ask_.pods) continue;
      const double cost =
          cost_of_rack(rack, hole(rack), ask_.pods) + cost_of_block(world_.tree().parent(rack), ask_.pods);
      if (cost < lowest) {
        lowest = cost;
        best = rack;
      }
    }
    if (best != kNone) take(best, ask_.pods);
    return best != kNone;
  }

  Table table_of(DomainId block) const {
    Table table;
    for (const DomainId rack : world_.tree().children(block)) {
      std::vector<double> costs;
      const double hole = this->hole(rack);
      for (int pods = 0; pods <= std::min(ask_.pods, room(rack)); ++pods) {
        costs.push_back(cost_of_rack(rack, hole, pods));
      }
      table.add(costs, ask_.pods);
    }
    for (std::size_t pods = 1; pods < table.costs.size(); ++pods) {
      table.costs[pods] += cost_of_block(block, static_cast<int>(pods));
    }
    return table;
  }

  bool fill_one_block(const std::vector<Table>& blocks) {
    const auto pods = static_cast<std::size_t>(ask_.pods);
    std::size_t best = blocks.size();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].costs.size() <= pods) continue;
      if (best == blocks.size() || blocks[i].costs[pods] < blocks[best].costs[pods]) best = i;
    }
    if (best == blocks.size()) return false;
    fill(world_.domains(kBlock)[best], blocks[best], ask_.pods);
    return true;
  }

  void fill(DomainId block, const Table& table, int pods) {
    const auto& racks = world_.tree().children(block);
    const std::vector<int> parts = table.split(pods);
    for (std::size_t i = 0; i < parts.size(); ++i) take(racks[i], parts[i]);
  }

  void take(DomainId rack, int pods) {
    const NodePods nodes = fill_in_order(cells_inside(world_, ask_.gpus, rack, kNode), pods);
    taken_.insert(taken_.end(), nodes.begin(), nodes.end());
  }

  const placement::Objective objective_ = placement::default_objective(kNode);  // of the levels above the node
  const World& world_;
  const Ask& ask_;
  Knowledge knowledge_;
  double block_span_;
  NodePods taken_;
};

class Oracle final : public Policy {
 public:
  Oracle(Knowledge knowledge, double block_span) : knowledge_(knowledge), block_span_(block_span) {}

  bool knows_residents() const override { return true; }
  NodePods place(const World& world, const Ask& ask) override {
    return Decision(world, ask, knowledge_, block_span_).complete();
  }

 private:
  Knowledge knowledge_;
  double block_span_;
};

}  // namespace

std::unique_ptr<Policy> oracle_policy(Knowledge knowledge, double block_span) {
  return std::make_unique<Oracle>(knowledge, block_span);
}

}  // namespace lockstep::bench
