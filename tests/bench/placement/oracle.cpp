// Lockstep's objective with knowledge that no scheduler has: when each gang ends. It shows what that would be worth.
//
// The hole of a rack counts nodes that are expected to become free soon. So a gang goes where the other gangs stay, and
// racks that may soon be empty stay whole. For pods of whole nodes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/bench/placement/peer_cells.h"

namespace lockstep::bench {
namespace {

// Chosen by simulations with seeds from 101 on. Nodes that become free after this share of the gang's time do not
// count.
constexpr double kHorizon = 0.4;

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
  Decision(const World& world, const Ask& ask) : world_(world), ask_(ask) {}

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

  double cost(int level, double hole, int taken, int nodes) const {
    if (taken == 0) return 0;
    const auto at = static_cast<std::size_t>(level);
    const int power = objective_.power[at];
    const double damage = std::pow(hole / nodes, power) - std::pow((hole - taken) / nodes, power);
    return objective_.span[at] + objective_.lambda * objective_.hole[at] * nodes * damage;
  }

  double cost_of_block(DomainId block, int pods) const {
    return cost(kBlock, room(block), pods, world_.tree().node_count(block));
  }

  // What is free in the rack, and what may soon be.
  double hole(DomainId rack) const {
    double free = room(rack);
    if (ask_.residents.empty()) return free;
    for (const NodeId node : world_.tree().nodes(rack)) {
      const Resident& resident = ask_.residents[static_cast<std::size_t>(node)];
      if (resident.gang == kNone) continue;
      free += std::max(0.0, 1 - resident.left / std::max(60.0, kHorizon * ask_.seconds));
    }
    return free;
  }

  double cost_of_rack(DomainId rack, double hole, int pods) const {
    return cost(kRack, hole, pods, world_.tree().node_count(rack));
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
  NodePods taken_;
};

class Oracle final : public Policy {
 public:
  bool knows_residents() const override { return true; }
  NodePods place(const World& world, const Ask& ask) override { return Decision(world, ask).complete(); }
};

}  // namespace

std::unique_ptr<Policy> oracle_policy() {
  return std::make_unique<Oracle>();
}

}  // namespace lockstep::bench
